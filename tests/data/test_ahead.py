"""An iterator in a thread: same items, same error, bounded, and stopped when its consumer is done."""

import threading
import time
from collections.abc import Generator

import pytest

from trainer.data.ahead import Ahead


def counting(num: int, made: list[int], error: Exception | None = None) -> Generator[int, None, None]:
    try:
        for item in range(num):
            made.append(item)
            yield item
        if error is not None:
            raise error
    finally:
        made.append(-1)


def wait_until_settled(made: list[int]) -> None:
    """Until the thread has made nothing new for a while; it makes items in microseconds."""
    before = -1
    while before != len(made):
        before = len(made)
        time.sleep(0.05)


def test_items_come_in_order_and_the_end_stays_the_end() -> None:
    items = Ahead(counting(100, []), depth=3)
    assert list(items) == list(range(100))
    assert next(items, "end") == "end"


def test_the_error_comes_after_the_items_before_it() -> None:
    items = Ahead(counting(2, [], ValueError("damaged")), depth=5)
    assert [next(items), next(items)] == [0, 1]
    with pytest.raises(ValueError, match="damaged"):
        next(items)
    assert list(items) == []


def test_the_thread_runs_ahead_by_depth_and_no_further() -> None:
    made: list[int] = []
    with Ahead(counting(1_000, made), depth=4) as items:
        assert next(items) == 0
        wait_until_settled(made)
        assert len(made) == 1 + 4 + 1, "taken, waiting, and one that finds no room"


@pytest.mark.parametrize("taken", [0, 1, 5])
def test_closing_stops_the_thread_and_closes_the_source(taken: int) -> None:
    made: list[int] = []
    before = threading.active_count()
    with Ahead(counting(1_000, made), depth=2) as items:
        for _ in range(taken):
            next(items)
    assert threading.active_count() == before
    assert made[-1] == -1, "the generator's own clean-up ran"
    assert len(made) < 20
    assert list(items) == []
