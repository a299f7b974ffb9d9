"""The encoder is causal over its window, and its gates see one row's features only."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from trainer.agent.agent import Agent
from trainer.agent.encoder import selection_gates
from trainer.types import NUM_CONTEXT, NUM_FEATURES

MakeWeights = Callable[..., dict[str, Tensor]]
B, K = 3, 6


@pytest.fixture
def observed(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """`features [B, K, F], elapsed [B, K], context [B, C]` float32."""
    return (
        torch.randn(B, K, NUM_FEATURES, generator=generator),
        torch.rand(B, K, generator=generator),
        torch.randn(B, NUM_CONTEXT, generator=generator),
    )


def test_gates_are_a_softmax_of_their_row_with_mean_one(
    make_weights: MakeWeights, observed: tuple[Tensor, Tensor, Tensor]
) -> None:
    w, (features, _, _) = make_weights(torch.float32), observed
    gates = selection_gates(w, features)
    torch.testing.assert_close(gates.mean(-1), torch.ones(B, K))
    one = torch.softmax(features[1, 2] @ w["select.weight"] + w["select.bias"], 0) * NUM_FEATURES
    torch.testing.assert_close(gates[1, 2], one)


def test_gates_are_unchanged_by_other_rows_and_lanes(
    make_weights: MakeWeights, observed: tuple[Tensor, Tensor, Tensor]
) -> None:
    w, (features, _, _) = make_weights(torch.float32), observed
    other = features + 5.0
    other[1, 2] = features[1, 2]
    assert torch.equal(selection_gates(w, features)[1, 2], selection_gates(w, other)[1, 2])


def test_the_context_enters_by_its_own_embedding_and_by_no_gate(
    agent: Agent, make_weights: MakeWeights, observed: tuple[Tensor, Tensor, Tensor]
) -> None:
    w, (features, elapsed, context) = make_weights(torch.float32), observed
    assert not torch.equal(
        agent.encode(w, features, elapsed, context), agent.encode(w, features, elapsed, context + 1.0)
    )
    w["embed.context"] = torch.zeros_like(w["embed.context"])
    assert torch.equal(
        agent.encode(w, features, elapsed, context), agent.encode(w, features, elapsed, context + 1.0)
    )


@pytest.mark.parametrize("changed", range(K))
def test_no_state_reads_a_later_row(
    agent: Agent, make_weights: MakeWeights, observed: tuple[Tensor, Tensor, Tensor], changed: int
) -> None:
    w, (features, elapsed, context) = make_weights(torch.float32), observed
    later, time = features.clone(), elapsed.clone()
    later[:, changed] = 50.0
    time[:, changed] = 9.0
    before, after = agent.encode(w, features, elapsed, context), agent.encode(w, later, time, context)
    assert torch.equal(before[:, :changed], after[:, :changed])
    assert (before[:, changed] != after[:, changed]).any(-1).all()


def test_lanes_do_not_mix(
    agent: Agent, make_weights: MakeWeights, observed: tuple[Tensor, Tensor, Tensor]
) -> None:
    w, (features, elapsed, context) = make_weights(torch.float32), observed
    other = [t.clone() for t in observed]
    for tensor in other:
        tensor[1] += 1.0
    before, after = agent.encode(w, features, elapsed, context), agent.encode(w, *other)
    assert torch.equal(before[[0, 2]], after[[0, 2]])
    assert not torch.equal(before[1], after[1])


def test_initial_weights_give_finite_states_that_differ_between_lanes(
    agent: Agent, observed: tuple[Tensor, Tensor, Tensor]
) -> None:
    h = agent.encode(agent.layout.unflatten(agent.layout.initial(0)), *observed)
    assert h.shape == (B, K, agent.cfg.hidden)
    assert torch.isfinite(h).all()
    assert 0.01 < h[:, -1].std(0).mean() < 1.0
