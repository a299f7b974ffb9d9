"""Threads for requests that may stall: unlike ThreadPoolExecutor's, they let the process end."""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any

Task = tuple[Future[Any], Callable[[], Any]]


class DaemonThreads(Executor):
    """`max_workers` threads that end with the process, whatever they wait for."""

    def __init__(self, max_workers: int) -> None:
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(max_workers)]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Runs `fn` in one of the threads."""
        future: Future[Any] = Future()
        self._tasks.put((future, lambda: fn(*args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Lets the threads end behind what was submitted."""
        for _ in self._threads:
            self._tasks.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, call = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:  # for whoever asks for the result
                future.set_exception(error)
