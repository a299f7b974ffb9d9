"""The hidden signal leads the price by one decision and remembers as much as asked for."""

import numpy as np
import pytest

from trainer.data.latent import VOLATILITY_SD, LatentModel, block_moments, row_memory, volatility


@pytest.mark.parametrize(("memory", "span"), [(0.0, 8), (0.1, 8), (0.2, 32), (0.7, 32), (0.3, 1)])
def test_the_signal_has_unit_variance_and_the_memory_asked_for(memory: float, span: int) -> None:
    variance, covariance = block_moments(row_memory(memory, span), span)
    if memory:
        assert covariance / variance == pytest.approx(memory, abs=1e-9)
    signal = LatentModel(span, memory, 2.0, 1.0, 1.0).path(200_000, np.random.default_rng(0)).signal
    assert signal.var() == pytest.approx(1.0, abs=0.06)
    assert np.corrcoef(signal[span:], signal[:-span])[0, 1] == pytest.approx(memory, abs=0.03)


def test_the_mid_of_a_row_holds_no_later_increment() -> None:
    model = LatentModel(8, 0.1, 2.0, 1.0, 1.0)
    path = model.path(50_000, np.random.default_rng(1))
    past = path.mid_ticks[16:-8] - path.mid_ticks[8:-16]
    ahead = path.mid_ticks[24:] - path.mid_ticks[16:-8]
    signal = path.signal[16:-8]
    assert np.corrcoef(signal, ahead)[0, 1] > 0.85
    assert np.corrcoef(signal, past)[0, 1] < 0.15, "the memory alone ties the signal to past moves"


def test_volatility_clusters_and_has_a_mean_square_of_one() -> None:
    log_scale = volatility(400_000, 8, np.random.default_rng(2))
    assert np.exp(2.0 * log_scale).mean() == pytest.approx(1.0, abs=0.05)
    assert log_scale.std() == pytest.approx(VOLATILITY_SD, rel=0.05)
    assert np.corrcoef(log_scale[8:], log_scale[:-8])[0, 1] > 0.9, "one decision hardly changes it"


@pytest.mark.parametrize(("drift", "noise"), [(2.4, 1.0), (0.0, 2.6)])
def test_the_variance_of_a_decision_is_that_of_drift_and_noise(drift: float, noise: float) -> None:
    mid = LatentModel(8, 0.1, drift, noise, 1.0).path(800_000, np.random.default_rng(3)).mid_ticks
    assert (mid[8::8] - mid[:-8:8]).var() == pytest.approx(drift**2 + noise**2, rel=0.05)


def test_large_moves_of_the_martingale_follow_large_moves_but_not_their_direction() -> None:
    mid = LatentModel(8, 0.1, 0.0, 2.6, 1.0).path(400_000, np.random.default_rng(4)).mid_ticks
    moves = mid[8::8] - mid[:-8:8]
    assert np.corrcoef(np.abs(moves[1:]), np.abs(moves[:-1]))[0, 1] > 0.08
    assert abs(np.corrcoef(moves[1:], moves[:-1])[0, 1]) < 0.02
