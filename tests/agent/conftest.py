"""A tiny agent with live weights everywhere, in float64 so that oracles can be compared closely."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from trainer.agent.agent import Agent
from trainer.config import Config
from trainer.presets import demo

CPU = torch.device("cpu")
MakeWeights = Callable[..., dict[str, Tensor]]


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def config() -> Config:
    """Odd, unequal sizes: a mix-up of two axes cannot go unseen."""
    agent = {
        "hidden": 10,
        "ssd_expand": 2,
        "ssd_heads": 4,
        "ssd_state": 3,
        "buckets": (5, 3, 2),
        "head_hidden": 9,
    }
    return demo().replaced(agent=agent, data={"return_classes": 9, "horizons": (1, 4, 16)})


@pytest.fixture(scope="session")
def agent(config: Config) -> Agent:
    return Agent.build(config, CPU)


@pytest.fixture(scope="session")
def make_weights(agent: Agent) -> MakeWeights:
    """`make_weights(dtype=torch.float64, scale=0.4, seed=0)`: every weight random, no head silent."""

    def make(dtype: torch.dtype = torch.float64, scale: float = 0.4, seed: int = 0) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        flat = torch.randn(agent.layout.size, generator=generator, dtype=torch.float64) * scale
        return agent.layout.unflatten(flat.to(dtype))

    return make


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)
