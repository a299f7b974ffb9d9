"""A web server on the loopback that answers what a test tells it; its streams end, break or fall silent."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Answer:
    """body: an object sent as JSON, a text, or chunks of a stream.

    end: of the stream: `whole`, `cut` (no last chunk) or `silent`.
    """

    body: Any = ""
    status: int = 200
    end: str = "whole"
    headers: dict[str, str] = field(default_factory=dict)


class Loopback:
    """requests: all that came, in order. answer: called for each; may be replaced at any time."""

    def __init__(self, answer: Callable[[Request], Answer], certificate: Path | None = None) -> None:
        self.answer, self.requests = answer, list[Request]()
        self.released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self.host = f"127.0.0.1:{self.port}"
        self.url = f"http{'s' if certificate else ''}://{self.host}"

    def __enter__(self) -> "Loopback":
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


def _handler(owner: Loopback) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = Request(
                self.command,
                parts.path,
                dict(parse_qsl(parts.query)),
                {key.lower(): value for key, value in self.headers.items()},
                json.loads(data) if data else None,
            )
            owner.requests.append(request)
            answer = owner.answer(request)
            self.send_response(answer.status)
            for key, value in answer.headers.items():
                self.send_header(key, value)
            if isinstance(answer.body, list):
                self._stream(answer)
                return
            text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def _stream(self, answer: Answer) -> None:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for chunk in answer.body:
                self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            self.wfile.flush()
            if answer.end == "silent":
                owner.released.wait(20)
            if answer.end == "whole":
                self.wfile.write(b"0\r\n\r\n")
            else:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

        do_GET = do_POST = do_PUT = do_PATCH = _serve  # noqa: N815 (the base class calls them so)

    return Handler


@contextmanager
def serving(
    answer: Answer | Callable[[Request], Answer], certificate: Path | None = None
) -> Iterator[Loopback]:
    """A running server, ended afterwards."""
    told = answer if callable(answer) else lambda request: answer
    with Loopback(told, certificate) as server:
        yield server


def events(*pairs: tuple[str, dict[str, Any]]) -> list[bytes]:
    """Chunks of a Kubernetes watch."""
    return [json.dumps({"type": kind, "object": body}).encode() + b"\n" for kind, body in pairs]


def until_error(stream: Iterator[Any]) -> tuple[list[Any], Exception | None]:
    """What a stream gives before it ends or raises, and what it raises."""
    came = []
    try:
        for item in stream:
            came.append(item)
    except Exception as error:
        return came, error
    return came, None
