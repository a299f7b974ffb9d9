"""Trades of separate files, joined to rows by receive time."""

import itertools
from dataclasses import replace

import databento_dbn
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.config import Config
from trainer.data.cache import build_cache
from trainer.data.calendar import Sessions
from trainer.data.rows import RowBuilder
from trainer.data.trades import TradeStream
from trainer.errors import InputError
from trainer.presets import INSTRUMENTS

SECOND_NS = 1_000_000_000
TRADES = databento_dbn.Schema.TRADES


@pytest.fixture
def rows(make_records):
    """10 rows, one a second from the session's open on; the fifth and the sixth share their time."""
    records = make_records(10, step_ns=SECOND_NS)
    records["ts_recv"][5] = records["ts_recv"][4]
    sessions = Sessions("CME_Equity")
    return RowBuilder(INSTRUMENTS["ES"], None, 60.0, sessions).push(records)


def part(chunk, start, end):
    return replace(chunk, **{name: column[start:end] for name, column in vars(chunk).items()})


def join(files, chunk, cuts=(), ident=7):
    """Signed volume and trade count of all rows, joined in parts."""
    stream = TradeStream(files, Sessions("CME_Equity"), chunk_records=3)
    bounds = [0, *cuts, len(chunk)]
    parts = [part(chunk, a, b) for a, b in itertools.pairwise(bounds)]
    joined = [stream.join(p, np.full(len(p), ident)) for p in parts]
    volume, count = (
        np.concatenate([getattr(j, n) for j in joined]) for n in ("signed_volume", "trade_count")
    )
    return volume.tolist(), count.tolist(), stream


def test_row_gets_trades_after_the_row_before_up_to_its_own_time(tmp_path, rows, make_trades, encode, write):
    start = int(rows.ts_ns[0])
    offsets = [0, 1, SECOND_NS, SECOND_NS + 1, 4 * SECOND_NS, 9 * SECOND_NS, 9 * SECOND_NS + 1]
    sizes, sides = [1, 2, 4, 8, 16, 32, 64], [b"B", b"B", b"A", b"N", b"B", b"A", b"B"]
    trades = make_trades(start + np.array(offsets), sizes, sides)
    path = write(tmp_path / "t.dbn.zst", encode(trades, schema=TRADES))
    for cuts in ((), (1,), (2, 5), tuple(range(1, 10))):
        volume, count, stream = join([path], rows, cuts)
        assert count == [1, 2, 1, 0, 1, 0, 0, 0, 0, 1]
        assert volume == [1, 2 - 4, 0, 0, 16, 0, 0, 0, 0, -32]
        assert stream.num_joined == 6, "the trade after the last row belongs to no row"


def test_trades_of_another_session_or_instrument_are_dropped(tmp_path, rows, make_trades, encode, write):
    start = int(rows.ts_ns[0])
    times = [start - 2 * 3_600 * SECOND_NS, start - 60 * SECOND_NS, start]
    trades = make_trades(times, [1, 2, 4], [b"B", b"B", b"B"])
    path = write(tmp_path / "t.dbn", encode(trades, schema=TRADES))
    assert join([path], rows)[0] == [4] + [0] * 9
    assert join([path], rows, ident=8)[1] == [0] * 10


def test_files_follow_each_other(tmp_path, rows, make_trades, encode, write):
    start = int(rows.ts_ns[0])
    files = [
        write(tmp_path / f"{name}.dbn", encode(make_trades([start + at], [3], [b"B"]), schema=TRADES))
        for name, at in (("a", 0), ("b", 3 * SECOND_NS))
    ]
    assert join(files, rows)[0] == [3, 0, 0, 3, 0, 0, 0, 0, 0, 0]
    with pytest.raises(InputError, match=r"a\.dbn @ \d+: ts_recv goes backwards"):
        join(files[::-1], rows)


def test_book_file_in_place_of_trades_is_an_error(tmp_path, rows, make_records, encode, write):
    path = write(tmp_path / "t.dbn", encode(make_records(3)))
    with pytest.raises(InputError, match="schema mbp-10, not trades"):
        join([path], rows)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000))
def test_join_equals_a_scalar_count_in_any_chunking(
    tmp_path_factory, make_records, make_trades, encode, write, seed
):
    rng = np.random.default_rng(seed)
    records = make_records(30)
    start = int(records["ts_recv"][0])
    records["ts_recv"] = start + np.sort(rng.integers(0, 40, 30)) * SECOND_NS
    chunk = RowBuilder(INSTRUMENTS["ES"], None, 60.0, Sessions("CME_Equity")).push(records)
    trades = make_trades(
        start + np.sort(rng.integers(0, 45, 25)) * SECOND_NS,
        rng.integers(1, 9, 25),
        rng.choice([b"A", b"B", b"N"], 25),
    )
    path = write(tmp_path_factory.mktemp("trades") / "t.dbn", encode(trades, schema=TRADES))
    volume, count, _ = join([path], chunk, tuple(sorted(rng.integers(0, 30, 3))))
    before = start - 1
    for index, ts_ns in enumerate(chunk.ts_ns.tolist()):
        mine = [t for t in trades if before < int(t["ts_recv"]) <= ts_ns]
        assert count[index] == len(mine)
        assert volume[index] == sum(int(t["size"]) * {b"B": 1, b"A": -1, b"N": 0}[t["side"]] for t in mine)
        before = ts_ns


def test_chosen_instrument_is_read_from_trades_of_several(tmp_path, rows, make_trades, encode, write):
    """Time goes forwards for each instrument, not for all of them together."""
    start = int(rows.ts_ns[0])
    trades = make_trades([start, start + 9, start + 5, start + 6], [1, 2, 4, 8], [b"B"] * 4)
    trades["instrument_id"] = [7, 8, 7, 8]
    path = write(tmp_path / "t.dbn", encode(trades, schema=TRADES))
    with pytest.raises(InputError, match="goes backwards"):
        join([path], rows)
    trades["ts_recv"][3] = start + 10
    path = write(tmp_path / "t.dbn", encode(trades, schema=TRADES))
    stream = TradeStream([path], Sessions("CME_Equity"), instrument_id=7)
    assert stream.join(rows, np.full(len(rows), 7)).signed_volume[:2].tolist() == [1, 4]


def test_cache_reads_the_chosen_instrument_of_separate_trades(
    tmp_path, make_records, make_trades, encode, write
):
    records = make_records(400)
    start = int(records["ts_recv"][0])
    trades = make_trades([start + 2 * SECOND_NS, start + SECOND_NS], [3, 5], [b"B", b"B"])
    trades["instrument_id"] = [9, 7]
    book = write(tmp_path / "book.dbn", encode(records))
    path = write(tmp_path / "t.dbn", encode(trades, schema=TRADES))
    data = {"decision_rows": 4, "window_rows": 4, "horizons": (1, 2), "instrument_id": 7}
    cache = build_cache(Config().replaced(data=data), book, tmp_path / "cache", path)
    assert cache.signed_volume.sum() == 5
