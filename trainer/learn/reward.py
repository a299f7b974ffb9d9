"""What a decision earns, in the form that the replay stores, and the documents' scale, clamp and span of it.

SYSTEM.md section 3, LEARNING.md 2. `marked_equity`: the change of equity at mid in raw ticks, divided by the
running scale when it is sampled. `at_close`: the net P&L of a trade in the step that closes it, divided by
the mean |trade P&L|, clamped to [-loss, +1] and stored so. The drawdown penalty is outside the clamp in both.
"""

import torch
from torch import Tensor

from trainer.config import LearnConfig
from trainer.learn.controllers import BLEND, Values, blend_ema
from trainer.market.lanes import Outcome, Trades

WIN_CLAMP = 1.0
LOSS_MARGIN, LOSS_BOUNDS = 1.1, (1.0, 3.0)
SPAN_MULTIPLE, SPAN_BOUNDS = 3.0, (1.0, 12.0)
SCALE_BOUNDS = (1e-3, 1e9)
CLOSE_SLOTS = {"ema.close_win": 0.0, "ema.close_loss": 0.0, "loss_clamp": LOSS_BOUNDS[1]}
"""Bus slots of `at_close` with their starts."""


def stored_reward(outcome: Outcome, slots: Values, learn: LearnConfig) -> Tensor:
    """`[B] float32` reward of this step: raw ticks, or with `at_close` units of the mean |trade P&L|."""
    if learn.reward == "at_close":
        scaled = _scaled_closes(outcome.trades, slots)
        loss = slots["loss_clamp"].clamp(*LOSS_BOUNDS)
        return torch.maximum(scaled, -loss).clamp(max=WIN_CLAMP) + outcome.drawdown_penalty
    scale = slots["reward_scale"].clamp(*SCALE_BOUNDS)
    return outcome.reward_ticks.to(torch.float32) + outcome.drawdown_penalty * scale


def unit_ticks(slots: Values, learn: LearnConfig) -> Tensor | None:
    """Ticks per reward unit of a stored return, None when it is in reward units already."""
    return None if learn.reward == "at_close" else slots["reward_scale"].clamp(min=1e-3)


def _scaled_closes(trades: Trades, slots: Values) -> Tensor:
    """`[B] float32` net P&L of what closed in this step, over the mean |trade P&L|; 0 without a close."""
    return trades.pnl_ticks.sum(1).to(torch.float32) / slots["reward_scale"].clamp(*SCALE_BOUNDS)


def update_close_scale(slots: Values, trades: Trades) -> Values:
    """The next scale, clamp and span of `at_close` from the trades that closed in this step.

    `reward_scale` follows `ema.abs_trade` (the documents multiply by its inverse). The clamp is 1.1 x mean
    loss over mean win in [1, 3]; it moves only when both are known. The span of the atoms is three times the
    larger mean, in bounds of its own. Both read rewards *before* the clamp and neither reads the other: the
    documents fed each from the other once, and the two grew together without end.
    """
    scaled = _scaled_closes(trades, slots)
    win = _mean_ema(slots["ema.close_win"], scaled, scaled > 0)
    loss = _mean_ema(slots["ema.close_loss"], -scaled, scaled < 0)
    clamp = (LOSS_MARGIN * loss / win.clamp(min=1e-12)).clamp(*LOSS_BOUNDS)
    span = (SPAN_MULTIPLE * torch.maximum(win, loss)).clamp(*SPAN_BOUNDS)
    typical = slots["ema.abs_trade"]
    scale = slots["reward_scale"] + BLEND * (typical.clamp(*SCALE_BOUNDS) - slots["reward_scale"])
    return slots | {
        "ema.close_win": win,
        "ema.close_loss": loss,
        "loss_clamp": torch.where((win > 0) & (loss > 0), clamp, slots["loss_clamp"]),
        "atom_span": torch.where((win > 0) | (loss > 0), span, slots["atom_span"]),
        "reward_scale": torch.where(typical == 0.0, slots["reward_scale"], scale),
    }


def _mean_ema(old: Tensor, values: Tensor, chosen: Tensor) -> Tensor:
    """Average of the mean of `values [B]` where `chosen`; kept where nothing is."""
    mean = torch.where(chosen, values, 0.0).sum() / chosen.sum().clamp(min=1)
    return blend_ema(old, mean, chosen.any())
