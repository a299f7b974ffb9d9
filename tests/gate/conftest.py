"""The two markets of these tests, written and cached once."""

from collections.abc import Iterator

import pytest
import torch

from tests.gate.market import Market, open_market
from tests.gate.traders import optimal
from trainer.learn.metrics import FoldMetrics
from trainer.learn.replayer import Account


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """As the trainer runs: sums differ between thread counts."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Market:
    """Two folds of 2,048 decisions whose coming move the book shows."""
    return open_market("planted", tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="session")
def martingale(tmp_path_factory: pytest.TempPathFactory) -> Market:
    """The same, with a price that nothing foretells."""
    return open_market("martingale", tmp_path_factory.mktemp("martingale"))


@pytest.fixture(scope="session")
def winner(planted: Market) -> list[Account]:
    """The optimal trader's account on both folds of the planted market."""
    return planted.replay(optimal)


@pytest.fixture(scope="session")
def winning(planted: Market, winner: list[Account]) -> list[FoldMetrics]:
    """Its metrics."""
    return planted.metrics(winner)
