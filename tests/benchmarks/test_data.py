"""The data benchmark measures what it says, in processes of their own, and holds its bounds."""

import json
from pathlib import Path

import pytest

from benchmarks.data import RECORDS_PER_ROW, main, market_config, measure_here, missed, written_market
from trainer.data.dbn import read_records, source_files
from trainer.errors import ExitCode

NUM_RECORDS = 4_000


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("benchmark")


def test_the_market_has_about_the_records_asked_for_and_is_written_once(directory: Path) -> None:
    market = written_market(directory, NUM_RECORDS)
    [path] = source_files(market)
    written_ns = path.stat().st_mtime_ns
    assert sum(map(len, read_records(path))) == pytest.approx(NUM_RECORDS, rel=0.05)
    assert written_market(directory, NUM_RECORDS) == market
    assert path.stat().st_mtime_ns == written_ns


def test_a_large_market_is_cut_into_sessions_that_fit_into_memory() -> None:
    synthetic = market_config(5_000_000).synthetic
    assert synthetic.sessions * synthetic.rows_per_session * RECORDS_PER_ROW == pytest.approx(
        5_000_000, rel=0.01
    )
    assert synthetic.rows_per_session <= 500_000


def test_a_build_counts_the_rows_and_leaves_no_cache_behind(directory: Path) -> None:
    market = written_market(directory, NUM_RECORDS)
    rate = measure_here("build", market, NUM_RECORDS)
    assert rate.count == market_config(NUM_RECORDS).synthetic.rows_per_session
    assert rate.per_s == pytest.approx(rate.count / rate.seconds)
    assert [path.name for path in directory.iterdir()] == [market.name]


def test_both_measures_come_from_fresh_processes_and_a_missed_bound_is_exit_code_3(
    directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--records", str(NUM_RECORDS), "--dir", str(directory), "--json"]
    assert main([*arguments, "--min-build", "1e12"]) == ExitCode.REJECTED
    printed = capfd.readouterr()
    read, build = json.loads(printed.out)
    assert (read["measure"], read["unit"]) == ("read", "records")
    assert (build["measure"], build["unit"]) == ("build", "rows")
    assert 20 < read["peak_rss_mb"] < build["peak_rss_mb"] < 300
    assert read["load_s"] < build["load_s"]
    assert printed.err.startswith("build: ")


def test_a_bound_that_is_met_is_not_reported(directory: Path) -> None:
    rate = measure_here("read", written_market(directory, NUM_RECORDS), NUM_RECORDS)
    assert missed([rate], {"read": rate.per_s}) == []
    assert len(missed([rate], {"read": rate.per_s * 1.01})) == 1
    assert missed([rate], {"read": 0.0}, rate.peak_rss_mb) == []
    assert len(missed([rate], {"read": 0.0}, rate.peak_rss_mb - 1)) == 1


@pytest.mark.slow
def test_memory_of_a_build_does_not_grow_with_the_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    builds = []
    for num_records in (250_000, 1_000_000):
        arguments = ["--records", str(num_records), "--dir", str(tmp_path), "--json", "--max-rss", "300"]
        assert main(arguments) == ExitCode.DONE
        builds.append(json.loads(capfd.readouterr().out)[1])
    assert builds[1]["count"] > 3 * builds[0]["count"]
    assert builds[1]["peak_rss_mb"] - builds[0]["peak_rss_mb"] < 30
