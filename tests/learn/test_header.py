"""The first lines of a training log: the window's size, and a training that is too long for it."""

import io
from pathlib import Path

import pytest

from tests.market.recorded import steady
from trainer.learn.header import MOST_PASSES, write_header
from trainer.learn.journal import Journal
from trainer.learn.tiles import count_decisions


def lines(tmp_path: Path, *, steps: int, lanes: int) -> tuple[int, list[str]]:
    """Decisions of the window, and what is written for a training of so many steps on so many lanes."""
    market = steady(200)
    config = market.config.replaced(
        run={"n_steps": steps}, learn={"n_backtests": lanes, "per_capacity": 65_536}
    )
    stream = io.StringIO()
    with Journal(tmp_path, steps, 10, stream) as journal:
        write_header(journal, config, "abc", market.tape)
    decisions = count_decisions(market.tape, int(market.tape.anchors.min()))
    return decisions, stream.getvalue().splitlines()


def test_the_log_says_how_often_the_window_is_passed_over(tmp_path: Path) -> None:
    decisions, found = lines(tmp_path, steps=50, lanes=64)
    assert 100 < decisions < 200
    passes = 50 * 64 / decisions
    assert f"window: {decisions} decisions, passed over {passes:.3g} times in 50 steps" in found
    assert not [line for line in found if line.startswith("warning:")]
    assert {"code: abc", "GPU arch: cpu"} <= set(found)


@pytest.mark.parametrize(("above", "warned"), [(-1, 0), (1, 1)])
def test_a_training_too_long_for_its_window_is_warned_of_with_a_length_that_fits(
    tmp_path: Path, above: int, warned: int
) -> None:
    decisions, _ = lines(tmp_path / "a", steps=1, lanes=64)
    steps = (MOST_PASSES * decisions) // 64 + above
    _, found = lines(tmp_path / "b", steps=steps, lanes=64)
    warnings = [line for line in found if line.startswith("warning:")]
    assert len(warnings) == warned
    for line in warnings:
        assert f"about --n-steps {MOST_PASSES // 4 * decisions // 64}" in line
