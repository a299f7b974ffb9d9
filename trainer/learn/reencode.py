"""Sampled states encoded again with the present weights, so that replayed losses can train the encoder.

The replay stores h without its gradient. With `learn.encoder_rl` > 0 it also stores the tape rows of s_t and
s_{t+n}; both are observed and encoded again. The successor carries no gradient, but it is encoded again all
the same: heads that learn on present states only would have to judge one that an older encoder made, and here
the encoder moves under exactly that error.
"""

import torch
from torch import Tensor

from trainer.agent.layout import Weights
from trainer.learn.learner import Learner
from trainer.learn.replay import Batch, Origin
from trainer.market.tape import observe
from trainer.types import NUM_CONTEXT


def encoded_again(learner: Learner, w: Weights, batch: Batch) -> Batch:
    """`batch` with h of both states from the weights `w`; itself while `encoder_rl` is 0.

    The gradient of whatever reads `x` reaches the encoder times `encoder_rl`.
    """
    if not isinstance(batch.origin, Origin):
        return batch
    h = _encoded(learner, w, batch.origin.row, batch.x)
    x = torch.cat([scaled_gradient(h, learner.config.learn.encoder_rl), batch.x[:, -NUM_CONTEXT:]], -1)
    with torch.no_grad():
        next_h = _encoded(learner, w, batch.origin.next_row, batch.next_x)
        next_x = torch.cat([next_h, batch.next_x[:, -NUM_CONTEXT:]], -1)
    columns = batch._asdict() | {"x": x, "next_x": next_x}
    return Batch(**columns)


def scaled_gradient(h: Tensor, weight: float) -> Tensor:
    """`h`, bit for bit, with its gradient times `weight`."""
    return h.detach() + weight * (h - h.detach())


def _encoded(learner: Learner, w: Weights, row: Tensor, x: Tensor) -> Tensor:
    """`[S, D]` state at tape rows `row [S]`, context as stored in `x [S, D + C]`; reads rows <= `row`."""
    features, elapsed = observe(learner.tape, row, learner.config.data.window_rows)
    return learner.agent.encode(w, features, elapsed, x[:, -NUM_CONTEXT:])[:, -1]
