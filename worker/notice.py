"""A cloud's notice that this machine will be taken away, turned into a stop.

AWS (EC2 metadata, version 2): a token by PUT /latest/api/token, then GET /latest/meta-data/spot/instance-action,
which is 404 until there is a notice of two minutes. GCE: GET /computeMetadata/v1/instance/preempted with the header
`Metadata-Flavor: Google`, which answers TRUE. A pod often cannot reach either (hop limit, network policy): then the
node's drain sends SIGTERM, and this watcher is not needed. A metadata server that does not answer is no notice.
"""

from __future__ import annotations

import json
import logging
import threading
import urllib.error
import urllib.request
from typing import Protocol

from worker.drain import StopSignal

log = logging.getLogger("worker")

TIMEOUT_S = 2.0
TOKEN_TTL_S = 300
AWS_URL = "http://169.254.169.254"
GCE_URL = "http://metadata.google.internal"


class NoticeSource(Protocol):
    """Something that knows whether this machine will be taken away."""

    def look(self) -> str | None:
        """Return what the notice says, or None while there is none.

        Raises:
            OSError: the source cannot be asked now.
        """
        ...


class AwsNotice:
    """EC2's spot interruption notice."""

    def __init__(self, url: str = AWS_URL) -> None:
        self._url = url

    def look(self) -> str | None:
        """Return the action and its time, or None."""
        token = _get(
            f"{self._url}/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_TTL_S)}, method="PUT"
        )
        if token is None:
            return None
        body = _get(f"{self._url}/latest/meta-data/spot/instance-action", {"X-aws-ec2-metadata-token": token})
        if body is None:
            return None
        notice = json.loads(body)
        return f"AWS will {notice.get('action', 'stop')} this instance at {notice.get('time', 'an unknown time')}"


class GceNotice:
    """Compute Engine's preemption notice."""

    def __init__(self, url: str = GCE_URL) -> None:
        self._url = url

    def look(self) -> str | None:
        """Return that the instance is preempted, or None."""
        body = _get(f"{self._url}/computeMetadata/v1/instance/preempted", {"Metadata-Flavor": "Google"})
        return "Google preempts this instance" if body is not None and body.strip().upper() == "TRUE" else None


def open_notice(kind: str, url: str) -> NoticeSource | None:
    """Return the source that a setting names (`aws`, `gce`), or None if it is empty."""
    if kind == "aws":
        return AwsNotice(url or AWS_URL)
    if kind == "gce":
        return GceNotice(url or GCE_URL)
    return None


class NoticeWatcher:
    """A thread that looks every `interval_s` and asks for a stop at the first notice."""

    def __init__(self, source: NoticeSource, stop: StopSignal, *, interval_s: float) -> None:
        self._source = source
        self._stop = stop
        self._interval_s = interval_s

    def start(self) -> None:
        """Start the thread; it ends with the stop."""
        threading.Thread(target=self._run, name="notice", daemon=True).start()

    def look(self) -> None:
        """Look once."""
        try:
            said = self._source.look()
        except (OSError, ValueError) as error:
            log.debug("no answer from the metadata server: %s", error)
            return
        if said is not None:
            self._stop.request(said)

    def _run(self) -> None:
        while not self._stop.requested:
            self.look()
            self._stop.wait(self._interval_s)


def _get(url: str, headers: dict[str, str], *, method: str = "GET") -> str | None:
    """Return the body, or None for a 404."""
    request = urllib.request.Request(url, headers=headers, method=method)  # noqa: S310 - an http address by intent
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
            body: bytes = answer.read()
            return body.decode()
    except urllib.error.HTTPError as error:
        if error.code == 404:  # noqa: PLR2004 - not found
            return None
        raise
