"""Every known trader gets the right verdict, for the right reason and no other, through the whole path.

A written market, its cache, windows and tape; the replay that judges the agent; the metrics against the
baselines; the files of the run directory; the gate stage with its exit code and its summary.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.gate.market import CONFIG, Fold, Market, judged, metrics, reasons
from tests.gate.traders import at_random, never, optimal, scratches, takes_profit
from trainer.errors import ExitCode
from trainer.learn.gate import Verdict
from trainer.learn.metrics import FoldMetrics
from trainer.learn.replayer import Account, Policy

NET, EXCESS = "net P&L, lower bound", "excess over random, lower bound"
BOTH = {0: [NET, EXCESS], 1: [NET, EXCESS]}


LUCK_TICKS = 2000


def long_all_day(fold: Fold) -> Policy:
    """Take-profit 0.1, stop 8."""
    return takes_profit(fold, 0.1, 8.0)


def said(verdict: Verdict) -> list[str]:
    return [str(reason) for reason in verdict.reasons]


def inside_but_for_money(found: FoldMetrics) -> bool:
    """Meets every criterion of the documents, which do not ask for money."""
    return found.num_trades >= 200 and found.win_rate > 0.55 and 30.0 <= found.hold_percent <= 70.0


def test_optimal_trader_passes(planted: Market, winning: list[FoldMetrics], tmp_path: Path) -> None:
    code, summary = judged(planted.run, tmp_path / "run", winning)
    assert (code, summary.verdict.outcome, said(summary.verdict)) == (ExitCode.DONE, "pass", [])
    for found in winning:
        assert found.num_trades > 600
        assert found.win_rate > 0.7
        assert found.net_ticks_per_decision > 1.0


def test_optimal_trader_of_a_signal_that_moves_nothing_is_rejected(
    martingale: Market, winning: list[FoldMetrics], tmp_path: Path
) -> None:
    """The control of the pass: same orders on the same signal, another price."""
    folds = martingale.metrics(martingale.replay(optimal))
    code, summary = judged(martingale.run, tmp_path / "run", folds)
    assert (code, summary.verdict.outcome) == (ExitCode.REJECTED, "reject")
    assert reasons(summary) == {0: ["win rate"], 1: ["win rate"]}
    assert [f.num_trades for f in folds] == [f.num_trades for f in winning]
    assert all(found.net_lower_ticks < 0 for found in folds)


def test_random_trader_is_rejected_for_its_win_rate(planted: Market, tmp_path: Path) -> None:
    folds = planted.metrics(planted.replay(at_random))
    assert all(found.num_trades > 400 and 60 < found.hold_percent < 70 for found in folds)
    code, summary = judged(planted.run, tmp_path / "run", folds)
    assert (code, summary.verdict.outcome) == (ExitCode.REJECTED, "reject")
    assert reasons(summary) == {0: ["win rate"], 1: ["win rate"]}
    shown = f"fold 0: win rate is {folds[0].win_rate:.4g}, needs >= 0.5 not to be rejected"
    assert said(summary.verdict)[0] == shown
    assert all(abs(found.excess_lower_ticks) < 0.3 for found in folds), "it is one of its own baselines"


def test_never_trading_is_inconclusive(planted: Market, tmp_path: Path) -> None:
    folds = planted.metrics(planted.replay(never))
    code, summary = judged(planted.run, tmp_path / "run", folds)
    assert (code, summary.verdict.outcome) == (ExitCode.INCONCLUSIVE, "inconclusive")
    assert said(summary.verdict) == [f"fold {k}: trades is 0, needs >= 200" for k in range(2)]


def test_take_profit_0_1_stop_8_on_a_martingale_fails_for_money_alone(
    martingale: Market, tmp_path: Path
) -> None:
    folds = martingale.metrics(martingale.replay(long_all_day))
    assert all(inside_but_for_money(found) for found in folds)
    assert all(found.expectancy_ticks < -1.0 for found in folds), "what a round trip costs"
    code, summary = judged(martingale.run, tmp_path / "run", folds)
    assert (code, summary.verdict.outcome) == (ExitCode.REJECTED, "fail")
    assert reasons(summary) == BOTH
    assert said(summary.verdict)[0].endswith("needs > 0 ticks per decision at 95%")


def test_take_profit_0_1_stop_8_that_foresees_its_side_passes(planted: Market, tmp_path: Path) -> None:
    """The control: the same rule of leaving, and entries on the planted signal."""
    folds = planted.metrics(planted.replay(lambda fold: takes_profit(fold, 0.1, 8.0, least_signal=0.9)))
    code, summary = judged(planted.run, tmp_path / "run", folds)
    assert (code, said(summary.verdict)) == (ExitCode.DONE, [])


def test_momentum_trader_is_rejected_for_its_win_rate(planted: Market, tmp_path: Path) -> None:
    folds = planted.metrics([fold.rules["momentum"] for fold in planted.folds])
    assert all(found.num_trades > 700 and 50 < found.hold_percent < 65 for found in folds)
    code, summary = judged(planted.run, tmp_path / "run", folds)
    assert (code, summary.verdict.outcome) == (ExitCode.REJECTED, "reject")
    assert reasons(summary) == {0: ["win rate"], 1: ["win rate"]}


def row_within_a_trade(market: Market, account: Account) -> int:
    """A cache row one decision into a longer trade from the middle of the account."""
    entries = account.trades.entry_ns[account.trades.age >= 4]
    return int(np.searchsorted(market.cache.ts_ns, entries[len(entries) // 2])) + CONFIG.data.decision_rows


def test_one_lucky_trade_fails_for_money_although_it_earns(martingale: Market, tmp_path: Path) -> None:
    """A jump of the price in the middle of each test window finds the take-profit trader long."""
    rows = [row_within_a_trade(martingale, account) for account in martingale.replay(long_all_day)]
    market = martingale.raised(dict.fromkeys(rows, LUCK_TICKS))
    accounts = market.replay(long_all_day)
    folds = market.metrics(accounts)
    for account, found in zip(accounts, folds, strict=True):
        best = account.trades.pnl_ticks.max()
        assert best > 0.9 * LUCK_TICKS
        assert 0 < found.net_ticks < best, "without that trade there is no profit"
        assert inside_but_for_money(found)
        assert found.net_lower_ticks <= 0
    code, summary = judged(market.run, tmp_path / "run", folds)
    assert (code, summary.verdict.outcome) == (ExitCode.REJECTED, "fail")
    assert reasons(summary) == BOTH


def test_one_lucky_trades_profit_spread_over_all_trades_passes(martingale: Market, tmp_path: Path) -> None:
    """The control: the same trades and the same total, without a jump."""
    folds = martingale.metrics([spread(a, LUCK_TICKS) for a in martingale.replay(long_all_day)])
    code, summary = judged(martingale.run, tmp_path / "run", folds)
    assert (code, said(summary.verdict)) == (ExitCode.DONE, [])


def spread(account: Account, ticks: float) -> Account:
    """The account with `ticks` given to all trades alike, at their exits."""
    decisions, trades = account.decisions, account.trades
    each, pnl = ticks / len(trades), decisions.pnl_ticks.copy()
    np.add.at(pnl, np.searchsorted(decisions.ts_ns, trades.exit_ns, side="right") - 1, each)
    net = trades.pnl_ticks + each
    return account._replace(
        decisions=replace(decisions, pnl_ticks=pnl),
        trades=replace(trades, pnl_ticks=net, gross_ticks=net + trades.fee_ticks),
    )


def ended_after(market: Market, winner: list[Account], num_trades: int) -> list[FoldMetrics]:
    """Metrics of the optimal trader whose first test window ends with its trade `num_trades`."""
    fold, account = market.folds[0], winner[0]
    decisions = account.decisions
    closed = np.searchsorted(np.sort(account.trades.exit_ns), decisions.ts_ns, side="right")
    # A window that ends while a position is held closes it: one trade more.
    total = closed + decisions.in_market
    last_ns = decisions.ts_ns[np.flatnonzero(total == num_trades)[0]]
    short = fold.cut(int(np.searchsorted(fold.tape.ts_ns.numpy(), last_ns)))
    (first,) = short.replay(optimal(short))
    return [metrics(short, 0, first), metrics(market.folds[1], 1, winner[1])]


def test_199_trades_are_inconclusive(planted: Market, winner: list[Account], tmp_path: Path) -> None:
    folds = ended_after(planted, winner, 199)
    code, summary = judged(planted.run, tmp_path / "run", folds)
    assert (code, summary.verdict.outcome) == (ExitCode.INCONCLUSIVE, "inconclusive")
    assert said(summary.verdict) == ["fold 0: trades is 199, needs >= 200"]


def test_200_trades_of_the_same_trader_pass(planted: Market, winner: list[Account], tmp_path: Path) -> None:
    folds = ended_after(planted, winner, 200)
    assert folds[0].num_trades == 200
    code, summary = judged(planted.run, tmp_path / "run", folds)
    assert (code, said(summary.verdict)) == (ExitCode.DONE, [])


def at_49_percent(fold: Fold) -> Account:
    """A trader who pays the costs of feeble trades until he wins 48 to 50 % of all."""
    for weak in (0.36, 0.34, 0.38, 0.32, 0.4, 0.3, 0.42):
        (account,) = fold.replay(scratches(fold, 1.3, weak))
        if 0.48 < float((account.trades.pnl_ticks > 0).mean()) < 0.5:
            return account
    raise AssertionError("no share of feeble trades gives this win rate")


def test_win_rate_of_49_percent_with_profit_is_rejected(planted: Market, tmp_path: Path) -> None:
    folds = planted.metrics([at_49_percent(fold) for fold in planted.folds])
    for found in folds:
        assert found.net_lower_ticks > 0.05, "the profit is no luck"
        assert found.excess_lower_ticks > 0.05
        assert 30 < found.hold_percent < 70
    code, summary = judged(planted.run, tmp_path / "run", folds)
    assert (code, summary.verdict.outcome) == (ExitCode.REJECTED, "reject")
    assert reasons(summary) == {0: ["win rate"], 1: ["win rate"]}
    shown = f"fold 1: win rate is {folds[1].win_rate:.4g}, needs >= 0.5 not to be rejected"
    assert said(summary.verdict)[1] == shown


def test_win_rate_of_the_same_trader_without_the_feeble_trades_passes(
    planted: Market, tmp_path: Path
) -> None:
    folds = planted.metrics(planted.replay(lambda fold: scratches(fold, 1.0, 0.0)))
    code, summary = judged(planted.run, tmp_path / "run", folds)
    assert (code, said(summary.verdict)) == (ExitCode.DONE, [])
