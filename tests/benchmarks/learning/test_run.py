"""What an experiment keeps between its calls, and what lets a process run many of them on a GPU."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from benchmarks.learning import run
from benchmarks.learning.run import Curve, let_runs_share_compiled_parts, yardsticks
from trainer.config import Config
from trainer.errors import InputError
from trainer.learn.tree import CompiledTree
from trainer.presets import demo

MARKET = demo().replaced(market_source="planted")


def test_yardsticks_are_kept_for_all_seeds_and_made_again_from_a_damaged_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "TRADER_DECISIONS", 500)
    found = yardsticks(MARKET, tmp_path)
    assert found[0].net_ticks_per_decision > 0.5
    (path,) = tmp_path.glob("traders/*.json")
    kept = path.read_text()
    path.write_text(kept.replace(str(found[0].win_rate), "0.125", 1))
    assert yardsticks(MARKET.replaced(synthetic={"seed": 99}), tmp_path)[0].win_rate == 0.125
    path.write_text(kept[:20])
    assert yardsticks(MARKET, tmp_path) == found
    assert path.read_text() == kept


def test_another_market_has_yardsticks_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "TRADER_DECISIONS", 500)
    for changes in ({}, {"market_source": "martingale"}, {"synthetic": {"noise_ticks": 2.0}}):
        yardsticks(MARKET.replaced(**changes), tmp_path)  # type: ignore[arg-type]
    assert len(list(tmp_path.glob("traders/*.json"))) == 3


def test_seconds_are_added_up_also_over_a_stop(tmp_path: Path) -> None:
    path = tmp_path / "curve.json"
    curve = Curve()
    with pytest.raises(KeyboardInterrupt), curve.timed("train", path):
        raise KeyboardInterrupt
    first_s = Curve.load(path).train_s
    assert first_s > 0
    later = Curve.load(path)
    with later.timed("train", path):
        pass
    assert Curve.load(path).train_s > first_s


def test_a_damaged_curve_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "curve.json"
    path.write_text("{")
    with pytest.raises(InputError, match=r"curve\.json: unreadable: .*; delete it"):
        Curve.load(path)


@pytest.fixture
def compiler() -> Iterator[None]:
    from torch._dynamo import config as dynamo

    torch._dynamo.reset()
    before = dynamo.recompile_limit
    yield
    dynamo.recompile_limit = before
    torch._dynamo.reset()


def compile_parts(count: int) -> None:
    """As many compiled parts as that, each with another constant, as those of other variants have."""
    for at in range(count):
        part = CompiledTree(lambda learner, x: x + learner, fullgraph=True, dynamic=False, backend="eager")
        assert int(part(at, torch.ones(1, dtype=torch.int64))) == at + 1


@pytest.mark.usefixtures("compiler")
def test_more_compiled_parts_than_torch_allows_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    let_runs_share_compiled_parts(Config().replaced(run={"device": "cpu"}))
    with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
        compile_parts(12)
    monkeypatch.setattr(run, "resolve_device", lambda name: torch.device("cuda"))
    let_runs_share_compiled_parts(Config())
    compile_parts(12)
