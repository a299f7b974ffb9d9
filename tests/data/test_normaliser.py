"""The normaliser reads the train window only, and never makes a NaN."""

import numpy as np
import pytest

from trainer.data.normaliser import CHUNK_ROWS, Normaliser
from trainer.errors import InputError

NUM_FEATURES, NUM_HORIZONS = 5, 2


def rows(num_rows: int = 400, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((num_rows, NUM_FEATURES)) * [1, 10, 0.01, 3, 0] + [0, 5, -2, 1e4, 0.1]
    return {
        "features": features.astype(np.float32),
        "ts_ns": np.arange(num_rows, dtype=np.int64) * 2_000_000_000,
        "segment": np.repeat([0, 1], num_rows // 2).astype(np.int32),
        "moves": (rng.standard_normal((num_rows, NUM_HORIZONS)) * [1, 4]).astype(np.float32),
        "valid": rng.random((num_rows, NUM_HORIZONS)) < 0.9,
    }


def test_train_rows_become_standard_and_constant_columns_zero() -> None:
    data = rows()
    normaliser = Normaliser.fit(**data, start=50, end=350)
    train = normaliser.apply(data["features"][50:350])
    np.testing.assert_allclose(train.mean(axis=0), 0, atol=2e-3)
    np.testing.assert_allclose(train.std(axis=0), [1, 1, 1, 1, 0], atol=2e-3)
    assert train.dtype == np.float32
    assert normaliser.sd[4] == 0


def test_statistics_are_those_of_numpy_and_moves_count_only_where_valid() -> None:
    data = rows(seed=3)
    normaliser = Normaliser.fit(**data, start=10, end=390)
    window = slice(10, 390)
    np.testing.assert_allclose(normaliser.mean, data["features"][window].mean(axis=0, dtype=float), rtol=1e-6)
    expected = [
        data["moves"][window, h][data["valid"][window, h]].std(dtype=float) for h in range(NUM_HORIZONS)
    ]
    np.testing.assert_allclose(normaliser.move_sd, expected, rtol=1e-6)
    assert normaliser.elapsed_scale_s == pytest.approx(2.0)


def test_the_jump_between_segments_is_no_elapsed_time() -> None:
    data = rows()
    data["ts_ns"][200:] += 10**15
    assert Normaliser.fit(**data, start=0, end=400).elapsed_scale_s == pytest.approx(2.0)


def test_rows_outside_the_train_window_do_not_matter() -> None:
    data, poisoned = rows(), rows()
    for name, value in (("features", np.nan), ("moves", np.nan), ("ts_ns", 0), ("segment", 7)):
        poisoned[name][:50], poisoned[name][350:] = value, value
    clean, other = (Normaliser.fit(**d, start=50, end=350).to_arrays() for d in (data, poisoned))
    for name, value in clean.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


def test_outliers_are_clipped_to_ten_standard_deviations() -> None:
    normaliser = Normaliser.fit(**rows(), start=0, end=400)
    extreme = np.full((2, 3, NUM_FEATURES), [[[1e30]], [[-1e30]]], dtype=np.float32)
    out = normaliser.apply(extreme)
    assert np.isfinite(out).all()
    assert out[0, 0].tolist() == [10, 10, 10, 10, 0]
    assert out[1, 0].tolist() == [-10, -10, -10, -10, 0]


def test_sums_over_several_chunks_equal_one_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    data = rows()
    whole = Normaliser.fit(**data, start=3, end=397)
    assert CHUNK_ROWS > 400
    monkeypatch.setattr("trainer.data.normaliser.CHUNK_ROWS", 37)
    parts = Normaliser.fit(**data, start=3, end=397)
    np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-6)
    np.testing.assert_allclose(parts.sd, whole.sd, rtol=1e-6)


def test_arrays_round_trip_and_a_missing_one_is_named() -> None:
    normaliser = Normaliser.fit(**rows(), start=0, end=400)
    arrays = normaliser.to_arrays()
    again = Normaliser.from_arrays(arrays)
    for name, value in again.to_arrays().items():
        np.testing.assert_array_equal(value, arrays[name], err_msg=name)
    del arrays["move_sd"]
    with pytest.raises(InputError, match="move_sd"):
        Normaliser.from_arrays(arrays)


def test_a_window_too_short_to_fit_is_refused_in_one_line() -> None:
    data = rows()
    with pytest.raises(InputError, match="train window has 1 rows"):
        Normaliser.fit(**data, start=5, end=6)
    data["valid"][:, 1] = False
    with pytest.raises(InputError, match="largest horizon"):
        Normaliser.fit(**data, start=0, end=400)
