"""Writes mbp-10 records as LOBSTER files, record by record: the reader's counterpart, without its code."""

from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

NEW_YORK = ZoneInfo("America/New_York")
UNDEF_PRICE = 2**63 - 1
LAST = 128
UNIT = 100_000  # a price of 1e-4 dollars in 1e-9 dollars


def message_name(ticker: str, day: date | str, levels: int = 10) -> str:
    """The name of a day's message file."""
    return f"{ticker}_{day}_0_86400000_message_{levels}.csv"


def write_pair(directory: Path, name: str, messages: list[str], books: list[str]) -> Path:
    """Writes lines as a message file called `name` and its orderbook file; returns the latter."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / name, directory / name.replace("_message_", "_orderbook_")]
    for path, lines in zip(paths, (messages, books), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines))
    return paths[1]


def write_lobster(directory: Path, records: Any, ticker: str = "TEST") -> list[Path]:
    """Files of `records` `[n] structured`, a pair a day of New York; returns the orderbook files.

    What the layout cannot say is refused: flags other than LAST, and an event that does not end with a record
    which is no trade and has LAST.
    """
    days: dict[date, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for index, record in enumerate(records):
        after = records[index + 1] if index + 1 < len(records) else None
        same_time = after is not None and after["ts_recv"] == record["ts_recv"]
        assert int(record["flags"]) in (0, LAST)
        assert same_time or (record["flags"] == LAST and record["action"] != b"T"), "this event does not end"
        day, time_s = local_time(int(record["ts_recv"]))
        for kind, price, direction, shown in messages_of(record, after):
            messages, books = days[day]
            messages.append(f"{time_s},{kind},{index},{record['size']},{price},{direction}")
            books.append(book_line(shown))
    return [write_pair(directory, message_name(ticker, day), *lines) for day, lines in sorted(days.items())]


def messages_of(record: Any, after: Any) -> list[tuple[int, int, int, Any]]:
    """Type, price, direction and book of the messages that stand for `record`, which `after` follows."""
    action, side = bytes(record["action"]), bytes(record["side"])
    price = int(record["price"]) // UNIT
    if action == b"R":
        return [(7, -1, -1, record), (7, 1, -1, record)]
    if action != b"T":
        return [({b"A": 1, b"M": 1, b"C": 3}[action], price, -1 if side == b"A" else 1, record)]
    if side == b"N":
        return [(6, price, 1, record)]
    # The direction is of the order that was hit: a buyer hits a sell order. The book is that after the trade.
    return [(4, price, -1 if side == b"B" else 1, after)]


def local_time(ts_ns: int) -> tuple[date, str]:
    """New York's date, and seconds after its midnight as decimal text."""
    local = datetime.fromtimestamp(ts_ns // 10**9, UTC).astimezone(NEW_YORK)
    wall = timedelta(hours=local.hour, minutes=local.minute, seconds=local.second)
    return local.date(), f"{wall // timedelta(seconds=1)}.{ts_ns % 10**9:09d}"


def book_line(record: Any, levels: int = 10) -> str:
    """One line of an orderbook file."""
    words: list[int] = []
    for level in range(levels):
        for side, missing in (("ask", 9_999_999_999), ("bid", -9_999_999_999)):
            price, size = int(record[f"{side}_px_{level:02d}"]), int(record[f"{side}_sz_{level:02d}"])
            assert price % UNIT == 0 or price == UNDEF_PRICE
            words += [missing, 0] if price == UNDEF_PRICE else [price // UNIT, size]
    return ",".join(map(str, words))
