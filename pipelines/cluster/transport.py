"""Requests to a Kubernetes API or an Argo server: timeouts on each, one line for every failure.

It uses urllib3 directly: the `kubernetes` client's own calls changed their signature between its versions,
Hera's have no timeouts.
"""

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import urllib3
import urllib3.exceptions as http

from pipelines.cluster.api import Body, UnreachableError
from pipelines.cluster.failures import Call, Origin, answer_failure, connection_failure
from trainer.errors import InputError

CONNECT_S = 5.0
ANSWER_S = 30.0
# KEEP_ALIVE notices a peer that went away without a word within a minute; this is for what lies between.
QUIET_S = 300.0
CHUNK_BYTES = 65_536
JSON = "application/json"
# Kept open; of more at a time urllib3 would warn on stderr. Following logs takes one for each pod.
NUM_CONNECTIONS = 64
KEEP_ALIVE = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), seconds)
        for name, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
        if hasattr(socket, name)
    ),
]


class QuietError(UnreachableError):
    """Nothing came for as long as the caller was ready to wait; the stream may be alive."""


class Transport:
    """One server. authorization: gives the header's value for each request, empty for none."""

    def __init__(
        self, pool: urllib3.PoolManager, base_url: str, origin: Origin, authorization: Callable[[], str]
    ) -> None:
        self._pool, self._base_url, self._authorization = pool, base_url.rstrip("/"), authorization
        self.origin = origin

    def ask(
        self,
        call: Call,
        body: Body | None = None,
        content_type: str = JSON,
        *,
        accept: str = JSON,
        answer_s: float = ANSWER_S,
    ) -> Body:
        """The JSON object that the server answers; InputError with one line for anything else."""
        response = self._send(call, body, content_type, answer_s, accept)
        try:
            data = response.read()
        except http.HTTPError as error:
            raise connection_failure(error, self.origin) from error
        finally:
            response.release_conn()
        try:
            answer = json.loads(data)
        except ValueError as error:
            what = "the answer is not JSON"
            raise InputError(
                what, where=self.origin.address, do="check that it is the API's address"
            ) from error
        return answer if isinstance(answer, dict) else {}

    def date(self, path: tuple[str, ...]) -> str:
        """The server's `Date` header, whatever it answers; empty where it sends none."""
        call = Call("GET", path, "get", "", "")
        return str(self._request(call, None, "", ANSWER_S, "*/*").headers.get("Date", ""))

    def lines(
        self, call: Call, *, accept: str, quiet_s: float = QUIET_S, cut_tail: bool = True
    ) -> Iterator[str]:
        """Lines of a stream as they come, without newline.

        quiet_s: longest wait for the next bytes; then QuietError. cut_tail: drop what follows the last
        newline, which may be half a line. Raises UnreachableError when the connection breaks.
        """
        response = self._send(call, None, "", quiet_s, accept)
        rest = b""
        try:
            for chunk in response.stream(CHUNK_BYTES, decode_content=True):
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    yield line.decode("utf-8", "replace")
        except http.ReadTimeoutError as error:
            raise QuietError("nothing came in time", where=self.origin.address, do="try again") from error
        except (http.HTTPError, OSError) as error:
            raise connection_failure(error, self.origin) from error
        finally:
            # Unread data would be answered to the next request on this connection.
            response.close()
        if rest and not cut_tail:
            yield rest.decode("utf-8", "replace")

    def _send(
        self, call: Call, body: Body | None, content_type: str, read_s: float, accept: str
    ) -> urllib3.BaseHTTPResponse:
        response = self._request(call, body, content_type, read_s, accept)
        if 200 <= response.status < 300:
            return response
        try:
            text = response.read(CHUNK_BYTES).decode("utf-8", "replace")
        except http.HTTPError:
            text = ""
        finally:
            response.close()
        token = self._authorization().rpartition(" ")[2] if response.status == 401 else ""
        raise answer_failure(call, response.status, text, self.origin, token)

    def _request(
        self, call: Call, body: Body | None, content_type: str, read_s: float, accept: str
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": accept, "User-Agent": "alpha-rl"}
        if authorization := self._authorization():
            headers["Authorization"] = authorization
        if body is not None:
            headers["Content-Type"] = content_type
        query = f"?{urlencode(call.query)}" if call.query else ""
        try:
            return self._pool.request(
                call.method,
                self._base_url + call.url_path + query,
                body=None if body is None else json.dumps(body).encode(),
                headers=headers,
                timeout=urllib3.Timeout(connect=CONNECT_S, read=read_s),
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except (http.HTTPError, OSError) as error:
            raise connection_failure(error, self.origin) from error


def json_lines(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Objects of a stream with one a line, with or without `data: ` before it; other lines are skipped."""
    for line in lines:
        text = line.removeprefix("data:").strip()
        if text.startswith("{"):
            try:
                yield json.loads(text)
            except ValueError:
                continue


class Namespaced:
    """A namespace of one server: what the two kinds of `WorkflowApi` have in common."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self._transport, self._namespace = transport, namespace

    @property
    def namespace(self) -> str:
        return self._namespace

    @property
    def address(self) -> str:
        return self._transport.origin.address
