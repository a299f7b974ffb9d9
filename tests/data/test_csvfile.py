"""Numbers of CSV files: exact, in any cut of the file, and every damage an error at its line."""

from contextlib import closing

import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import trainer.data.csvfile as csvfile
from trainer.data.csvfile import CsvFile
from trainer.errors import InputError

COLUMNS = {"time": 9, "count": 0, "price": 0}


def rows_of(path, num_rows=1000, **options):
    pieces = []
    with closing(CsvFile(path, COLUMNS, **options)) as file:
        while not pieces or pieces[-1].shape[1] == num_rows:
            pieces.append(file.read(num_rows))
    assert file.num_rows == sum(piece.shape[1] for piece in pieces)
    assert file.bytes_read == path.stat().st_size
    return np.concatenate(pieces, axis=1)


def error_of(path):
    with pytest.raises(InputError) as caught:
        rows_of(path)
    line = str(caught.value)
    assert line.startswith(str(path))
    assert "\n" not in line
    return line.removeprefix(str(path))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 10**18 - 1),
            st.integers(-(2**63) + 1, 2**63 - 1),
            st.integers(-10_000, 10_000),
        ),
        min_size=1,
        max_size=40,
    ),
    block_bytes=st.integers(64, 400),
    num_rows=st.integers(1, 50),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_every_number_comes_back_exactly_however_the_file_is_cut(
    tmp_path, monkeypatch, rows, block_bytes, num_rows, end
):
    monkeypatch.setattr(csvfile, "BLOCK_BYTES", block_bytes)
    path = tmp_path / "a.csv"
    path.write_bytes(
        "".join(f"{t // 10**9}.{t % 10**9:09d},{c},{p}{end}" for t, c, p in rows).encode("ascii")
    )
    assert rows_of(path, num_rows).T.tolist() == [list(row) for row in rows]


def test_decimals_may_be_fewer_than_nine_but_keep_their_value(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("34200,1,1\n34200.5,1,1\n34200.017,1,1\n34200.017459617,1,1\n0.000000001,1,1\n")
    expected = [34_200_000_000_000, 34_200_500_000_000, 34_200_017_000_000, 34_200_017_459_617, 1]
    assert rows_of(path)[0].tolist() == expected


def test_columns_that_are_not_kept_are_counted_only(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("1.5,2,3\n2.5,3,4\n")
    assert rows_of(path, num_kept=2).tolist() == [[1_500_000_000, 2_500_000_000], [2, 3]]
    path.write_text("1.5,2,3\n2.5,3\n")
    with pytest.raises(InputError, match=r"a\.csv:2: 2 columns, expected 3"):
        rows_of(path, num_kept=2)


def test_a_compressed_file_gives_the_same_numbers(tmp_path):
    plain, packed = tmp_path / "a.csv", tmp_path / "a.csv.zst"
    plain.write_text("".join(f"{i}.25,{i * i},-{i}\n" for i in range(5000)))
    packed.write_bytes(zstandard.compress(plain.read_bytes()))
    np.testing.assert_array_equal(rows_of(packed, 700), rows_of(plain, 701))
    packed.write_bytes(packed.read_bytes()[:-30])
    assert "truncated" in error_of(packed)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1.5,2", "2 columns, expected 3"),
        ("1.5,2,3,4", "4 columns, expected 3"),
        ("1.5,2,3,", "4 columns, expected 3"),
        ("", "1 columns, expected 3"),
        ("1.5,x,3", "count is 'x', not a whole number"),
        ("1.5,,3", "count is '', not a whole number"),
        ("1.5,NaN,3", "count is 'NaN', not a whole number"),
        ("1.5,0x10,3", "count is '0x10', not a whole number"),
        ("1.5,2.0,3", "count is '2.0', not a whole number"),
        ("1.5,1e3,3", "count is '1e3', not a whole number"),
        ("1.5, 2,3", "count is ' 2', not a whole number"),
        ('1.5,"2",3', "count is '\"2\"', not a whole number"),
        ("1.5,+2,3", "count is '+2', not a whole number"),
        ("1.5,2-,3", "count is '2-', not a whole number"),
        ("1.5,9223372036854775808,3", "not a whole number"),
        ("1.5,\u0662,3", "not a whole number"),
        ("1.5,2\r3,3", "count is '2\\r3', not a whole number"),
        ("1.5,2,3\r\r", "price is '3\\r', not a whole number"),
        ("1.0000000001,2,3", "time is '1.0000000001', not a number of at most 9 decimals"),
        ("12345678901.5,2,3", "time is '12345678901.5', not a number of at most 9 decimals"),
        ("99999999999999999999999999999999999.5,2,3", "999.5', not a number of at most 9 decimals"),
        ("1.5.5,2,3", "time is '1.5.5', not a number"),
    ],
)
def test_a_wrong_line_is_named_with_its_column(tmp_path, line, said):
    path = tmp_path / "a.csv"
    path.write_bytes(f"1.5,2,3\n2.5,3,4\n{line}\n3.5,4,5\n".encode())
    found = error_of(path)
    assert found.startswith(":3: ")
    assert said in found


def test_a_wrong_line_far_down_is_counted_over_all_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(csvfile, "BLOCK_BYTES", 100)
    path = tmp_path / "a.csv"
    path.write_text("1.5,2,3\n" * 500 + "1.5,2,x\n" + "1.5,2,3\n" * 9)
    assert error_of(path).startswith(":501: price is 'x'")


@pytest.mark.parametrize("kept", [1, 3, 7])
def test_a_last_line_without_its_end_may_be_cut_and_is_refused(tmp_path, kept):
    """Also where it reads as a whole one: of a cut number nothing tells."""
    path = tmp_path / "a.csv"
    path.write_text("1.5,2,3\n" + "1.5,2,3"[:kept])
    assert error_of(path).startswith(":2: the file ends inside this line")


def test_an_empty_file_and_one_without_lines_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text("")
    assert error_of(path).startswith(": the file is empty")
    monkeypatch.setattr(csvfile, "BLOCK_BYTES", 100)
    path.write_bytes(b"\x00" * 1000)
    assert error_of(path).startswith(":1: the file ends inside this line, or the line does not end")
