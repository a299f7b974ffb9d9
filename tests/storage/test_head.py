"""The first bytes of a file, however they are read."""

import io
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.storage.head import Head

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(-1, 40)),
        st.tuples(st.just("seek"), st.integers(0, 60)),
        st.tuples(st.just("end"), st.integers(-20, 5)),
    ),
    max_size=8,
)


@given(body=st.binary(max_size=40), more=st.binary(max_size=20), steps=STEPS)
def test_it_reads_as_the_bytes_of_the_start_would(
    tmp_path_factory: pytest.TempPathFactory, body: bytes, more: bytes, steps: list[tuple[str, int]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "head"
    path.write_bytes(body)
    with Head(path) as head, path.open("ab") as file:
        file.write(more)
        file.flush()
        plain = io.BytesIO(body)
        for what, value in steps:
            if what == "read":
                assert head.read(value) == plain.read(value)
            else:
                whence = os.SEEK_SET if what == "seek" else os.SEEK_END
                assert head.seek(value, whence) == plain.seek(value, whence)
            assert head.tell() == plain.tell()
        assert head.num_bytes == len(body)


def test_another_reader_has_its_own_place_and_life(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    one = Head(tmp_path / "a")
    assert one.read(2) == b"ab"
    with one.again() as other:
        assert other.read() == b"abc"
    assert one.read() == b"c"
    one.close()
    one.close()
    assert one.closed


def test_a_file_cut_short_meanwhile_ends_early(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abcdef")
    with Head(tmp_path / "a") as head:
        os.truncate(tmp_path / "a", 2)
        assert head.read() == b"ab"
