"""The table's figures."""

import math

import pytest

from benchmarks.intervals import clopper_pearson
from benchmarks.learning.table import summaries, table
from tests.benchmarks.learning.conftest import MakeResult, metrics


def test_a_line_holds_mean_and_range_over_seeds(make_result: MakeResult) -> None:
    results = [make_result(net, seed=seed) for seed, net in enumerate((0.2, 0.4, 0.6))]
    (found,) = summaries(results)
    assert (found.runs, found.folds, found.n_steps) == (3, 3, 200)
    assert found.net == pytest.approx(0.4)
    assert (found.net_least, found.net_greatest) == (pytest.approx(0.2), pytest.approx(0.6))
    assert found.oracle_share == pytest.approx(0.4 / 1.25)
    assert found.lower_least == min(r.folds[0].metrics.net_lower_ticks for r in results)
    assert found.trades == 240
    assert found.hold_percent == pytest.approx(50.0)
    assert found.passes == sum(r.verdict.outcome == "pass" for r in results) == 3
    assert found.pass_interval == clopper_pearson(3, 3)
    line = table(results).splitlines()[2]
    assert line.split() == [
        "demo", "3", "3", "+0.400", "(+0.200..+0.600)", "32", f"{found.lower_least:+.3f}",
        f"{found.win_rate:.3f}", "50.0", "240", "3/3", "(29..100", "%)",
    ]  # fmt: skip


def test_a_flat_agent_has_no_win_rate_and_no_share_of_nothing(make_result: MakeResult) -> None:
    undefined = {"num_trades": 0, "win_rate": math.nan, "net_ticks_per_decision": 0.0}
    flat = metrics(0.1).model_copy(update=undefined)
    results = [make_result(0.0, market="martingale", metrics=flat), make_result(0.1, market="martingale")]
    (found,) = summaries(results)
    assert found.win_rate == results[1].folds[0].metrics.win_rate
    assert math.isnan(found.oracle_share)
    assert " - " in table(results).splitlines()[2]


def test_markets_stand_apart_with_what_could_be_had(make_result: MakeResult) -> None:
    results = [
        make_result(0.4),
        make_result(0.0, market="martingale"),
        make_result(0.5, variant="other"),
    ]
    lines = table(results).splitlines()
    assert lines[0] == "planted: the optimal trader earns 1.250 (book only 1.125) ticks/decision"
    assert [line.split()[0] for line in lines if line] == [
        "planted:", "variant", "demo", "other", "martingale:", "variant", "demo",
    ]  # fmt: skip
    assert max(map(len, lines)) <= 110


def test_what_cannot_be_compared_is_said(make_result: MakeResult) -> None:
    same = [make_result(0.4), make_result(0.4, seed=1)]
    assert "note:" not in table(same)
    there = {**same[0].environment, "device": "GPU", "commit": "1" * 40}
    mixed = [*same, make_result(0.4, seed=2, steps=(100, 300), environment=there, planned_folds=3)]
    assert [line for line in table(mixed).splitlines() if line.startswith("note")] == [
        "note: results of several steps: 200, 300",
        "note: results of several devices: GPU, cpu",
        "note: results of several commits: 0000000, 1111111",
        "note: some runs judge their first folds only",
    ]
