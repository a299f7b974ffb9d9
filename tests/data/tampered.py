"""Files that another future might have left: every record after a time is another one."""

from pathlib import Path

import databento_dbn
import numpy as np

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


def write_records(path: Path, records: np.ndarray) -> Path:
    """A DBN file of mbp-10 records of one symbol."""
    metadata = databento_dbn.Metadata(
        dataset="GLBX.MDP3",
        start=int(records["ts_recv"][0]),
        stype_in=databento_dbn.SType.RAW_SYMBOL,
        stype_out=databento_dbn.SType.INSTRUMENT_ID,
        schema=databento_dbn.Schema.MBP_10,
        symbols=["ESH4"],
    )
    path.write_bytes(metadata.encode() + records.tobytes())
    return path
