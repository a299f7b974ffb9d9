"""The synthetic market: valid DBN, all the traps, a signal that pays in one market only."""

from pathlib import Path

import databento_dbn as dbn
import numpy as np
import pytest
import zstandard

from trainer.config import Config
from trainer.data import orderflow, synthetic
from trainer.data.book import BookChunk
from trainer.data.cache import build_cache
from trainer.data.features import FeatureStream
from trainer.data.latent import MEAN_SPREAD_TICKS, LatentModel
from trainer.data.mbp import LAST, RECORD
from trainer.data.synthetic import session_path, trading_sessions, write_market
from trainer.errors import InputError
from trainer.presets import INSTRUMENTS, demo

TICK = INSTRUMENTS["synthetic"].tick_size_nanos
ROWS, SESSIONS = 16_384, 2


def market(source: str, rows: int = ROWS, sessions: int = SESSIONS, **fields: float) -> Config:
    return demo().replaced(
        market_source=source, synthetic={"rows_per_session": rows, "sessions": sessions, **fields}
    )


def read(path: Path) -> np.ndarray:
    """The records of a file, decoded without the vendor's reader."""
    with path.open("rb") as raw:
        body = zstandard.ZstdDecompressor().stream_reader(raw).read()
    header = 8 + int.from_bytes(body[4:8], "little")
    return np.frombuffer(body, dtype=RECORD, offset=header)


def valid_rows(records: np.ndarray, open_ns: int) -> np.ndarray:
    best = records["levels"][:, 0]
    keep = (records["flags"] & LAST > 0) & (records["action"] != b"T") & (records["ts_recv"] >= open_ns)
    return np.flatnonzero(keep & (best["bid_px"] < best["ask_px"]))


def chunk_of(records: np.ndarray, session: synthetic.Session) -> BookChunk:
    """Valid rows as readers make them: missing levels repeat the price above, trades are summed."""
    at = valid_rows(records, session.open_ns)
    levels = records["levels"][at]
    columns = {}
    for side in ("bid", "ask"):
        price = levels[f"{side}_px"].copy()
        for level in range(1, 10):
            missing = price[:, level] == np.iinfo(np.int64).max
            price[missing, level] = price[missing, level - 1]
        columns[f"{side}_px"] = (price // TICK).astype(np.int32)
        columns[f"{side}_sz"] = levels[f"{side}_sz"].astype(np.int32)
        columns[f"{side}_ct"] = levels[f"{side}_ct"].astype(np.int32)
    trade = records["action"] == b"T"
    sign = np.where(records["side"] == b"B", 1, np.where(records["side"] == b"A", -1, 0))
    volume = np.concatenate([[0], np.cumsum(np.where(trade, sign * records["size"].astype(np.int64), 0))[at]])
    trades = np.concatenate([[0], np.cumsum(trade)[at]])
    ts_ns = records["ts_recv"][at].astype(np.int64)
    return BookChunk(
        ts_ns=ts_ns,
        **columns,
        signed_volume=np.diff(volume).astype(np.int32),
        trade_count=np.diff(trades).astype(np.int32),
        segment=np.concatenate([[0], np.diff(ts_ns) > 60e9]).cumsum().astype(np.int32),
        session_open_ns=np.full(len(at), session.open_ns),
        session_close_ns=np.full(len(at), session.close_ns),
    )


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


def test_every_valid_row_is_written_once_in_time_order_on_the_grid(files: dict[str, list[Path]]) -> None:
    for path, session in zip(files["planted"], trading_sessions(SESSIONS), strict=True):
        records = read(path)
        assert (np.diff(records["ts_recv"].astype(np.int64)) >= 0).all()
        chunk = chunk_of(records, session)
        assert len(chunk) == ROWS
        assert int(chunk.ts_ns[-1]) < session.close_ns
        prices = records["levels"]["bid_px"]
        assert (prices[prices < np.iinfo(np.int64).max] % TICK == 0).all()
        spread = chunk.ask_px[:, 0] - chunk.bid_px[:, 0]
        assert set(np.unique(spread)) == {1, 2}
        assert spread.mean() == pytest.approx(MEAN_SPREAD_TICKS, abs=0.02)
        for worse in (-np.diff(chunk.bid_px, axis=1), np.diff(chunk.ask_px, axis=1)):
            assert (worse >= 0).all()


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


def test_a_row_names_the_order_that_ended_its_event(files: dict[str, list[Path]]) -> None:
    """Action, side, price and size of the record against the shown books of this row and the row before."""
    records = read(files["planted"][0])
    at = valid_rows(records, trading_sessions(1)[0].open_ns)
    rows, before = records[at[1:]], records[at[:-1]]
    agrees: dict[bytes, list[bool]] = {b"A": [], b"C": [], b"M": []}
    for row, earlier in zip(rows[:3000], before[:3000], strict=True):
        name = "bid" if row["side"] == b"B" else "ask"
        (lots, orders), (old_lots, old_orders) = (
            (levels[f"{name}_sz"][same].sum(dtype=np.int64), levels[f"{name}_ct"][same].sum(dtype=np.int64))
            for levels in (row["levels"], earlier["levels"])
            for same in [levels[f"{name}_px"] == row["price"]]
        )
        joined, left = lots > old_lots and orders > old_orders, lots < old_lots and orders < old_orders
        expected = b"A" if joined else b"C" if left else b"M"
        sized = row["size"] == max(abs(lots - old_lots), 1)
        agrees[bytes(row["action"])].append(bool(row["action"] == expected and sized))
    # What lies behind the tenth level is not shown: the order there may look larger than it was.
    assert all(np.mean(found) > 0.97 and len(found) > 50 for found in agrees.values())


def test_what_was_traded_is_gone_from_the_next_row(files: dict[str, list[Path]]) -> None:
    records = read(files["planted"][0])
    at = valid_rows(records, trading_sessions(1)[0].open_ns)
    following = records[at[np.searchsorted(at, np.flatnonzero(records["action"] == b"T"))]]
    gone = 0
    for trade, row in zip(records[records["action"] == b"T"], following, strict=True):
        levels, after = trade["levels"], row["levels"]
        name = "ask" if (levels["ask_px"] == trade["price"]).any() else "bid"
        [shown] = levels[f"{name}_sz"][levels[f"{name}_px"] == trade["price"]]
        left = after[f"{name}_sz"][after[f"{name}_px"] == trade["price"]].sum()
        assert shown - left == trade["size"]
        gone += int(left == 0)
    assert 0.2 < gone / len(following) < 0.9, "some trades end a queue, some do not"


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


def test_a_session_of_several_blocks_is_one_stream(tmp_path: Path) -> None:
    """One row more than whole blocks: a last block of one row, with or without an order in it."""
    rows = orderflow.BLOCK_ROWS + 1
    records = read(write_market(market("planted", rows=rows, sessions=1), tmp_path)[0])
    np.testing.assert_array_equal(records["sequence"], np.arange(1, len(records) + 1))
    chunk = chunk_of(records, trading_sessions(1)[0])
    assert len(chunk) == rows
    known = np.isin(chunk.bid_px[-1], chunk.bid_px[-2])
    assert known.sum() >= 7, "the book goes on where the block before left it"


def test_no_market_or_no_directory_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="market_source"):
        write_market(Config(), tmp_path)
    blocker = tmp_path / "file"
    blocker.write_text("not a directory")
    with pytest.raises(InputError, match="cannot write"):
        write_market(market("planted", rows=256, sessions=1), blocker)
