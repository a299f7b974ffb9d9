"""Trades between rows, from the mbp-10 records themselves."""

import numpy as np

from trainer.data.dbn import read_records
from trainer.presets import INSTRUMENTS

HOUR_NS = 3_600_000_000_000


def test_trades_since_the_last_row_are_signed_by_the_aggressor(build, make_records):
    records = make_records(8)
    records["action"][[1, 2, 4, 7]] = b"T"
    records["side"][[1, 2, 4, 7]] = [b"B", b"A", b"N", b"B"]
    records["size"][[1, 2, 4, 7]] = [5, 2, 9, 3]
    for chunk_records in (1, 2, 3, 8):
        columns, _, _ = build(records, chunk_records=chunk_records)
        assert columns["signed_volume"].tolist() == [0, 3, 0, 0], "side N has no sign; the last trade waits"
        assert columns["trade_count"].tolist() == [0, 2, 1, 0]


def test_trades_count_only_in_their_own_session(build, make_records):
    open_ns = int(make_records(1)["ts_recv"][0])
    records = make_records(6)
    records["action"][[0, 2, 3, 4]], records["side"][[0, 2, 3, 4]] = b"T", b"B"
    day = 24 * HOUR_NS
    offsets = [-HOUR_NS, 5, 10, 23 * HOUR_NS + 5, day + 5, day + 10]
    records["ts_recv"] = [open_ns + offset for offset in offsets]
    records["size"] = 4
    for chunk_records in (1, 2, 6):
        columns, _, _ = build(records, chunk_records=chunk_records)
        assert columns["trade_count"].tolist() == [0, 1]
        assert columns["signed_volume"].tolist() == [0, 4]


def test_own_trades_can_be_ignored(build, make_records):
    records = make_records(4)
    records["action"][1] = b"T"
    columns, _, _ = build(records, own_trades=False)
    assert columns["trade_count"].tolist() == [0, 0, 0]


def test_frog_file_trades_carry_last_and_are_no_rows(build, shared_data):
    records = np.concatenate(list(read_records(shared_data / "FROG_20250403.mbp-10.dbn.zst")))
    trades = records[records["action"] == b"T"]
    assert ((trades["flags"] & 128) != 0).any(), "the trap this test is about"
    columns, _, builder = build(records, instrument=INSTRUMENTS["equity"])
    assert builder.skipped["trade"] == len(trades)
    signed = trades["size"].astype(int) * ((trades["side"] == b"B").astype(int) - (trades["side"] == b"A"))
    assert columns["signed_volume"].sum() == signed.sum()
