"""Made-up results with known figures."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.learning.result import FoldResult, Point, Result, Yardstick
from tests.learn.conftest import STEADY, build_account
from trainer.config import EvaluateConfig, GateConfig
from trainer.learn.gate import judge
from trainer.learn.metrics import FoldMetrics, fold_metrics
from trainer.presets import INSTRUMENTS

MakeResult = Callable[..., Result]


def metrics(net: float, trades: int = 240, wins: int = 180, period: int = 4) -> FoldMetrics:
    """A fold that earns `net` ticks a decision with that many trades, one every `period` decisions."""
    won = np.arange(trades) % trades < wins
    pnl = np.where(np.random.default_rng(0).permutation(won), 1.0, -1.0)
    pnl += net * period - pnl.mean()
    decisions, closed = build_account(pnl, period)
    flat = np.zeros(len(decisions))
    return fold_metrics(
        0, decisions, closed, baselines={"random": flat - 0.3, "untrained": flat - 0.4},
        training_entropy=STEADY, instrument=INSTRUMENTS["ES"], cfg=EvaluateConfig(bootstrap_resamples=100),
    )  # fmt: skip


@pytest.fixture
def make_result() -> MakeResult:
    """`make_result(net, variant="demo", market="planted", ...)`: one fold, a curve that rises to `net`."""

    def make(net: float, steps: tuple[int, ...] = (100, 200), **changes: Any) -> Result:
        fold = changes.pop("metrics", None) or metrics(net)
        points = [Point.of(step, fold) for step in steps]
        points[0] = points[0].model_copy(update={"net_ticks_per_decision": net / 2})
        earned = 1.25 if changes.get("market", "planted") == "planted" else 0.0
        best = Yardstick(net_ticks_per_decision=earned, win_rate=0.8, hold_percent=62.0)
        book = Yardstick(net_ticks_per_decision=0.9 * earned, win_rate=0.8, hold_percent=62.0)
        result = FoldResult(fold=0, untrained_ticks_per_decision=-0.4, curve=tuple(points), metrics=fold,
                            train_s=1.0, evaluate_s=1.0)  # fmt: skip
        body: dict[str, Any] = {
            "variant": "demo", "market": "planted", "seed": 0, "digest": "d" * 16, "config_digest": "c" * 16,
            "data_fingerprint": "f" * 16, "config": {}, "n_steps": steps[-1], "planned_folds": 1,
            "environment": {"device": "cpu", "torch": "2", "cuda": "none", "commit": "0" * 40},
            "prepare_s": 1.0, "oracle": best, "book": book, "folds": (result,),
            "verdict": judge([fold], GateConfig()),
        }  # fmt: skip
        return Result(**(body | changes))

    return make
