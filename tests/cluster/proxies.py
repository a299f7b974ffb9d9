"""Connections that break: what stands between a command and a server, and cuts in at a chosen moment."""

import random
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import yaml


def kubeconfig_through(proxy: "Proxy", kubeconfig: str, file: Path) -> Path:
    """Writes a kubeconfig with the same credentials whose server is the proxy; returns the file."""
    config = yaml.safe_load(Path(kubeconfig).read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
    file.write_text(yaml.safe_dump(config))
    file.chmod(0o600)
    return file


def api_server(kubeconfig: str) -> tuple[str, int]:
    """Host and port of the API server."""
    config = yaml.safe_load(Path(kubeconfig).read_text())
    host, _, port = config["clusters"][0]["cluster"]["server"].removeprefix("https://").rpartition(":")
    return host, int(port)


class Proxy:
    """Passes connections on to a server; `with` ends it. num_cuts: connections that it broke."""

    def __init__(self, server: tuple[str, int]) -> None:
        self.server, self.num_cuts = server, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed: the test is over
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(self.server) as upstream:
            back = threading.Thread(target=self._pump, args=(upstream, client, self._answer), daemon=True)
            back.start()
            self._pump(client, upstream, self._request)
            back.join()

    def _pump(self, source: socket.socket, sink: socket.socket, passes: Callable[[bytes], bool]) -> None:
        """Carries data one way until an end closes, or `passes` says that this is where it breaks."""
        with suppress(OSError):
            while data := source.recv(65_536):
                if not passes(data):
                    self._cut(source, sink)
                    return
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def _cut(self, *ends: socket.socket) -> None:
        self.num_cuts += 1
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _request(self, data: bytes) -> bool:
        return True

    def _answer(self, data: bytes) -> bool:
        return True


class CuttingProxy(Proxy):
    """Cuts each connection off after a while."""

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(self.server) as upstream:
            for pair in ((client, upstream), (upstream, client)):
                threading.Thread(target=self._pump, args=(*pair, self._answer), daemon=True).start()
            time.sleep(random.uniform(0.3, 4))
            self._cut(client, upstream)


class BetweenRequestsProxy(Proxy):
    """Lets something happen once, after an answer of some size and before the next request arrives."""

    def __init__(self, server: tuple[str, int], num_bytes: int, happens: Callable[[], None]) -> None:
        self.num_bytes, self.happens, self.happened = num_bytes, happens, threading.Event()
        super().__init__(server)

    def _answer(self, data: bytes) -> bool:
        self.num_bytes -= len(data)
        return True

    def _request(self, data: bytes) -> bool:
        if self.num_bytes > 0 or self.num_cuts:
            return True
        self.num_cuts += 1
        self.happens()
        self.happened.set()
        return False


class LostAnswerProxy(Proxy):
    """Loses the answer to the first request that begins so; plain HTTP only."""

    def __init__(self, server: tuple[str, int], beginning: bytes) -> None:
        self.beginning, self.waiting = beginning, False
        super().__init__(server)

    def _request(self, data: bytes) -> bool:
        if not self.num_cuts and data.startswith(self.beginning):
            self.waiting = True
        return True

    def _answer(self, data: bytes) -> bool:
        lost, self.waiting = self.waiting, False
        return not lost
