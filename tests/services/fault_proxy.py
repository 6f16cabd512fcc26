"""An HTTP proxy that misbehaves on order: what a network and a busy object store do to a request."""

from __future__ import annotations

import enum
import http.client
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


class Fault(enum.Enum):
    """What happens to one request."""

    NONE = "forwarded"
    SLOW_DOWN = "answered 503 and not forwarded"
    CONFLICT = "answered 409 and not forwarded"
    FORBIDDEN = "answered 403 and not forwarded"
    DROP_BEFORE = "connection reset, not forwarded"
    ERROR_AFTER = "forwarded, and answered 500"
    DROP_AFTER = "forwarded, and the connection reset instead of an answer"


_ANSWERS = {
    Fault.SLOW_DOWN: (503, "SlowDown"),
    Fault.CONFLICT: (409, "ConditionalRequestConflict"),
    Fault.FORBIDDEN: (403, "AccessDenied"),
    Fault.ERROR_AFTER: (500, "InternalError"),
}


class FaultProxy:
    """Forwards to a local port; `fail` queues faults for the next requests of some methods."""

    def __init__(self, upstream_port: int) -> None:
        self._faults: deque[Fault] = deque()
        self._methods: frozenset[str] = frozenset()
        self._always = Fault.NONE
        self._lock = threading.Lock()
        self.seen: list[tuple[str, Fault]] = []
        self._server = _Server(self, upstream_port)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def endpoint_url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def fail(self, faults: Iterable[Fault], *, methods: Iterable[str] = ("PUT",), always: Fault = Fault.NONE) -> None:
        """Apply `faults` to the next requests with these methods, one each, then `always`; forget what was seen."""
        with self._lock:
            self._faults = deque(faults)
            self._methods = frozenset(methods)
            self._always = always
            self.seen = []

    def next_fault(self, method: str) -> Fault:
        """Take the fault of a request and note it."""
        with self._lock:
            fault = Fault.NONE
            if method in self._methods:
                fault = self._faults.popleft() if self._faults else self._always
            self.seen.append((method, fault))
            return fault

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, proxy: FaultProxy, upstream_port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.proxy = proxy
        self.upstream_port = upstream_port


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None:
        """Say nothing: the test does."""

    def serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.proxy.next_fault(self.command)
        if fault in {Fault.NONE, Fault.ERROR_AFTER, Fault.DROP_AFTER}:
            answer = self.forward(body)
        if fault is Fault.NONE:
            self.answer(*answer)
        elif fault in _ANSWERS:
            status, code = _ANSWERS[fault]
            self.answer(status, [], f"<Error><Code>{code}</Code><Message>made up</Message></Error>".encode())
        else:
            self.reset()

    def forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream_port, timeout=30)
        try:
            # The request is signed, its Host header included: it goes on exactly as it came.
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                upstream.putheader(name, value)
            upstream.endheaders(body)
            answer = upstream.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            upstream.close()

    def answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        length = next((value for name, value in headers if name.lower() == "content-length"), "0")
        for name, value in headers:
            if name.lower() not in _HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", length if self.command == "HEAD" else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True


for _method in ("GET", "PUT", "HEAD", "DELETE", "POST"):
    setattr(_Handler, f"do_{_method}", _Handler.serve)
