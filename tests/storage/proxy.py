"""An HTTP proxy on the loopback that stands before a store and does to its answers what networks do."""

import http.client
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Request:
    method: str
    target: str  # path and query as sent
    headers: dict[str, str]  # names in lower case

    @property
    def range(self) -> str | None:
        return self.headers.get("range")


@dataclass
class Answer:
    status: int
    headers: dict[str, str] = field(default_factory=dict)  # names in lower case
    body: bytes = b""
    cut_after: int | None = None  # bytes of the body after which the connection ends
    reset: bool = False  # and ends with what is on its way lost


Change = Callable[[Request, Answer], Answer]


def unchanged(request: Request, answer: Answer) -> Answer:
    return answer


def error(status: int, code: str, **headers: str) -> Answer:
    """An answer like a store's own."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>".encode()
    return Answer(status, {"content-type": "application/xml", **headers}, body)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Clients that leave early are what the tests are about; a wrong answer fails the test itself."""


class Proxy:
    """Forwards to `upstream`; `change` may edit or replace any answer, `rewrite` the target of a request."""

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream).netloc
        self.requests: list[Request] = []
        self.change: Change = unchanged
        self.rewrite: Callable[[str], str] = str
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                proxy._answer(self)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 (names of http.server)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def seen(self, method: str) -> list[Request]:
        """Requests of a method so far, listings left out."""
        return [r for r in self.requests if r.method == method and "list-type" not in r.target]

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        request = Request(handler.command, handler.path, headers)
        self.requests.append(request)
        if headers.get("expect") == "100-continue":  # else the client waits a second before it sends
            handler.send_response_only(100)
            handler.end_headers()
        body = handler.rfile.read(int(headers.get("content-length", 0)))
        answer = self.change(request, self._forward(request, body))
        handler.send_response_only(answer.status)
        length = answer.headers.pop("content-length", None)
        if request.method != "HEAD" or length is None:
            length = str(len(answer.body))
        answer.headers.pop("transfer-encoding", None)
        for name, value in {**answer.headers, "content-length": length, "connection": "close"}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.close_connection = True
        if request.method != "HEAD":
            handler.wfile.write(answer.body[: answer.cut_after])
        if answer.reset:
            handler.wfile.flush()
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.connection.close()

    def _forward(self, request: Request, body: bytes) -> Answer:
        connection = http.client.HTTPConnection(self.upstream, timeout=30)
        try:
            headers = {name: value for name, value in request.headers.items() if name != "connection"}
            connection.request(request.method, self.rewrite(request.target), body or None, headers)
            found = connection.getresponse()
            names = {name.lower(): value for name, value in found.getheaders()}
            return Answer(found.status, names, found.read())
        finally:
            connection.close()
