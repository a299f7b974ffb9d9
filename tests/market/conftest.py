"""A cache of one recorded hour, shared by the market's tests."""

from pathlib import Path

import pytest

from trainer.config import Config
from trainer.data.cache import Cache, build_cache


@pytest.fixture(scope="session")
def hour_config() -> Config:
    """Decisions every 8 rows, two folds' worth of rows and more."""
    return Config().replaced(data={"decision_rows": 8, "window_rows": 16, "horizons": [1, 2, 4]})


@pytest.fixture(scope="session")
def hour_cache(shared_data: Path, hour_config: Config, tmp_path_factory: pytest.TempPathFactory) -> Cache:
    """The first hour of an ES session."""
    source = shared_data / "ESH4_20231225.mbp-10.dbn.zst"
    return build_cache(hour_config, source, tmp_path_factory.mktemp("cache"))
