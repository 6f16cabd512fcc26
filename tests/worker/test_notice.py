"""Notices of AWS and GCE, from a small server that speaks them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from resources.clock import SystemClock
from worker.drain import StopSignal
from worker.notice import AwsNotice, GceNotice, NoticeWatcher


class _Metadata(BaseHTTPRequestHandler):
    notice = False

    def do_PUT(self) -> None:
        self._answer(200 if self.headers.get("X-aws-ec2-metadata-token-ttl-seconds") else 400, "secret-token")

    def do_GET(self) -> None:
        server: MetadataServer = self.server  # type: ignore[assignment]
        if self.path.startswith("/latest/"):
            if self.headers.get("X-aws-ec2-metadata-token") != "secret-token":
                self._answer(401, "")
            elif server.notice:
                self._answer(200, '{"action": "terminate", "time": "2030-01-01T00:02:00Z"}')
            else:
                self._answer(404, "")
        elif self.headers.get("Metadata-Flavor") == "Google":
            self._answer(200, "TRUE" if server.notice else "FALSE")
        else:
            self._answer(403, "")

    def _answer(self, code: int, body: str) -> None:
        self.send_response(code)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class MetadataServer(ThreadingHTTPServer):
    """A metadata server whose notice a test switches on."""

    notice = False


@pytest.fixture
def metadata() -> Iterator[MetadataServer]:
    """A running metadata server on a free port."""
    with MetadataServer(("127.0.0.1", 0), _Metadata) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("source", [AwsNotice, GceNotice])
def test_a_notice_asks_for_a_stop_once_it_is_there(
    metadata: MetadataServer, source: type[AwsNotice | GceNotice]
) -> None:
    """Without a notice nothing happens; with one the worker is asked to stop, with the reason."""
    stop = StopSignal(SystemClock(), 10.0)
    watcher = NoticeWatcher(source(f"http://127.0.0.1:{metadata.server_port}"), stop, interval_s=5.0)
    watcher.look()
    assert not stop.requested
    metadata.notice = True
    watcher.look()
    assert stop.requested
    assert "instance" in stop.reason


def test_a_metadata_server_that_is_away_is_no_notice() -> None:
    """Outside of that cloud, or behind a network policy, the worker goes on."""
    stop = StopSignal(SystemClock(), 10.0)
    NoticeWatcher(AwsNotice("http://127.0.0.1:9"), stop, interval_s=5.0).look()
    assert not stop.requested
