"""Caches shared by the market's tests, of a written market and of recorded ones."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from trainer.config import Config
from trainer.data.cache import Cache, build_cache

FILES = {"ES": "ESH4_20231225.mbp-10.dbn.zst", "FROG": "FROG_20250403.mbp-10.dbn.zst"}
MakeCache = Callable[[str, float], Cache]


@pytest.fixture(scope="session")
def hour_config() -> Config:
    """Decisions every 8 rows, two folds' worth of rows and more."""
    return Config().replaced(data={"decision_rows": 8, "window_rows": 16, "horizons": [1, 2, 4]})


@pytest.fixture(scope="session")
def hour_cache(shared_data: Path, hour_config: Config, tmp_path_factory: pytest.TempPathFactory) -> Cache:
    """The first hour of an ES session."""
    return build_cache(hour_config, shared_data / FILES["ES"], tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def make_cache(
    request: pytest.FixtureRequest, hour_config: Config, tmp_path_factory: pytest.TempPathFactory
) -> MakeCache:
    """`make_cache(source, max_gap_s)`: "written" (two synthetic sessions), "ES" or "FROG"."""
    root = tmp_path_factory.mktemp("caches")

    @cache
    def source_of(name: str) -> Path:
        if name != "written":
            return Path(request.getfixturevalue("shared_data")) / FILES[name]
        # Imported here: the generator needs the calendar libraries, the replay does not.
        from trainer.data.synthetic import write_market

        config = hour_config.replaced(
            market_source="planted", synthetic={"sessions": 2, "rows_per_session": 4096}
        )
        (root / name).mkdir()
        write_market(config, root / name)
        return root / name

    @cache
    def make(name: str, max_gap_s: float) -> Cache:
        config = hour_config.replaced(data={"max_gap_s": max_gap_s, "folds": 1})
        return build_cache(config, source_of(name), root)

    return make
