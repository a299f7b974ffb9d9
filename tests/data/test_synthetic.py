"""The synthetic market: valid DBN, all the traps, a signal that pays in one market only."""

from pathlib import Path

import databento_dbn as dbn
import numpy as np
import pytest
import zstandard

from tests.data.decoded import ROWS, SESSIONS, chunk_of, market, read, valid_rows
from trainer.config import Config
from trainer.data import synthetic
from trainer.data.cache import build_cache
from trainer.data.dbn import LAST
from trainer.data.features import FeatureStream
from trainer.data.latent import LatentModel
from trainer.data.synthetic import session_path, trading_sessions, write_market
from trainer.errors import InputError
from trainer.presets import INSTRUMENTS, demo


def regression_r2(features: np.ndarray, target: np.ndarray) -> float:
    """R2 of a linear regression fitted on the first half, out of sample on the second."""
    half = len(target) // 2
    mean, sd = features[:half].mean(axis=0), features[:half].std(axis=0)
    x = np.column_stack([(features - mean) / np.where(sd > 1e-6, sd, np.inf), np.ones(len(target))])
    weights = np.linalg.lstsq(x[:half], target[:half], rcond=None)[0]
    residual = target[half:] - x[half:] @ weights
    return float(1.0 - residual.var() / target[half:].var())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    return {
        source: write_market(market(source), tmp_path_factory.mktemp(source))
        for source in ("planted", "martingale")
    }


def pooled(paths: list[Path], source: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, true signal and the move over the next decision of all rows that have one."""
    config, ahead = market(source), demo().data.decision_rows
    features, signals, moves = [], [], []
    for index, (path, session) in enumerate(zip(paths, trading_sessions(SESSIONS), strict=True)):
        chunk = chunk_of(read(path), session)
        mid = (chunk.bid_px[:, 0] + chunk.ask_px[:, 0]) / 2
        known = np.flatnonzero(chunk.segment[ahead:] == chunk.segment[:-ahead])
        features.append(FeatureStream(ahead).push(chunk)[known])
        signals.append(session_path(config, LatentModel.from_config(config), index, 0.0).signal[known])
        moves.append((mid[ahead:] - mid[:-ahead])[known])
    return np.concatenate(features), np.concatenate(signals), np.concatenate(moves)


def test_a_market_with_a_clock_of_its_own_does_not_know_when_agents_decide(
    files: dict[str, list[Path]], tmp_path: Path
) -> None:
    own = {"signal_rows": demo().data.decision_rows}
    paths = write_market(market("planted").replaced(data={"decision_rows": 3}, synthetic=own), tmp_path)
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in files["planted"]]


@pytest.mark.parametrize("source", ["planted", "martingale"])
def test_the_newest_row_shows_the_signal(files: dict[str, list[Path]], source: str) -> None:
    features, signal, _ = pooled(files[source], source)
    assert regression_r2(features, signal) > 0.9**2, "correlation of the regression with the signal"


def test_features_predict_the_move_nearly_as_well_as_the_hidden_signal(files: dict[str, list[Path]]) -> None:
    features, signal, move = pooled(files["planted"], "planted")
    oracle = np.corrcoef(signal, move)[0, 1] ** 2
    model = LatentModel.from_config(market("planted"))
    theory = model.drift_sd_ticks**2 / (model.drift_sd_ticks**2 + model.noise_sd_ticks**2)
    assert oracle == pytest.approx(theory, abs=0.05)
    assert oracle - 0.12 < regression_r2(features, move) <= oracle + 0.02


def test_features_predict_nothing_on_the_martingale(files: dict[str, list[Path]]) -> None:
    features, signal, move = pooled(files["martingale"], "martingale")
    assert abs(regression_r2(features, move)) < 0.03
    assert abs(np.corrcoef(signal, move)[0, 1]) < 0.05


def test_both_markets_draw_their_books_alike(files: dict[str, list[Path]]) -> None:
    session = trading_sessions(1)[0]
    planted, martingale = (chunk_of(read(paths[0]), session) for paths in files.values())
    np.testing.assert_array_equal(planted.ts_ns, martingale.ts_ns)
    spreads = [chunk.ask_px[:, 0] - chunk.bid_px[:, 0] for chunk in (planted, martingale)]
    np.testing.assert_array_equal(*spreads)
    for level in range(10):
        logs = [np.log1p(chunk.bid_sz[:, level]) for chunk in (planted, martingale)]
        assert logs[0].mean() == pytest.approx(logs[1].mean(), abs=0.06), level
        assert logs[0].std() == pytest.approx(logs[1].std(), rel=0.12), level
    moves = [pooled(files[source], source)[2].std() for source in files]
    assert moves[0] == pytest.approx(moves[1], rel=0.1)


def test_the_vendors_reader_accepts_the_file(tmp_path: Path) -> None:
    path = write_market(market("planted", rows=256, sessions=1), tmp_path)[0]
    with path.open("rb") as raw:
        body = zstandard.ZstdDecompressor().stream_reader(raw).read()
    decoder = dbn.DBNDecoder()
    decoder.write(body)
    metadata, *records = decoder.decode()
    mine = read(path)
    assert (metadata.version, metadata.dataset, metadata.schema) == (3, "SYNTH", dbn.Schema.MBP_10)
    assert len(records) == len(mine)
    for theirs, ours in zip(records, mine, strict=True):
        assert isinstance(theirs, dbn.MBP10Msg)
        assert (theirs.ts_recv, theirs.levels[0].bid_px) == (ours["ts_recv"], ours["levels"]["bid_px"][0])


def test_the_same_config_gives_the_same_bytes_and_another_seed_another_market(tmp_path: Path) -> None:
    small = {"rows": 512, "sessions": 2}
    first = write_market(market("planted", **small), tmp_path / "a")
    again = write_market(market("planted", **small), tmp_path / "b")
    other = write_market(market("planted", **small, seed=8), tmp_path / "c")
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in again]
    assert first[0].read_bytes() != other[0].read_bytes()
    assert not list(tmp_path.rglob("*.tmp"))


def test_the_cache_of_the_files_holds_every_row_and_the_same_features(
    files: dict[str, list[Path]], tmp_path: Path
) -> None:
    config = market("planted").replaced(data={"folds": 1})
    cache = build_cache(config, files["planted"][0].parent, tmp_path)
    sessions = trading_sessions(SESSIONS)
    chunks = [chunk_of(read(path), session) for path, session in zip(files["planted"], sessions, strict=True)]
    expected = [FeatureStream(config.data.decision_rows).push(chunk) for chunk in chunks]
    assert cache.instrument == INSTRUMENTS["synthetic"]
    assert len(cache.segments) == 2 * SESSIONS, "one gap a session"
    np.testing.assert_allclose(cache.features, np.concatenate(expected), rtol=1e-6, atol=1e-6)


def test_the_quoted_mid_lies_within_half_a_tick_of_the_hidden_mid(files: dict[str, list[Path]]) -> None:
    config = market("planted")
    path = session_path(config, LatentModel.from_config(config), 0, synthetic.START_TICKS)
    chunk = chunk_of(read(files["planted"][0]), trading_sessions(1)[0])
    error = (chunk.bid_px[:, 0] + chunk.ask_px[:, 0]) / 2 - path.mid_ticks
    assert np.abs(error).max() <= 0.5
    assert abs(error.mean()) < 0.02


def test_the_traps_of_real_files_are_there(files: dict[str, list[Path]]) -> None:
    session = trading_sessions(1)[0]
    records = read(files["planted"][0])
    best, last, trade = records["levels"][:, 0], records["flags"] & LAST > 0, records["action"] == b"T"
    crossed = best["bid_px"] >= best["ask_px"]
    before = records["ts_recv"] < session.open_ns
    assert before.sum() == synthetic.PRE_OPEN
    assert crossed[before].all()
    assert (crossed & last & ~before).sum() == synthetic.AT_OPEN
    assert (crossed & ~last).sum() > 100, "events of two records"
    assert (trade & last).any()
    assert (trade & ~last).any()
    assert (records["side"][trade] == b"N").any()
    assert (records["levels"]["bid_px"][:, 9] == np.iinfo(np.int64).max).any(), "a thin book"
    previous = valid_rows(records, session.open_ns)
    at = np.flatnonzero(trade)
    shown = previous[np.searchsorted(previous, at) - 1]
    assert (records["levels"][at] == records["levels"][shown]).all(), "a trade shows the book before it"


def test_volatile_times_are_busy() -> None:
    session, calm = trading_sessions(1)[0], np.repeat([0.5, -0.5], 4096)
    gaps = np.diff(synthetic.row_times(session, calm, 60.0, np.random.default_rng(0)))
    assert np.median(gaps[:4000]) < 0.7 * np.median(gaps[-4000:]), "the profile over the day is symmetric"


def test_busy_times_cluster(files: dict[str, list[Path]]) -> None:
    chunk = chunk_of(read(files["planted"][0]), trading_sessions(1)[0])
    gaps = np.log(np.diff(chunk.ts_ns))
    lags = {lag: np.corrcoef(gaps[lag:], gaps[:-lag])[0, 1] for lag in (1, 10)}
    assert lags[1] > 0.3
    assert 0.05 < lags[10] < lags[1]


@pytest.mark.parametrize(("rows", "max_gap_s"), [(256, 60.0), (ROWS, 60.0), (65_536, 60.0), (2000, 5.0)])
def test_one_long_gap_a_session_and_no_other(rows: int, max_gap_s: float) -> None:
    session = trading_sessions(1)[0]
    ts_ns = synthetic.row_times(session, np.zeros(rows), max_gap_s, np.random.default_rng(0))
    gaps_s = np.diff(ts_ns) * 1e-9
    assert (gaps_s > max_gap_s).sum() == 1
    assert np.median(gaps_s) > 0.05, "far above the order latency"
    assert (gaps_s > 0).all()
    assert session.open_ns < ts_ns[0]
    assert ts_ns[-1] < session.close_ns


def test_sessions_follow_new_york_through_the_change_of_summer_time() -> None:
    hours = {np.datetime64(s.open_ns, "ns").astype("datetime64[h]").item().hour for s in trading_sessions(8)}
    assert hours == {22, 23}
    days = [session.day for session in trading_sessions(8)]
    assert days == sorted(set(days))


def test_progress_is_told_after_each_session(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    write_market(
        market("martingale", rows=256, sessions=2), tmp_path, lambda done, total: told.append((done, total))
    )
    assert told == [(1, 2), (2, 2)]


def test_a_file_whose_writing_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(synthetic.os, "fsync", full)
    with pytest.raises(InputError, match="cannot write: No space left on device"):
        write_market(market("planted", rows=256, sessions=1), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_market_or_no_directory_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="market_source"):
        write_market(Config(), tmp_path)
    blocker = tmp_path / "file"
    blocker.write_text("not a directory")
    with pytest.raises(InputError, match="cannot write"):
        write_market(market("planted", rows=256, sessions=1), blocker)
