"""No look-ahead: whatever is recorded after a time t, no row and no feature at or before t moves by a bit.

From file to cache, so that the reader's chunks, trades, segments and running averages are all in the path.
"""

import databento_dbn
import numpy as np
import pytest

import trainer.data.cache as cache_module
from trainer.config import Config
from trainer.data.cache import Cache, build_cache
from trainer.data.columns import COLUMNS
from trainer.data.dbn import read_records

CONFIG = Config().replaced(
    data={"instrument": "ES", "decision_rows": 4, "window_rows": 4, "horizons": (1, 2), "folds": 1}
)
TICK_NANOS = 250_000_000
UNDEF_PRICE = np.iinfo(np.int64).max
SEEN_FLAGS = [0, 8, 40, 128, 130, 168, 132]


def changed_after(records: np.ndarray, ts_ns: int, seed: int) -> np.ndarray:
    """`records` with every field of each record after `ts_ns` different, and some dropped or repeated."""
    rng = np.random.default_rng(seed)
    first = int(np.searchsorted(records["ts_recv"], np.uint64(ts_ns), side="right"))
    later = np.arange(first, len(records))
    changed = records[np.concatenate([np.arange(first), np.sort(rng.choice(later, len(later)))])].copy()
    tail = changed[first:]
    num = len(tail)
    shift = rng.integers(-300, 300, num)
    for level in range(10):
        for side in ("bid", "ask"):
            price = tail[f"{side}_px_{level:02d}"]
            tail[f"{side}_px_{level:02d}"] = np.where(price == UNDEF_PRICE, price, price + shift * TICK_NANOS)
            for field in ("sz", "ct"):
                tail[f"{side}_{field}_{level:02d}"] = rng.integers(0, 10_000, num)
    tail["action"] = rng.choice([b"A", b"C", b"M", b"T", b"R"], num, p=[0.4, 0.2, 0.2, 0.19, 0.01])
    tail["side"], tail["flags"] = rng.choice([b"A", b"B", b"N"], num), rng.choice(SEEN_FLAGS, num)
    tail["size"] = rng.integers(1, 10_000, num)
    tail["price"] = tail["ts_event"] = tail["sequence"] = tail["depth"] = 0
    tail["ts_recv"] = (
        ts_ns + 1 + rng.choice([0, 10**6, 10**9, 10**11], num, p=[0.3, 0.5, 0.199, 0.001]).cumsum()
    )
    return changed


def require_same_past(before: Cache, after: Cache, ts_ns: int) -> None:
    """Every column of the rows up to and including `ts_ns` is equal, byte by byte; the rows after are not."""
    num_rows = int(np.searchsorted(before.ts_ns, ts_ns, side="right"))
    assert num_rows == np.searchsorted(after.ts_ns, ts_ns, side="right") > 0
    for name in COLUMNS:
        past, other = getattr(before, name)[:num_rows], getattr(after, name)[:num_rows]
        assert past.tobytes() == other.tobytes(), f"{name} saw records after its own time"
    assert before.features[num_rows:].tobytes() != after.features[num_rows:].tobytes()


@pytest.mark.parametrize("chunk_records", [50, 32_768])
@pytest.mark.parametrize("at", [90, 211, 640])
def test_records_after_a_time_move_nothing_up_to_it(
    tmp_path, monkeypatch, make_records, encode, write, at, chunk_records
):
    monkeypatch.setattr(cache_module, "CHUNK_RECORDS", chunk_records)
    records = make_records(900)
    records["action"][7::11], records["flags"][3::7] = b"T", 0
    records["ts_recv"][at + 1 : at + 4] = records["ts_recv"][at]
    records["ts_recv"][300:] += np.uint64(90_000_000_000)
    ts_ns = int(records["ts_recv"][at])
    other = changed_after(records, ts_ns, seed=at)
    before, after = (
        build_cache(CONFIG, write(tmp_path / f"{name}.dbn.zst", encode(data)), tmp_path / "cache")
        for name, data in (("before", records), ("after", other))
    )
    require_same_past(before, after, ts_ns)


def test_trades_of_a_separate_file_after_a_time_move_nothing_up_to_it(
    tmp_path, make_records, make_trades, encode, write
):
    records = make_records(400)
    book = write(tmp_path / "book.dbn", encode(records))
    start, ts_ns = int(records["ts_recv"][0]), int(records["ts_recv"][250])
    times = start + np.arange(400) * 100_000_000 + 1  # just after each row: they belong to the next one
    trades = make_trades(times, np.full(400, 3), np.full(400, b"B"))
    other = trades.copy()
    later = other["ts_recv"] > ts_ns
    other["size"][later], other["side"][later] = 900, b"A"
    other["ts_recv"][later] += np.uint64(70_000_000)
    caches = [
        build_cache(
            CONFIG,
            book,
            tmp_path / "cache",
            write(tmp_path / f"{name}.dbn", encode(data, databento_dbn.Schema.TRADES)),
        )
        for name, data in (("trades", trades), ("other", other))
    ]
    require_same_past(*caches, ts_ns)


def test_records_after_a_time_move_nothing_up_to_it_in_the_es_file(shared_data, tmp_path, encode, write):
    records = np.concatenate(list(read_records(shared_data / "ESH4_20231225.mbp-10.dbn.zst")))
    before = build_cache(CONFIG, write(tmp_path / "es.dbn", encode(records)), tmp_path / "cache")
    assert before.num_rows == 36_905
    for seed, row in enumerate((500, 17_000, 36_000)):
        ts_ns = int(before.ts_ns[row])
        changed = write(tmp_path / f"es{seed}.dbn", encode(changed_after(records, ts_ns, seed)))
        require_same_past(before, build_cache(CONFIG, changed, tmp_path / "cache"), ts_ns)
