"""The records of synthetic files: rows that name their order, trades that take what they say, one stream."""

from pathlib import Path

import numpy as np
import pytest

from tests.data.decoded import ROWS, SESSIONS, TICK, chunk_of, market, read, valid_rows
from trainer.data import orderflow
from trainer.data.latent import MEAN_SPREAD_TICKS
from trainer.data.synthetic import trading_sessions, write_market


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_market(market("planted"), tmp_path_factory.mktemp("planted"))


def test_a_row_names_the_order_that_ended_its_event(files: list[Path]) -> None:
    """Action, side, price and size of the record against the shown books of this row and the row before."""
    records = read(files[0])
    at = valid_rows(records, trading_sessions(1)[0].open_ns)
    rows, before = records[at[1:]], records[at[:-1]]
    agrees: dict[bytes, list[bool]] = {b"A": [], b"C": [], b"M": []}
    for row, earlier in zip(rows[:3000], before[:3000], strict=True):
        name = "bid" if row["side"] == b"B" else "ask"
        (lots, orders), (old_lots, old_orders) = (
            (levels[f"{name}_sz"][same].sum(dtype=np.int64), levels[f"{name}_ct"][same].sum(dtype=np.int64))
            for levels in (row["levels"], earlier["levels"])
            for same in [levels[f"{name}_px"] == row["price"]]
        )
        joined, left = lots > old_lots and orders > old_orders, lots < old_lots and orders < old_orders
        expected = b"A" if joined else b"C" if left else b"M"
        sized = row["size"] == max(abs(lots - old_lots), 1)
        agrees[bytes(row["action"])].append(bool(row["action"] == expected and sized))
    # What lies behind the tenth level is not shown: the order there may look larger than it was.
    assert all(np.mean(found) > 0.97 and len(found) > 50 for found in agrees.values())


def test_what_was_traded_is_gone_from_the_next_row(files: list[Path]) -> None:
    records = read(files[0])
    at = valid_rows(records, trading_sessions(1)[0].open_ns)
    following = records[at[np.searchsorted(at, np.flatnonzero(records["action"] == b"T"))]]
    gone = 0
    for trade, row in zip(records[records["action"] == b"T"], following, strict=True):
        levels, after = trade["levels"], row["levels"]
        name = "ask" if (levels["ask_px"] == trade["price"]).any() else "bid"
        [shown] = levels[f"{name}_sz"][levels[f"{name}_px"] == trade["price"]]
        left = after[f"{name}_sz"][after[f"{name}_px"] == trade["price"]].sum()
        assert shown - left == trade["size"]
        gone += int(left == 0)
    assert 0.2 < gone / len(following) < 0.9, "some trades end a queue, some do not"


def test_a_session_of_several_blocks_is_one_stream(tmp_path: Path) -> None:
    """One row more than whole blocks: a last block of one row, with or without an order in it."""
    rows = orderflow.BLOCK_ROWS + 1
    records = read(write_market(market("planted", rows=rows, sessions=1), tmp_path)[0])
    np.testing.assert_array_equal(records["sequence"], np.arange(1, len(records) + 1))
    chunk = chunk_of(records, trading_sessions(1)[0])
    assert len(chunk) == rows
    known = np.isin(chunk.bid_px[-1], chunk.bid_px[-2])
    assert known.sum() >= 7, "the book goes on where the block before left it"


def test_every_valid_row_is_written_once_in_time_order_on_the_grid(files: list[Path]) -> None:
    for path, session in zip(files, trading_sessions(SESSIONS), strict=True):
        records = read(path)
        assert (np.diff(records["ts_recv"].astype(np.int64)) >= 0).all()
        chunk = chunk_of(records, session)
        assert len(chunk) == ROWS
        assert int(chunk.ts_ns[-1]) < session.close_ns
        prices = records["levels"]["bid_px"]
        assert (prices[prices < np.iinfo(np.int64).max] % TICK == 0).all()
        spread = chunk.ask_px[:, 0] - chunk.bid_px[:, 0]
        assert set(np.unique(spread)) == {1, 2}
        assert spread.mean() == pytest.approx(MEAN_SPREAD_TICKS, abs=0.02)
        for worse in (-np.diff(chunk.bid_px, axis=1), np.diff(chunk.ask_px, axis=1)):
            assert (worse >= 0).all()
