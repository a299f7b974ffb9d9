"""The statistics of order books are what their names say, on a book made by hand and on real formats."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from benchmarks.book_figure import LABEL, curves, figure, profile
from benchmarks.book_statistics import Sample, autocorrelation, statistics
from benchmarks.picture import as_svg
from benchmarks.realism import main
from trainer.data.book import BookChunk
from trainer.errors import ExitCode


def sample(bid_px: list[int], bid_sz: list[int], gaps_s: list[float], lots: list[int]) -> Sample:
    """Rows of one best bid each, 9 levels of 10 lots behind it and an ask side that stays."""
    num = len(bid_px)
    px = np.array(bid_px)[:, None] - np.arange(10)
    sz = np.full((num, 10), 10)
    sz[:, 0] = bid_sz
    ask = np.broadcast_to(bid_px[0] + 2 + np.arange(10), (num, 10))
    ts_ns = (np.cumsum([0.0, *gaps_s]) * 1e9).astype(np.int64)
    rows = BookChunk(
        ts_ns=ts_ns, bid_px=px, ask_px=ask, bid_sz=sz, ask_sz=np.full((num, 10), 20),
        bid_ct=np.full((num, 10), 2), ask_ct=np.full((num, 10), 4),
        signed_volume=np.zeros(num), trade_count=np.zeros(num), segment=np.zeros(num, np.int32),
        session_open_ns=np.zeros(num, np.int64), session_close_ns=np.full(num, 10**18),
    )  # fmt: skip
    return Sample(rows, {"A": 6, "C": 2, "M": 1, "T": len(lots)}, np.array(lots), 1)


def test_figures_of_a_book_made_by_hand() -> None:
    # Spreads 2, 2, 1, 2 ticks. Row 1: best bid 5 -> 7 lots. Row 2: a new best bid. Row 3: it is gone again.
    found = statistics(sample([100, 100, 101, 100], [5, 7, 4, 10], [1.0, 1.0, 4.0], [3]))
    assert found["spread 1 tick, % of rows"] == 25.0
    assert found["mean spread, ticks"] == 1.75
    assert found["rows with a change of mid, %"] == pytest.approx(200 / 3)
    # Row 1: one queue. Row 2: the new one, and 100 shows 10 lots, not 7. Row 3: 101 is gone.
    assert found["levels changed per row, mean"] == pytest.approx((1 + 2 + 1) / 3)
    assert found["the same where the mid stays"] == 1.0
    assert found["rows of the same book, %"] == 0.0
    assert found["records per row"] == 2.5
    assert found["records: add, %"] == 60.0
    assert found["trades per row"] == 0.25
    assert found["trade lots, quantile 0.5"] == 3.0
    assert found["trades without a side, %"] == 100.0
    assert found["gap, quantile 0.5, s"] == pytest.approx(1.0)
    assert found["median lots, level 1"] == 15.0, "bids of 4, 5, 7 and 10, four asks of 20"
    assert found["lots per order at the best, mean"] == (26 + 80) / (8 + 16)


def test_the_order_of_imbalance_and_move_is_not_mixed_up() -> None:
    """A book that leans before every move of the mid, and never after it."""
    bids = [100 + (row % 40 >= 20) for row in range(1200)]
    heavy = [60 if row % 40 == 19 else (5 if row % 40 == 39 else 20) for row in range(1200)]
    found = statistics(sample(bids, heavy, [1.0] * 1199, [1]))
    assert found["imbalance and next change of mid"] > 0.15
    lagged = statistics(sample(bids, [20, *heavy[:-1]], [1.0] * 1199, [1]))
    assert lagged["imbalance and next change of mid"] < 0.0


def test_autocorrelation_of_a_known_process_and_of_a_constant() -> None:
    noise = np.random.default_rng(0).standard_normal(50_000)
    moving = noise[1:] + noise[:-1]
    assert autocorrelation(moving, 1) == pytest.approx(0.5, abs=0.02)
    assert autocorrelation(moving, 3) == pytest.approx(0.0, abs=0.02)
    assert np.isnan(autocorrelation(np.ones(10), 1))


def test_the_profile_counts_rows_by_time() -> None:
    found = profile(sample([100] * 121, [5] * 121, [1.0] * 60 + [5.0] * 60, [1]).rows)
    assert found.y.mean() == pytest.approx(1.0)
    assert found.y[0] == pytest.approx(5 * found.y[-1], rel=0.2)


def test_both_markets_side_by_side_as_json_and_as_a_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "books.svg"
    arguments = ["planted", "martingale", "--preset", "demo", "--rows", "6000", "--svg", str(path)]
    assert main([*arguments, "--json"]) == ExitCode.DONE
    found = json.loads(capsys.readouterr().out)
    planted, martingale = found["planted"], found["martingale"]
    assert planted["rows"] == martingale["rows"] == 6000
    assert planted["mean spread, ticks"] == martingale["mean spread, ticks"]
    assert (
        planted["imbalance and mid move over 8 rows"]
        > 0.7
        > 0.1
        > martingale["imbalance and mid move over 8 rows"]
    )
    assert len(planted["rows by twelfth of the time"]) == 12
    texts = {text.text for text in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")}
    assert {"planted", "martingale", "rows by twelfth of the time"} <= texts
    assert main(arguments[:-2]) == ExitCode.DONE
    table = capsys.readouterr().out.splitlines()
    assert [cell.strip() for cell in table[0].split("|")] == ["", "", "planted", "martingale", ""]
    assert len({line.count("|") for line in table}) == 1, "a table of Markdown"


def test_a_real_file_is_measured(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(shared_data / "ESH4_20231225.mbp-10.dbn.zst"), "--json"]) == ExitCode.DONE
    [found] = json.loads(capsys.readouterr().out).values()
    assert found["rows"] == 36_905
    assert found["spread 1 tick, % of rows"] == pytest.approx(91.2, abs=0.1)
    assert found["levels changed per row, mean"] == pytest.approx(1.14, abs=0.02), "one order a row"


def test_a_figure_without_a_point_is_not_drawn_wrong() -> None:
    """Few rows define no autocorrelation: the panel stays, its line is empty."""
    few = curves(sample([100] * 40, [5] * 40, [1.0] * 39, [1]))
    drawn = figure({"few": few, "same": few})
    assert [axes.get_title(loc="left") for axes in drawn.axes] == list(few)
    # The zero line is the third.
    assert [len(axes.lines) for axes in drawn.axes] == [3] * len(few), "a line for each source in each panel"
    text = as_svg(drawn, LABEL)
    assert "nan" not in text
    ElementTree.fromstring(text)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent.dbn"], "absent.dbn: no such file or directory"),
        (["planted", "--rows", "10"], "--rows: 10 rows; give at least 1000"),
        (["planted", "planted"], "two sources of one name"),
        ([*"abcdef", "--svg", "x.svg"], "--svg: 6 sources; give at most 5"),
        (["planted", "--rows", "1000", "--preset", "demo", "--svg", "absent/x.svg"], "cannot write"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == ExitCode.BAD_INPUT
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""
