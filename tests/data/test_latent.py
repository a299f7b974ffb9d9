"""The hidden signal leads the price by one decision and remembers as much as asked for."""

import numpy as np
import pytest

from trainer.data.latent import LatentModel, block_moments, row_memory


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
