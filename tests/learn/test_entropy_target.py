"""What the entropy coefficient is steered towards: by default a share of what a lane may choose from."""

import math

import pytest
import torch

from tests.learn.test_controllers import COLD, LEARN, adapted, seen, start
from trainer.config import LearnConfig
from trainer.learn.controllers import update_averages, update_outputs
from trainer.presets import seed

ALL_ACTIONS = seed().learn


def entropy_steps(entropy: float, learn: LearnConfig, steps: int = 1) -> float:
    """Factor that `steps` bounded steps put on the entropy coefficient; lanes choose from three actions."""
    values, counts = start()
    values = update_averages(values, seen(entropy=entropy, entropy_limit=math.log(3)), learn)
    for step in range(50, 50 * (steps + 1), 50):
        values = update_outputs(values, counts | {"updates": torch.tensor(step)}, COLD, learn)
    return values["entropy_coef"].item() / 0.035


def test_the_documents_entropy_target_is_a_ratchet_that_never_lowers_the_coefficient() -> None:
    reachable = [math.log(11) * share / 20 for share in range(1, 21)]
    factors = [entropy_steps(entropy, ALL_ACTIONS) for entropy in reachable]
    assert min(factors) == pytest.approx(1.0), "lowering would start above 1.05 ln 11"
    assert [entropy for entropy, factor in zip(reachable, factors, strict=True) if factor > 1.1] == [
        entropy for entropy in reachable if entropy < 0.7 * math.log(11) / 1.5
    ]
    # All that a flat lane can choose from is ln 3: even a uniform policy is pushed up to the upper bound.
    assert entropy_steps(math.log(3), ALL_ACTIONS, 30) == pytest.approx(1.0 / 0.035)


def test_the_default_entropy_target_lowers_the_coefficient_of_a_uniform_policy() -> None:
    assert entropy_steps(math.log(3), LEARN) == pytest.approx(0.6 + 0.4 / 1.5)
    assert entropy_steps(0.7 * math.log(3), LEARN) == pytest.approx(1.0)
    assert entropy_steps(0.3, LEARN) == pytest.approx(0.6 + 0.4 * 1.5)


def test_the_entropy_target_in_use_is_on_the_bus() -> None:
    three = seen(entropy=1.0, entropy_limit=math.log(3))
    assert adapted(three, 1, learn=LEARN)["ema.entropy_target"].item() == pytest.approx(0.7 * math.log(3))
    documents = adapted(three, 1, learn=ALL_ACTIONS)["ema.entropy_target"].item()
    assert documents == pytest.approx(0.7 * math.log(11))
