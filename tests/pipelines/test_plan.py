"""The plan: order, argument lists, retry rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.plan import EVALUATE, GATE, NEVER_RETRIED, PREPARE, STAGES, TRAIN, RetryRule


def test_stages_need_only_earlier_stages() -> None:
    names = [stage.name for stage in STAGES]
    assert names == ["prepare", "train", "evaluate", "gate"]
    for i, stage in enumerate(STAGES):
        assert set(stage.needs) <= set(names[:i])


def test_only_train_uses_a_gpu() -> None:
    assert [stage.name for stage in STAGES if stage.resources == "gpu"] == ["train"]


def test_a_train_command_is_the_line_a_developer_types() -> None:
    values = {"run-dir": "runs/a", "fold-idx": "2", "n-steps": "100", "seed": "4", "device": "cpu"}
    assert " ".join(TRAIN.argv(values)) == "train --run-dir runs/a --fold-idx 2 --n-steps 100 --device cpu"


def test_prepare_takes_either_files_or_a_market() -> None:
    files = PREPARE.argv({"run-dir": "r", "preset": "default", "mbp10-data-dir": "/d"})
    market = PREPARE.argv({"run-dir": "r", "preset": "demo", "market": "planted"})
    assert files == ["prepare", "--run-dir", "r", "--preset", "default", "--mbp10-data-dir", "/d"]
    assert market == ["prepare", "--run-dir", "r", "--preset", "demo", "--market", "planted"]


def test_the_gate_takes_the_run_directory_alone() -> None:
    assert GATE.argv({"run-dir": "r", "n-steps": "3", "fold-idx": "1"}) == ["gate", "--run-dir", "r"]


def test_markers_and_labels_name_the_fold() -> None:
    assert PREPARE.marker(None) == "prepare.DONE.json"
    assert EVALUATE.marker(2) == "fold2/evaluate.DONE.json"
    assert (PREPARE.label(None), TRAIN.label(0)) == ("prepare", "fold0 train")
    with pytest.raises(ValueError, match="train belongs to a fold"):
        TRAIN.marker(None)


@pytest.mark.parametrize("code", NEVER_RETRIED)
def test_final_codes_are_never_retried(code: int) -> None:
    assert not any(stage.retry.allows(code, 1, 0) for stage in STAGES)


@pytest.mark.parametrize("code", [75, 137, 143, 255])
def test_interruptions_are_retried_to_the_limit(code: int) -> None:
    rule = TRAIN.retry
    assert rule.limit == 10
    assert rule.allows(code, 10, 0)
    assert not rule.allows(code, 11, 0)


def test_success_is_not_retried() -> None:
    assert not TRAIN.retry.allows(0, 1, 0)


@given(attempts=st.integers(1, 60))
def test_pauses_grow_to_the_cap(attempts: int) -> None:
    rule = RetryRule(limit=60, backoff_s=10, factor=2, cap_s=300)
    assert 10 <= rule.pause_s(attempts) <= rule.pause_s(attempts + 1) <= 300
    assert rule.pause_s(1) == 10
