"""The metrics of one fold's evaluation, with their exact definitions (SYSTEM.md section 10)."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from trainer.config import EvaluateConfig, InstrumentConfig
from trainer.learn import ratios
from trainer.learn.account import Decisions, Trades
from trainer.learn.bootstrap import dependence_block, excess_bound, lower_bound
from trainer.learn.breakdown import (
    DurationBin,
    duration_histogram,
    outcome_classes,
    time_buckets,
    trading_days,
)
from trainer.learn.entropy import EntropyStability, block_means, relative_fall
from trainer.learn.jsonfloat import JsonFloat
from trainer.types import Action

# Under this many days a daily Sharpe ratio says nothing; equal time buckets are used and stated.
MIN_DAYS = 20
RANDOM = "random"


class FoldMetrics(BaseModel):
    """Metrics of one fold. `_ticks` are ticks times lots, `_currency` the instrument's currency, shares in
    [0, 1].

    win_rate: trades with net P&L > 0 over closed trades (zero is no win); win_rate_interval: Wilson, 95 %,
    shown and not judged. hold_percent: decisions that sent no order; literal_hold_percent: those that
    executed Hold. entropy_*: of the policy on the test window over decisions with a choice, nats;
    `entropy_mean_share` divided by ln(#feasible); `entropy_min` and `entropy_fall` over 20 block means (fall:
    Theil-Sen, over the mean). training_entropy: what the gate judges.
    net_ticks: the account, sum of the decisions' P&L; unexplained_ticks: net_ticks less the trades' sum, 0
    when money is conserved. gross_ticks: trades before fees; spread_cost_ticks: paid to the spread inside
    gross, null if not measured. profit_factor: wins over losses, infinite without losses. expectancy_ticks:
    mean net per trade. sharpe, sortino: per `ratio_basis` over `num_periods` periods, annualised by sqrt(252)
    only if that says so; psr, dsr: from the ratio per period. max_drawdown_ticks: marked to market, starting
    equity included. turnover_lots: 2 x largest size, summed over trades. time_in_market: share of decisions
    with a position. forced_close_share: of trades. outcomes: counts of disjoint classes, see
    `outcome_classes`. action_shares: executed actions. defects: what the replay could not do as ordered,
    counts by name (`trainer.market.lanes.DEFECTS`). baselines: net ticks per decision on the same window.
    net_lower_ticks, excess_lower_ticks: lower bounds per decision of net P&L and of net P&L less that of the
    random trader of equal turnover, by block bootstrap with the stated confidence.
    baseline_lower_ticks: the same bound of the excess over every baseline. bootstrap_block_decisions: the
    configured block, or the longer one that the dependence of these series asks for.

    A metric that is undefined is NaN (null in JSON) and fails the gate; infinities are "inf".
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    fold: int
    start_ns: int
    end_ns: int
    num_decisions: int
    num_days: int
    num_trades: int
    num_wins: int
    win_rate: JsonFloat
    win_rate_interval: tuple[JsonFloat, JsonFloat]
    hold_percent: JsonFloat
    literal_hold_percent: JsonFloat
    entropy_mean: JsonFloat
    entropy_mean_share: JsonFloat
    entropy_min: JsonFloat
    entropy_fall: JsonFloat
    training_entropy: EntropyStability
    net_ticks: JsonFloat
    net_currency: JsonFloat
    net_ticks_per_decision: JsonFloat
    unexplained_ticks: JsonFloat
    gross_ticks: JsonFloat
    fee_ticks: JsonFloat
    spread_cost_ticks: JsonFloat | None
    profit_factor: JsonFloat
    expectancy_ticks: JsonFloat
    sharpe: JsonFloat
    sortino: JsonFloat
    ratio_basis: str
    num_periods: int
    psr: JsonFloat
    dsr: JsonFloat
    configurations_tried: int
    max_drawdown_ticks: JsonFloat
    turnover_lots: int
    time_in_market: JsonFloat
    forced_close_share: JsonFloat
    durations: tuple[DurationBin, ...]
    outcomes: dict[str, int]
    action_shares: dict[str, JsonFloat]
    defects: dict[str, int]
    baselines: dict[str, JsonFloat]
    net_lower_ticks: JsonFloat
    excess_lower_ticks: JsonFloat
    baseline_lower_ticks: dict[str, JsonFloat]
    confidence: float
    bootstrap_block_decisions: int

    def undefined(self) -> list[str]:
        """Names of metrics that are NaN."""
        flat = {name: value for name, value in self if isinstance(value, float)}
        flat |= {f"baselines.{name}": value for name, value in self.baselines.items()}
        return [name for name, value in flat.items() if math.isnan(value)]

    def explained(self) -> bool:
        """Whether the account's P&L is that of its trades, but for a millionth of rounding."""
        return abs(self.unexplained_ticks) <= 1e-6 * (1.0 + abs(self.gross_ticks))


def fold_metrics(
    fold: int,
    decisions: Decisions,
    trades: Trades,
    *,
    baselines: Mapping[str, NDArray[Any]],
    training_entropy: EntropyStability,
    instrument: InstrumentConfig,
    cfg: EvaluateConfig,
    defects: Mapping[str, int] | None = None,
) -> FoldMetrics:
    """All metrics of a fold from its joined account.

    `baselines` maps names to `[T]` net P&L in ticks per decision on the same decisions; `random` (the mean
    random trader of equal turnover) is required. ValueError without decisions, without `random`, or for
    another length.
    """
    if len(decisions) == 0 or RANDOM not in baselines:
        raise ValueError(f"needs decisions and a {RANDOM!r} baseline")
    if (np.diff(decisions.ts_ns) < 0).any():
        raise ValueError("decisions must be in time order")
    return FoldMetrics(
        fold=fold,
        training_entropy=training_entropy,
        defects=dict(defects or {}),
        baselines={name: float(np.mean(series)) for name, series in baselines.items()},
        **_decision_metrics(decisions, trades, instrument),
        **_trade_metrics(trades),
        **_ratio_metrics(decisions, cfg),
        **_bound_metrics(decisions.pnl_ticks, baselines, cfg),
    )


def _decision_metrics(decisions: Decisions, trades: Trades, instrument: InstrumentConfig) -> dict[str, Any]:
    net = float(decisions.pnl_ticks.sum())
    counts = np.bincount(decisions.action, minlength=len(Action)) / len(decisions)
    return {
        "start_ns": int(decisions.ts_ns[0]),
        "end_ns": int(decisions.ts_ns[-1]),
        "num_decisions": len(decisions),
        "hold_percent": 100.0 * float(np.mean(~decisions.ordered)),
        "literal_hold_percent": 100.0 * float(counts[Action.HOLD]),
        "action_shares": {action.name.lower(): float(counts[action]) for action in Action},
        "net_ticks": net,
        "net_currency": net * instrument.tick_value,
        "net_ticks_per_decision": net / len(decisions),
        "unexplained_ticks": net - float(trades.pnl_ticks.sum()),
        "max_drawdown_ticks": ratios.max_drawdown(decisions.pnl_ticks),
        "time_in_market": float(np.mean(decisions.in_market)),
        **_entropy_metrics(decisions),
    }


def _entropy_metrics(decisions: Decisions) -> dict[str, float]:
    # A decision with one feasible action (an order is pending) has no entropy to speak of.
    choice = decisions.num_feasible > 1
    entropy = decisions.entropy[choice].astype(np.float64)
    blocks = block_means(entropy)
    empty = len(entropy) == 0
    share = entropy / np.log(decisions.num_feasible[choice].astype(np.float64))
    return {
        "entropy_mean": math.nan if empty else float(entropy.mean()),
        "entropy_mean_share": math.nan if empty else float(share.mean()),
        "entropy_min": math.nan if empty else float(blocks.min()),
        # One block has no trend: a window this short fails for its few trades, not for this.
        "entropy_fall": relative_fall(blocks) if len(blocks) > 1 else 0.0,
    }


def _trade_metrics(trades: Trades) -> dict[str, Any]:
    count, wins = len(trades), int(np.sum(trades.pnl_ticks > 0))
    spread = trades.spread_ticks
    return {
        "num_trades": count,
        "num_wins": wins,
        "win_rate": wins / count if count else math.nan,
        "win_rate_interval": ratios.wilson_interval(wins, count),
        "gross_ticks": float(trades.gross_ticks.sum()),
        "fee_ticks": float(trades.fee_ticks.sum()),
        "spread_cost_ticks": None if spread is None else float(spread.sum()),
        "profit_factor": ratios.profit_factor(trades.pnl_ticks),
        "expectancy_ticks": float(trades.pnl_ticks.mean()) if count else math.nan,
        "turnover_lots": 2 * int(trades.lots.sum(dtype=np.int64)),
        "forced_close_share": float(trades.forced.mean()) if count else math.nan,
        "durations": duration_histogram(trades.age),
        "outcomes": outcome_classes(trades),
    }


def _ratio_metrics(decisions: Decisions, cfg: EvaluateConfig) -> dict[str, Any]:
    days = trading_days(decisions)
    num_days = int(days.max()) + 1
    daily = num_days >= MIN_DAYS
    if daily:
        periods = np.bincount(days, decisions.pnl_ticks).astype(np.float64)
        scale = math.sqrt(ratios.DAYS_PER_YEAR)
        basis = f"{num_days} days, annualised by sqrt({ratios.DAYS_PER_YEAR})"
    else:
        periods, scale = time_buckets(decisions, cfg.sharpe_buckets), 1.0
        basis = f"{len(periods)} equal session-time buckets ({num_days} days), not annualised"
    return {
        "num_days": num_days,
        "ratio_basis": basis,
        "num_periods": len(periods),
        "sharpe": ratios.sharpe(periods) * scale,
        "sortino": ratios.sortino(periods) * scale,
        "psr": ratios.probabilistic_sharpe(periods),
        "dsr": ratios.deflated_sharpe(periods, cfg.configurations_tried, cfg.trial_sharpe_sd),
        "configurations_tried": cfg.configurations_tried,
    }


def _bound_metrics(
    pnl: NDArray[Any], baselines: Mapping[str, NDArray[Any]], cfg: EvaluateConfig
) -> dict[str, Any]:
    # Judged series whose dependence reaches further than the configured block get the block that it asks for.
    judged = (pnl, np.asarray(pnl, np.float64) - np.asarray(baselines[RANDOM], np.float64))
    bootstrap: dict[str, Any] = {
        "block": max(cfg.bootstrap_block_decisions, *(dependence_block(series) for series in judged)),
        "num_resamples": cfg.bootstrap_resamples,
        "confidence": cfg.confidence,
        "seed": cfg.seed,
    }
    net = lower_bound(pnl, **bootstrap)
    excess = {name: excess_bound(pnl, series, **bootstrap).lower for name, series in baselines.items()}
    return {
        "net_lower_ticks": net.lower,
        "excess_lower_ticks": excess[RANDOM],
        "baseline_lower_ticks": excess,
        "confidence": net.confidence,
        "bootstrap_block_decisions": net.block_decisions,
    }
