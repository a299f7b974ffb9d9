"""Metrics of a fold against loops over any account, and what they do at the edges."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.config import EvaluateConfig, InstrumentConfig
from trainer.errors import InputError
from trainer.learn.account import Decisions, Trades
from trainer.learn.entropy import EntropyStability
from trainer.learn.metrics import FoldMetrics, fold_metrics
from trainer.types import Action

STEADY = EntropyStability(stable=True, mean=0.5, minimum=0.5, relative_fall=0.0)
CFG = EvaluateConfig(bootstrap_resamples=100, bootstrap_block_decisions=2)
QUARTERS = st.integers(-400, 400).map(lambda value: value / 4)


@st.composite
def decision_rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows of an account in time order."""
    rows, ts_ns, tile = [], 1_700_000_000_000_000_000, 0
    for _ in range(draw(st.integers(1, 40))):
        ts_ns += draw(st.integers(0, 10**10))
        tile += draw(st.integers(0, 1))
        action = draw(st.integers(0, 10))
        rows.append(
            {
                "ts_ns": ts_ns,
                "pnl_ticks": draw(QUARTERS),
                "ordered": draw(st.booleans()),
                "action": action,
                "num_feasible": draw(st.integers(1, 11)),
                "entropy": draw(st.floats(0, 2, width=32)),
                "in_market": draw(st.booleans()),
                "tile": tile,
            }
        )
    return rows


TRADE = st.fixed_dictionaries(
    {
        "entry_ns": st.just(0),
        "exit_ns": st.just(1),
        "side": st.sampled_from([-1, 1]),
        "lots": st.integers(1, 5),
        "fee_ticks": st.integers(0, 8).map(lambda value: value / 4),
        "gross_ticks": QUARTERS,
        "age": st.integers(0, 70),
        "forced": st.booleans(),
        "r": st.floats(-3, 3),
        "entry_ticks": QUARTERS,
        "exit_ticks": QUARTERS,
    }
)


def trade_columns(rows: list[dict[str, Any]]) -> Trades:
    for row in rows:
        row["pnl_ticks"] = row["gross_ticks"] - row["fee_ticks"]
    names = [*TRADE.wrapped_strategy.mapping, "pnl_ticks"] if not rows else list(rows[0])
    return Trades(**{name: [row[name] for row in rows] for name in names})


def measured(
    decisions: Decisions, trades: Trades, instrument: InstrumentConfig, cfg: EvaluateConfig = CFG
) -> FoldMetrics:
    random = np.full(len(decisions), -0.25)
    return fold_metrics(
        2,
        decisions,
        trades,
        baselines={"random": random, "momentum": random * 2},
        training_entropy=STEADY,
        instrument=instrument,
        cfg=cfg,
    )


@settings(deadline=None, max_examples=60)
@given(rows=decision_rows())
def test_decision_metrics_equal_loops_over_the_rows(
    rows: list[dict[str, Any]], instrument: InstrumentConfig
) -> None:
    decisions = Decisions(**{name: [row[name] for row in rows] for name in rows[0]})
    found = measured(decisions, trade_columns([]), instrument)
    total = len(rows)
    assert found.num_decisions == total
    assert found.net_ticks == sum(row["pnl_ticks"] for row in rows)
    assert found.net_currency == found.net_ticks * 12.5
    assert found.net_ticks_per_decision == pytest.approx(found.net_ticks / total)
    assert found.hold_percent == pytest.approx(100 * sum(not row["ordered"] for row in rows) / total)
    assert found.literal_hold_percent == pytest.approx(100 * sum(row["action"] == 0 for row in rows) / total)
    assert found.time_in_market == pytest.approx(sum(row["in_market"] for row in rows) / total)
    for action in Action:
        expected = sum(row["action"] == action for row in rows) / total
        assert found.action_shares[action.name.lower()] == pytest.approx(expected)
    choices = [row for row in rows if row["num_feasible"] > 1]
    if choices:
        shares = [row["entropy"] / math.log(row["num_feasible"]) for row in choices]
        assert found.entropy_mean == pytest.approx(sum(row["entropy"] for row in choices) / len(choices))
        assert found.entropy_mean_share == pytest.approx(sum(shares) / len(shares))
    else:
        assert math.isnan(found.entropy_mean)
    assert found.unexplained_ticks == found.net_ticks
    assert found.baselines == {"random": -0.25, "momentum": -0.5}


@settings(deadline=None, max_examples=60)
@given(rows=st.lists(TRADE, max_size=25))
def test_trade_metrics_equal_loops_over_the_trades(
    rows: list[dict[str, Any]], account: Callable[..., Any], instrument: InstrumentConfig
) -> None:
    decisions, _ = account([1.0, -1.0])
    found = measured(decisions, trade_columns(rows), instrument)
    net = [row["pnl_ticks"] for row in rows]
    assert found.num_trades == len(rows)
    assert found.num_wins == sum(value > 0 for value in net)
    assert found.gross_ticks - found.fee_ticks == pytest.approx(sum(net))
    assert found.unexplained_ticks == pytest.approx(-sum(net))
    assert found.turnover_lots == sum(2 * row["lots"] for row in rows)
    assert sum(part.count for part in found.durations) == sum(found.outcomes.values()) == len(rows)
    for part in found.durations:
        assert part.count == sum(part.low <= row["age"] <= part.high for row in rows)
    if rows:
        assert found.win_rate == found.num_wins / len(rows)
        assert found.expectancy_ticks == pytest.approx(sum(net) / len(rows))
        assert found.forced_close_share == pytest.approx(sum(row["forced"] for row in rows) / len(rows))
    else:
        assert math.isnan(found.win_rate)
        assert math.isnan(found.expectancy_ticks)


def test_a_trade_of_exactly_zero_is_no_win(account: Callable[..., Any], instrument: InstrumentConfig) -> None:
    found = measured(*account([0.0, 0.0, 1.0, -1.0]), instrument)
    assert (found.num_wins, found.win_rate) == (1, 0.25)


def test_outcome_classes_tell_a_fee_loss_from_a_stop_that_did_not_hold(
    account: Callable[..., Any], instrument: InstrumentConfig
) -> None:
    # Initial risk is 4 ticks and the fee .32: R = 2, .25, and -.025 (gross +.22), -.5, -1.25.
    found = measured(*account([8.0, 1.0, -0.1, -2.0, -5.0]), instrument)
    assert found.outcomes == {
        "win_above_1r": 1,
        "win": 1,
        "lost_to_fees": 1,
        "loss_beyond_1r": 1,
        "loss": 1,
    }


def test_money_is_conserved_in_a_consistent_account(
    account: Callable[..., Any], instrument: InstrumentConfig
) -> None:
    pnl = np.random.default_rng(0).normal(size=50)
    found = measured(*account(pnl), instrument)
    assert found.unexplained_ticks == pytest.approx(0.0, abs=1e-9)
    assert found.spread_cost_ticks is None
    assert found.fold == 2


def test_a_short_run_uses_stated_buckets_of_equal_session_time(
    account: Callable[..., Any], instrument: InstrumentConfig
) -> None:
    decisions, trades = account(np.random.default_rng(0).normal(0.5, 1, 100))
    found = measured(decisions, trades, instrument)
    assert found.ratio_basis == "50 equal session-time buckets (1 days), not annualised"
    buckets = decisions.pnl_ticks.reshape(50, 8).sum(axis=1)
    # 400 decisions have 399 equal intervals, so buckets meet the reshaped ones but for their edges.
    assert found.sharpe == pytest.approx(buckets.mean() / buckets.std(ddof=1), rel=0.15)
    assert found.num_periods == 50


def test_closed_hours_are_no_part_of_a_bucket(
    account: Callable[..., Any], instrument: InstrumentConfig
) -> None:
    decisions, trades = account(np.random.default_rng(0).normal(0.5, 1, 100))
    night = np.where(np.arange(400) >= 200, 3600 * 10**9 * 17, 0)
    columns = {**vars(decisions), "tile": np.arange(400) // 200}
    with_night = Decisions(**{**columns, "ts_ns": decisions.ts_ns + night})
    plain = measured(Decisions(**columns), trades, instrument)
    assert measured(with_night, trades, instrument).sharpe == plain.sharpe


def test_twenty_days_use_daily_profit_annualised(
    account: Callable[..., Any], instrument: InstrumentConfig
) -> None:
    decisions, trades = account(np.random.default_rng(0).normal(0.5, 1, 100))
    session = np.arange(400) // 20
    found = measured(Decisions(**{**vars(decisions), "session": session}), trades, instrument)
    daily = decisions.pnl_ticks.reshape(20, 20).sum(axis=1)
    assert found.ratio_basis == "20 days, annualised by sqrt(252)"
    assert found.sharpe == pytest.approx(daily.mean() / daily.std(ddof=1) * math.sqrt(252))


def test_profit_without_losses_is_infinite_and_survives_json(
    account: Callable[..., Any], instrument: InstrumentConfig
) -> None:
    found = measured(*account([1.0] * 30), instrument)
    assert found.profit_factor == math.inf
    body = json.loads(found.model_dump_json())
    assert body["profit_factor"] == "inf"
    assert FoldMetrics.model_validate_json(found.model_dump_json()) == found


def test_undefined_metrics_are_null_in_json_and_named(
    account: Callable[..., Any], instrument: InstrumentConfig
) -> None:
    found = measured(*account([], idle=60), instrument)
    body = json.loads(found.model_dump_json())
    assert body["win_rate"] is None
    assert {"win_rate", "expectancy_ticks", "profit_factor", "sharpe"} <= set(found.undefined())
    again = FoldMetrics.model_validate_json(found.model_dump_json())
    assert again.undefined() == found.undefined()
    assert found.net_ticks == 0.0


def test_accounts_that_make_no_sense_are_refused(
    account: Callable[..., Any], instrument: InstrumentConfig
) -> None:
    decisions, trades = account([1.0, 2.0])
    with pytest.raises(ValueError, match="equally long"):
        Decisions(**{**vars(decisions), "tile": [0]})
    backwards = Decisions(**{**vars(decisions), "ts_ns": decisions.ts_ns[::-1]})
    with pytest.raises(ValueError, match="time order"):
        measured(backwards, trades, instrument)
    with pytest.raises(ValueError, match="random"):
        fold_metrics(
            0, decisions, trades, baselines={}, training_entropy=STEADY, instrument=instrument, cfg=CFG
        )


def test_accounts_round_trip_through_parquet(tmp_path: Path, account: Callable[..., Any]) -> None:
    for columns in account([1.0, -2.0, 0.5]):
        columns.write_parquet(tmp_path / "a.parquet")
        again = type(columns).read_parquet(tmp_path / "a.parquet")
        for name, value in vars(columns).items():
            np.testing.assert_array_equal(vars(again)[name], value)
            assert value is None or vars(again)[name].dtype == value.dtype
    (tmp_path / "b.parquet").write_bytes(b"no parquet")
    with pytest.raises(InputError, match=r"b\.parquet: cannot read"):
        Trades.read_parquet(tmp_path / "b.parquet")
