"""The prepare stage: data to feature cache to walk-forward windows to `run.json`."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from trainer.config import Config, DataConfig
from trainer.data.cache import Cache, build_cache
from trainer.data.staging import staged_directory
from trainer.data.windows import Window, plan_windows, train_test
from trainer.errors import InputError
from trainer.learn.markers import Marker, write_marker
from trainer.learn.progress import code_sha
from trainer.learn.run import RUN_FILE, FoldRows, Run, WindowRows
from trainer.storage.local import Progress, local_copy

_log = logging.getLogger(__name__)


def prepare(config: Config, run_dir: Path, cache_root: Path, on_progress: Progress) -> Run:
    """Builds or reuses the cache and fixes the run; a second call with the same config and data is quick.

    Raises InputError (bad data, unusable paths) and MismatchError (the directory holds another run).
    """

    def on_bytes(done: int, total: int) -> None:
        on_progress("cache", done, total)

    with _source(config, cache_root, on_progress) as (source, trades):
        cache = build_cache(config, source, cache_root, trades, on_bytes)
    if cache.instrument.fee_per_lot == 0:
        _log.warning("%s: fee_per_lot is 0, trading costs the spread only", cache.instrument.name)
    run = Run(
        config=config,
        config_digest=config.digest(),
        data_fingerprint=cache.fingerprint,
        code_sha=code_sha(),
        cache_dir=cache.path.resolve(),
        folds=_folds(cache, config),
    )
    begun_by = _code_of(run_dir)
    run.save(run_dir)
    if begun_by not in ("", run.code_sha):
        what = f"{run_dir}: begun by code {begun_by:.12}, goes on with {run.code_sha:.12}"
        _log.warning("%s: finished stages are not run again; another --run-id begins anew", what)
    write_marker(
        run_dir,
        Marker(stage="prepare", config_digest=run.config_digest, data_fingerprint=run.data_fingerprint),
    )
    return run


def _code_of(run_dir: Path) -> str:
    """Commit of the code that prepared the run before; empty for a new run."""
    return Run.load(run_dir).code_sha if (run_dir / RUN_FILE).exists() else ""


@contextmanager
def _source(config: Config, cache_root: Path, on_progress: Progress) -> Iterator[tuple[Path, Path | None]]:
    """The mbp-10 source and, if separate, the trades, both on this machine while the block runs."""
    data, trades = config.run.mbp10_data_dir, config.run.trades_data_dir
    if data is None:
        yield _market(config, cache_root, on_progress), None
        return
    with ExitStack() as held:
        book = held.enter_context(local_copy(data, cache_root, on_progress))
        if trades is None or trades == data:
            yield book, None
        else:
            yield book, held.enter_context(local_copy(trades, cache_root, on_progress))


def _market(config: Config, cache_root: Path, on_progress: Progress) -> Path:
    """The directory of the synthetic market; a missing one is written first."""
    if config.market_source is None:
        raise InputError(
            "no data given", where="--mbp10-data-dir", do="give order-book files or --market planted"
        )
    # What the generator reads, and nothing else: other agents, windows and folds share the market.
    synthetic = config.synthetic.model_copy(update={"signal_rows": config.signal_rows})
    data = DataConfig(max_gap_s=config.data.max_gap_s)
    read = Config(market_source=config.market_source, synthetic=synthetic, data=data)
    directory = cache_root / f"{config.market_source}-{read.digest()}"

    def on_session(done: int, total: int) -> None:
        on_progress("market", done, total)

    def whole(path: Path) -> bool:
        return len(list(path.glob("*.dbn.zst"))) == config.synthetic.sessions

    if not whole(directory):
        # Slow to load: a market that is there already needs neither generator nor calendars.
        from trainer.data.synthetic import write_market

        with staged_directory(directory, whole) as staging:
            write_market(config, staging, on_session)
    return directory


def _folds(cache: Cache, config: Config) -> tuple[FoldRows, ...]:
    windows = plan_windows(cache, config)
    pairs = (train_test(cache, windows, k, config) for k in range(config.data.folds))
    return tuple(FoldRows(train=_rows(train), test=_rows(test)) for train, test in pairs)


def _rows(window: Window) -> WindowRows:
    return WindowRows(
        start_row=window.start_row, end_row=window.end_row, start_ns=window.start_ns, end_ns=window.end_ns
    )
