"""The quick set: few small runs whose outcome is known, and what they must reach.

A market of two sessions, one trained on and one judged on: the demo preset's windows at half its files. On
the planted market an agent that learns anything finds the signal; on the martingale there is nothing to find
but that trading costs. The bounds leave room for other seeds and machines, not for an agent that stopped
learning.
"""

from collections.abc import Iterable

from benchmarks.learning.experiment import Experiment, Variant, expand
from benchmarks.learning.result import Result
from trainer.presets import demo

STEPS, CURVE = 800, 4
PLANTED_SEEDS, MARTINGALE_SEEDS = (0, 1), (0,)

# The planted market, every fold of every run.
LEAST_ORACLE_SHARE = 0.70  # of what the optimal trader earns
LEAST_WIN_RATE = 0.55
HOLD_PERCENT = (30.0, 70.0)
# The martingale: costs are learnt, so little is lost and few trades are made.
LEAST_MARTINGALE_NET = -0.05  # ticks per decision
MOST_MARTINGALE_TRADES_SHARE = 0.10  # of decisions


def quick_set(device: str) -> list[Experiment]:
    """The experiments, longest market first."""
    config = demo().replaced(synthetic={"sessions": 2}, data={"folds": 1})
    variants = [Variant("demo", config)]
    run = {"n_steps": STEPS, "device": device}
    return [
        *expand(variants, ["planted"], PLANTED_SEEDS, curve=CURVE, run=run),
        *expand(variants, ["martingale"], MARTINGALE_SEEDS, curve=CURVE, run=run),
    ]


def missed(results: Iterable[Result]) -> list[str]:
    """A line for each target that a result misses, with the figure and the bound."""
    found = []
    for result in results:
        judged = _planted(result) if result.market == "planted" else _martingale(result)
        name = f"{result.variant}-{result.market}-s{result.seed}"
        found += [f"{name}: {what}" for what in judged]
    return found


def _planted(result: Result) -> Iterable[str]:
    if result.verdict.outcome != "pass":
        yield f"the gate says {result.verdict.outcome}, not pass"
    for fold in result.folds:
        m = fold.metrics
        share, (low, high) = m.net_ticks_per_decision / result.oracle.net_ticks_per_decision, HOLD_PERCENT
        # A comparison with NaN is false, so an undefined figure meets nothing.
        if not share >= LEAST_ORACLE_SHARE:
            yield f"fold {m.fold} earns {share:.2f} of the optimal trader's, less than {LEAST_ORACLE_SHARE}"
        if not m.net_lower_ticks > 0:
            yield f"fold {m.fold} has a lower bound of {m.net_lower_ticks:+.3f} ticks/decision, not over 0"
        if not m.win_rate > LEAST_WIN_RATE:
            yield f"fold {m.fold} wins {m.win_rate:.3f} of its trades, not over {LEAST_WIN_RATE}"
        if not low <= m.hold_percent <= high:
            yield f"fold {m.fold} holds {m.hold_percent:.1f} %, not {low:g} to {high:g}"


def _martingale(result: Result) -> Iterable[str]:
    if result.verdict.outcome == "pass":
        yield "the gate passes a market without a signal"
    for fold in result.folds:
        m = fold.metrics
        share = m.num_trades / m.num_decisions
        if not m.net_ticks_per_decision >= LEAST_MARTINGALE_NET:
            yield (
                f"fold {m.fold} earns {m.net_ticks_per_decision:+.3f} ticks/decision, "
                f"less than {LEAST_MARTINGALE_NET:+.2f}"
            )
        if m.net_lower_ticks > 0:
            yield f"fold {m.fold} shows a sure profit of {m.net_lower_ticks:+.3f} ticks/decision or more"
        if not share <= MOST_MARTINGALE_TRADES_SHARE:
            yield f"fold {m.fold} trades at {share:.0%} of decisions, over {MOST_MARTINGALE_TRADES_SHARE:.0%}"
