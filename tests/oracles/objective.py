"""The replayed losses sample by sample in plain Python, with what must stay constant kept apart.

Written from SYSTEM.md section 6 and the papers, not from the product: no tensor, no autograd. `live` is what
a gradient step moves, `fixed` what the same formulas take as given (the value's target, the advantage, the
teacher of the distillation). A finite difference along `live` alone is the gradient that the product owes.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Point(NamedTuple):
    """Weights of the heads by name and the states that they read."""

    w: dict[str, Array]
    x: Array  # [S, D + C]


class Rules(NamedTuple):
    """Which forms hold, and the numbers of the bus."""

    span: float = 4.0
    scale: float = 2.0
    clip: float = 0.2
    temperature: float = 0.5
    at_close: bool = False
    done_only: bool = False
    cut_at_close: bool = False
    target_all: bool = False


def head(w: dict[str, Array], name: str, x: Array) -> Array:
    """One head on one state `[D + C] -> [width]`."""
    if f"{name}.hidden" in w:
        hidden = np.maximum(x @ w[f"{name}.hidden"] + w[f"{name}.hidden_bias"], 0.0)
    else:
        hidden = x[: len(w[f"{name}.weight"])]
    out: Array = hidden @ w[f"{name}.weight"] + w[f"{name}.bias"]
    return out


def log_softmax(z: Array) -> Array:
    top = z.max()
    out: Array = z - top - math.log(np.exp(z - top).sum())
    return out


def distributions(w: dict[str, Array], x: Array, num_actions: int) -> tuple[Array, Array, Array]:
    """Log-chances `[A, Z]`, chances, and the number of atoms' unit grid -1..1 of one state."""
    logits = head(w, "q", x).reshape(num_actions, -1)
    logs = np.stack([log_softmax(row) for row in logits])
    return logs, np.exp(logs), np.linspace(-1.0, 1.0, logits.shape[1])


def projected(chances: Array, atoms: Array, reward: float, discount: float) -> Array:
    """Bellemare et al. 2017, algorithm 1: each atom's mass to its two neighbours by distance."""
    spacing = (atoms[-1] - atoms[0]) / (len(atoms) - 1)
    out = np.zeros_like(chances)
    for p, z in zip(chances, atoms, strict=True):
        place = (min(max(reward + discount * z, atoms[0]), atoms[-1]) - atoms[0]) / spacing
        lower = min(max(math.floor(place), 0), len(atoms) - 2)
        out[lower] += p * (1.0 - (place - lower))
        out[lower + 1] += p * (place - lower)
    return out


def policy(w: dict[str, Array], x: Array, feasible: Array) -> dict[int, float]:
    """Log-chances of the feasible actions of one state."""
    actions = [a for a, ok in enumerate(feasible) if ok]
    return dict(zip(actions, log_softmax(head(w, "pi", x)[actions]).tolist(), strict=True))


def replayed(
    live: Point, fixed: Point, target: dict[str, Array], batch: dict[str, Any], rules: Rules
) -> dict[str, float]:
    """Means over samples of q, policy, value, distill and entropy. `batch` holds arrays by field name."""
    sums = dict.fromkeys(("q", "policy", "value", "distill", "entropy"), 0.0)
    for i in range(len(live.x)):
        for name, value in _sample(live, fixed, target, batch, rules, i).items():
            sums[name] += value / len(live.x)
    return sums


def _sample(
    live: Point, fixed: Point, target: dict[str, Array], batch: dict[str, Any], rules: Rules, i: int
) -> dict[str, float]:
    num_actions = batch["feasible"].shape[1]
    scale = 1.0 if rules.at_close else rules.scale
    returns = batch["returns"][i] / scale
    discount = 0.0 if batch["cut"][i] else batch["discount"][i]
    action = int(batch["action"][i])
    crossed = _crossed(live, target, batch, rules, i, (returns, discount))
    wanted = returns + discount * head(fixed.w, "v", batch["next_x"][i])[0]
    advantage = wanted - head(fixed.w, "v", fixed.x[i])[0]
    if rules.done_only:
        done = bool(batch["done"][i])
        wanted = batch["reward"][i] / scale if done else wanted
        advantage = wanted - head(fixed.w, "v", fixed.x[i])[0] if done else 0.0
    mine = policy(live.w, live.x[i], batch["feasible"][i])
    ratio = math.exp(min(max(mine[action] - batch["log_prob"][i], -2.0), 2.0))
    bounded = min(max(ratio, 1.0 - rules.clip), 1.0 + rules.clip)
    _, chances, grid = distributions(fixed.w, fixed.x[i], num_actions)
    scores = chances @ (grid * rules.span) / rules.temperature
    teacher = log_softmax(scores[list(mine)]).tolist()
    return {
        "q": batch["weight"][i] * crossed,
        "policy": -min(ratio * advantage, bounded * advantage),
        "value": (head(live.w, "v", live.x[i])[0] - wanted) ** 2,
        "distill": sum(math.exp(t) * (t - m) for t, m in zip(teacher, mine.values(), strict=True)),
        "entropy": -sum(math.exp(m) * m for m in mine.values()),
    }


def _crossed(
    live: Point,
    target: dict[str, Array],
    batch: dict[str, Any],
    rules: Rules,
    i: int,
    earned: tuple[float, float],
) -> float:
    """C51's cross-entropy of the taken action against the target network's best next action."""
    num_actions = batch["feasible"].shape[1]
    returns, discount = earned
    if rules.cut_at_close:
        returns = batch["close_returns"][i] / (1.0 if rules.at_close else rules.scale)
        discount = 0.0 if batch["closes"][i] else discount
    _, chances, grid = distributions(target, batch["next_x"][i], num_actions)
    means = chances @ (grid * rules.span)
    allowed = range(num_actions) if rules.target_all else np.flatnonzero(batch["next_feasible"][i])
    best = max(allowed, key=lambda a: means[a])
    wanted = projected(chances[best], grid * rules.span, returns, discount)
    logs, _, _ = distributions(live.w, live.x[i], num_actions)
    return -float(wanted @ logs[int(batch["action"][i])])
