"""What names a run's data, where a recording is more than one file."""

from pathlib import Path

from pipelines.identity import data_key

NAMES = [f"AAPL_2012-06-21_34200000_57600000_{kind}_10.csv" for kind in ("message", "orderbook")]


def test_either_file_of_a_pair_or_its_directory_names_the_same_data(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in NAMES]
    for path in paths:
        path.write_text(path.name)
    keys = {data_key(source) for source in (tmp_path, *paths)}
    assert len(keys) == 1
    for path in paths:
        path.write_text("changed")
        assert data_key(paths[0]) not in keys, f"{path.name} changed"
        keys.add(data_key(paths[1]))
    assert len(keys) == 3


def test_another_pair_beside_a_named_one_does_not_count(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).write_text(name)
    key = data_key(tmp_path / NAMES[0])
    (tmp_path / NAMES[0].replace("06-21", "06-22")).write_text("another day")
    assert data_key(tmp_path / NAMES[0]) == key != data_key(tmp_path)
