"""Work done in the background, of which only the newest that waits is kept."""

import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

POLL_S = 0.1


class Closable(Protocol):
    """A batch that holds files open."""

    def close(self) -> None:
        """Lets go of them."""


B = TypeVar("B", bound=Closable)


class Outbox(Generic[B]):
    """One thread that sends batches, one at a time.

    A batch offered while another waits takes its place: who is slow loses old ones and never grows.
    `on_failure` gets every exception of `send`, in that thread, which ends with the process.
    """

    def __init__(self, send: Callable[[B], None], on_failure: Callable[[Exception], None]) -> None:
        self._send, self._on_failure = send, on_failure
        self._change = threading.Condition()
        self._waiting: B | None = None
        self._busy = self._closed = False
        self._failure: Exception | None = None
        self._thread: threading.Thread | None = None

    def offer(self, batch: B) -> None:
        """Hands a batch over and returns at once."""
        with self._change:
            dropped, self._waiting = self._waiting, batch
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="outbox", daemon=True)
                self._thread.start()
            self._change.notify_all()
        if dropped is not None:
            dropped.close()

    def wait(self, limit_s: float | None, on_poll: Callable[[], None]) -> bool:
        """Waits until nothing is left to send, for `limit_s` at most; whether nothing is left.

        Raises what the last batch failed with.
        """
        give_up = None if limit_s is None else time.monotonic() + limit_s
        while True:
            with self._change:
                if not self._busy and self._waiting is None:
                    if self._failure is not None:
                        raise self._failure
                    return True
                self._change.wait(POLL_S)
            on_poll()
            if give_up is not None and time.monotonic() >= give_up:
                return False

    def close(self) -> None:
        """Drops what waits; the thread ends behind the batch at hand. Does not wait."""
        with self._change:
            dropped, self._waiting, self._closed = self._waiting, None, True
            self._change.notify_all()
        if dropped is not None:
            dropped.close()

    def _work(self) -> None:
        while (batch := self._next()) is not None:
            failure: Exception | None = None
            try:
                self._send(batch)
            except Exception as error:  # kept for `wait`: the thread must live on
                failure = error
                self._on_failure(error)
            finally:
                batch.close()
            with self._change:
                self._busy, self._failure = False, failure
                self._change.notify_all()

    def _next(self) -> B | None:
        with self._change:
            while self._waiting is None and not self._closed:
                self._change.wait()
            batch, self._waiting = self._waiting, None
            self._busy = batch is not None
            return batch
