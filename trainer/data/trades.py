"""Trades of separate DBN `trades` files, joined to rows by receive time (SYSTEM.md section 1)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trainer.data.book import BookChunk
from trainer.data.calendar import Sessions
from trainer.data.clock import Clock
from trainer.data.dbn import RecordReader, Records
from trainer.data.place import Place
from trainer.data.tradeflow import signed_lots

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Trades:
    """Consecutive in-session trades, all `[n]`."""

    ts_ns: Int64
    lots: Int64  # signed by the aggressor, 0 where not known
    open_ns: Int64  # of the session
    ident: Int64  # instrument id

    def __getitem__(self, index: slice) -> "_Trades":
        return _Trades(self.ts_ns[index], self.lots[index], self.open_ns[index], self.ident[index])


class TradeStream:
    """Feeds rows with the trades of `files`, read once, forwards and no further than the rows need.

    A row gets the trades of its own session and instrument with time of the row before < `ts_recv` <= its own
    time. Among rows of equal time the first gets them. Nothing after a row's own time is counted for it.
    `instrument_id` picks one instrument of files of several, whose times need not follow each other.
    """

    def __init__(
        self,
        files: list[Path],
        sessions: Sessions,
        chunk_records: int = 65_536,
        instrument_id: int | None = None,
    ) -> None:
        self.num_joined = 0
        self._instrument_id = instrument_id
        self._sessions = sessions
        self._pieces = self._read(files, chunk_records)
        self._waiting: list[_Trades] = []

    def join(self, chunk: BookChunk, instrument_id: Int64) -> BookChunk:
        """`chunk` with `signed_volume` and `trade_count` from the files; `instrument_id` `[n]` is each row's.

        Raises InputError where the trade files are damaged or their time goes backwards.
        """
        if not len(chunk):
            return chunk
        volume, count = np.zeros(len(chunk), np.int64), np.zeros(len(chunk), np.int64)
        for trades in self._until(int(chunk.ts_ns[-1])):
            row = np.searchsorted(chunk.ts_ns, trades.ts_ns, side="left")
            same = (trades.open_ns == chunk.session_open_ns[row]) & (trades.ident == instrument_id[row])
            np.add.at(volume, row[same], trades.lots[same])
            np.add.at(count, row[same], 1)
        self.num_joined += int(count.sum())
        return replace(chunk, signed_volume=volume.astype(np.int32), trade_count=count.astype(np.int32))

    def _until(self, ts_ns: int) -> Iterator[_Trades]:
        """Takes the trades up to and including `ts_ns`; later ones wait."""
        while True:
            trades = self._waiting.pop() if self._waiting else next(self._pieces, None)
            if trades is None:
                return
            end = int(np.searchsorted(trades.ts_ns, ts_ns, side="right"))
            yield trades[:end]
            if end < len(trades.ts_ns):
                self._waiting.append(trades[end:])
                return

    def _read(self, files: list[Path], chunk_records: int) -> Iterator[_Trades]:
        clock = Clock()
        for path in files:
            with RecordReader(path, "trades", chunk_records) as reader:
                for whole in reader:
                    chosen = self._chosen(whole)
                    place = Place(str(path), reader.offset, whole, chosen)
                    records = whole[chosen]
                    ts_ns, _ = clock.read(records, place)
                    open_ns = self._sessions.locate(ts_ns)[0]
                    keep = np.flatnonzero((open_ns > 0) & (records["action"] == b"T"))
                    lots, ident = signed_lots(records, keep), records["instrument_id"][keep].astype(np.int64)
                    yield _Trades(ts_ns[keep], lots, open_ns[keep], ident)

    def _chosen(self, records: Records) -> Int64:
        if self._instrument_id is None:
            return np.arange(len(records))
        return np.flatnonzero(records["instrument_id"] == self._instrument_id)
