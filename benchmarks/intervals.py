"""The exact interval of a share that was counted."""

from scipy.special import betaincinv


def clopper_pearson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Two-sided exact interval of a share: of 0 of 20, (0, 0.168). ValueError without trials.

    Clopper and Pearson 1934, in its form by quantiles of the beta distribution.
    """
    if not 0 <= successes <= trials or trials == 0:
        raise ValueError(f"{successes} of {trials}")
    tail = (1.0 - confidence) / 2.0
    low = betaincinv(successes, trials - successes + 1, tail) if successes else 0.0
    high = betaincinv(successes + 1, trials - successes, 1.0 - tail) if successes < trials else 1.0
    return float(low), float(high)
