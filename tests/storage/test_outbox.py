"""Batches sent in the background: one at a time, of those that wait only the newest."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from trainer.errors import InputError
from trainer.storage.outbox import Outbox


@dataclass
class Batch:
    name: str
    closed: threading.Event = field(default_factory=threading.Event)

    def close(self) -> None:
        assert not self.closed.is_set(), f"{self.name} closed twice"
        self.closed.set()


class Sender:
    """Sends when the test lets it."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.failures: list[str] = []
        self.begun = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.outbox: Outbox[Batch] = Outbox(self.send, lambda error: self.failures.append(str(error)))

    def send(self, batch: Batch) -> None:
        self.begun.release()
        assert self.go.acquire(timeout=10)
        if batch.name.startswith("bad"):
            raise InputError(batch.name)
        self.sent.append(batch.name)

    def offer(self, name: str) -> Batch:
        batch = Batch(name)
        self.outbox.offer(batch)
        return batch


@pytest.fixture
def sender() -> Iterator[Sender]:
    made = Sender()
    yield made
    made.outbox.close()


def test_of_what_waits_only_the_newest_is_sent(sender: Sender) -> None:
    first = sender.offer("first")
    assert sender.begun.acquire(timeout=10)
    dropped, newest = sender.offer("dropped"), sender.offer("newest")
    assert dropped.closed.is_set()
    assert not first.closed.is_set()
    sender.go.release(2)
    assert sender.outbox.wait(10, lambda: None)
    assert sender.sent == ["first", "newest"]
    assert first.closed.is_set()
    assert newest.closed.is_set()


def test_a_failure_is_told_and_the_next_batch_is_sent(sender: Sender) -> None:
    sender.go.release(2)
    bad = sender.offer("bad 1")
    with pytest.raises(InputError, match="bad 1"):
        sender.outbox.wait(10, lambda: None)
    assert bad.closed.is_set()
    sender.offer("good")
    assert sender.outbox.wait(10, lambda: None)
    assert (sender.sent, sender.failures) == (["good"], ["bad 1"])


def test_waiting_ends_at_its_limit_and_polls_meanwhile(sender: Sender) -> None:
    sender.offer("slow")
    polls: list[int] = []
    assert not sender.outbox.wait(0.3, lambda: polls.append(1))
    assert polls
    sender.go.release()
    assert sender.outbox.wait(10, lambda: None)


def test_closing_drops_what_waits_and_ends_behind_what_is_at_hand(sender: Sender) -> None:
    first = sender.offer("first")
    assert sender.begun.acquire(timeout=10)
    waits = sender.offer("waits")
    sender.outbox.close()
    assert waits.closed.is_set()
    sender.go.release()
    assert first.closed.wait(10)
    assert sender.sent == ["first"]


def test_with_nothing_to_send_there_is_nothing_to_wait_for(sender: Sender) -> None:
    assert sender.outbox.wait(0, lambda: pytest.fail("polled"))
