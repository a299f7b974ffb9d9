"""An iterator that runs in a thread ahead of its consumer: decompression and numpy release the GIL."""

import queue
import threading
from collections.abc import Generator, Iterator
from types import TracebackType
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Ahead(Iterator[Item], Generic[Item]):
    """Yields what `items` yields, made by a thread up to `depth` items ahead.

    Order, items and the error at the end are those of `items`, which runs and is closed in the thread only.
    Memory is bounded by `depth` + 2 items. `close` stops the thread and waits for it.
    """

    def __init__(self, items: Generator[Item, None, None], depth: int) -> None:
        self._items = items
        # One-tuples are items; an exception, or None, is the end.
        self._queue: queue.Queue[tuple[Item] | BaseException | None] = queue.Queue(depth)
        self._stopped = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="read-ahead", daemon=True)
        self._thread.start()

    def __next__(self) -> Item:
        if self._ended:
            raise StopIteration
        found = self._queue.get()
        if isinstance(found, tuple):
            return found[0]
        self._ended = True
        self._thread.join()
        if found is None:
            raise StopIteration
        raise found

    def close(self) -> None:
        """Stops the thread; it finishes the item that it is at."""
        self._ended = True
        self._stopped.set()
        # After the flag the thread puts at most one more item, and the emptied queue has room for it.
        while True:
            try:
                self._queue.get_nowait()
            except queue.Empty:
                break
        self._thread.join()

    def __enter__(self) -> "Ahead[Item]":
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _at: TracebackType | None) -> None:
        self.close()

    def _run(self) -> None:
        end: BaseException | None = None
        try:
            for item in self._items:
                if self._stopped.is_set():
                    break
                self._queue.put((item,))
            self._items.close()
        except BaseException as error:
            end = error
        if not self._stopped.is_set():
            self._queue.put(end)
