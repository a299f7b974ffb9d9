"""The checkpoint format: round trips, and every kind of damage is found and named."""

import errno
import os
import shutil
import struct
import zlib
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trainer.errors import InputError
from trainer.learn.foxc import optimizer_section, parse_optimizer, read_foxc, write_foxc

DTYPES = st.sampled_from(["?", "i1", "u1", "i2", "<i4", "<i8", "<u8", "<f4", "<f8", ">f4", ">i8"])
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
ARRAYS = DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, SHAPES))
NAMES = st.text(min_size=1, max_size=12).filter(
    lambda name: name not in ("meta", "crc") and name.isprintable()
)
SECTIONS = st.dictionaries(NAMES, st.one_of(ARRAYS, st.binary(max_size=40)), max_size=5)
on_disk = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a small valid checkpoint."""
    path = tmp_path_factory.mktemp("small") / "c.bin"
    write_foxc(
        path, 258, {"w": np.arange(6, dtype="<f4").reshape(2, 3), "blob": b"xyz"}, {"config_digest": "ab"}
    )
    return path.read_bytes()


def refusal(path: Path) -> str:
    """The message a file is refused with; empty when it is accepted."""
    try:
        read_foxc(path)
    except InputError as error:
        return str(error)
    return ""


@on_disk
@given(sections=SECTIONS, step=st.integers(0, 2**64 - 1))
def test_what_is_written_is_read_back_bit_for_bit(
    tmp_path: Path, sections: dict[str, Any], step: int
) -> None:
    path = tmp_path / "c.bin"
    size = write_foxc(path, step, sections, {"seed": 3})
    checkpoint = read_foxc(path)
    assert (checkpoint.step, checkpoint.meta, size) == (step, {"seed": 3}, path.stat().st_size)
    assert set(checkpoint.arrays) == set(sections)
    for name, value in sections.items():
        found = checkpoint.arrays[name]
        if isinstance(value, bytes):
            assert found.tobytes() == value
        else:
            assert found.shape == value.shape
            # Compared as bytes, so that NaN payloads and -0.0 count too.
            assert found.tobytes() == value.astype(value.dtype.newbyteorder("<")).tobytes()
            assert found.flags.writeable


def test_the_layout_is_the_documented_one(tmp_path: Path) -> None:
    path = tmp_path / "c.bin"
    write_foxc(path, 7, {"ab": b"\x01\x02\x03"})
    head = struct.pack("<IIQI", 0x464F5843, 1, 7, 3) + struct.pack("<H", 2) + b"ab" + struct.pack("<Q", 3)
    assert path.read_bytes().startswith(head + b"\x01\x02\x03" + struct.pack("<H", 4) + b"meta")


def test_a_flipped_bit_at_any_offset_is_found(tmp_path: Path, small: bytes) -> None:
    path = tmp_path / "c.bin"
    for offset in range(len(small)):
        damaged = bytearray(small)
        damaged[offset] ^= 1 << (offset % 8)
        path.write_bytes(damaged)
        assert str(path) in refusal(path), f"a flipped bit at byte {offset} went unnoticed"


def test_truncation_at_any_offset_is_found(tmp_path: Path, small: bytes) -> None:
    path = tmp_path / "c.bin"
    for size in range(len(small)):
        path.write_bytes(small[:size])
        assert str(path) in refusal(path), f"a file cut to {size} bytes went unnoticed"


@pytest.mark.parametrize(
    ("offset", "patch", "message"),
    [
        (0, b"GARB", "found magic 0x42524147, expected 0x464f5843"),
        (4, struct.pack("<I", 2), "found format version 2, expected 1"),
        # The length of section "w": after the header (20), the name's length (2) and the name (1).
        (23, struct.pack("<Q", 1 << 60), "expected 1,152,921,504,606,846,976"),
        (8, struct.pack("<Q", 9), "c.bin header: bad CRC: found 0x"),
    ],
)
def test_the_error_names_found_and_expected(
    tmp_path: Path, small: bytes, offset: int, patch: bytes, message: str
) -> None:
    path = tmp_path / "c.bin"
    path.write_bytes(small[:offset] + patch + small[offset + len(patch) :])
    with pytest.raises(InputError) as caught:
        read_foxc(path)
    assert message in str(caught.value)


def test_trailing_bytes_and_a_missing_file_are_errors(tmp_path: Path, small: bytes) -> None:
    path = tmp_path / "c.bin"
    path.write_bytes(small + b"\0")
    with pytest.raises(InputError, match=f"found {len(small) + 1} bytes, expected {len(small)}"):
        read_foxc(path)
    with pytest.raises(InputError, match="No such file"):
        read_foxc(tmp_path / "absent.bin")


def test_a_section_the_reader_does_not_know_simply_appears(tmp_path: Path) -> None:
    path = tmp_path / "c.bin"
    write_foxc(path, 1, {"weights": np.ones(3, np.float32), "from_the_future": b"\x05\x06"})
    checkpoint = read_foxc(path)
    assert checkpoint.array("weights", dtype=np.float32, shape=(3,)).tolist() == [1, 1, 1]
    assert checkpoint.arrays["from_the_future"].tolist() == [5, 6]


def test_a_section_that_is_not_as_asked_names_found_and_expected(tmp_path: Path) -> None:
    path = tmp_path / "c.bin"
    write_foxc(path, 1, {"w": np.ones((2, 3), np.float32)})
    checkpoint = read_foxc(path)
    with pytest.raises(InputError, match=r"section 'bus': missing section, found w"):
        checkpoint.array("bus")
    with pytest.raises(InputError, match=r"found shape \[2, 3\], expected \[6\]"):
        checkpoint.array("w", shape=(6,))
    with pytest.raises(InputError, match="found dtype float32, expected int64"):
        checkpoint.array("w", dtype=np.int64)


def test_a_section_whose_size_contradicts_its_shape_is_refused(tmp_path: Path, small: bytes) -> None:
    path = tmp_path / "c.bin"
    # Damage with correct sums: the shape in the JSON says 2 x 4, the data holds 2 x 3.
    body = small[: small.rindex(b"\x03\x00crc")].replace(b'"shape": [2, 3]', b'"shape": [2, 4]')
    sums, position = [zlib.crc32(body[:20])], 20
    while position < len(body):
        name_length = struct.unpack_from("<H", body, position)[0]
        end = position + 10 + name_length + struct.unpack_from("<Q", body, position + 2 + name_length)[0]
        sums.append(zlib.crc32(body[position:end]))
        position = end
    table = struct.pack(f"<{len(sums)}I", *sums)
    table += struct.pack("<I", zlib.crc32(table))
    path.write_bytes(body + struct.pack("<H", 3) + b"crc" + struct.pack("<Q", len(table)) + table)
    with pytest.raises(InputError, match=r"section 'w': found 24 bytes, expected 32 for float32 \[2, 4\]"):
        read_foxc(path)


def test_a_numpy_scalar_is_an_array_without_dimensions(tmp_path: Path) -> None:
    write_foxc(tmp_path / "c.bin", 1, {"bus.gamma": np.float32(0.9)})
    found = read_foxc(tmp_path / "c.bin").array("bus.gamma", dtype=np.float32, shape=())
    assert found == np.float32(0.9)


def test_reserved_names_and_unstorable_types_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="reserved"):
        write_foxc(tmp_path / "c.bin", 1, {"meta": b""})
    with pytest.raises(TypeError, match="cannot be stored"):
        write_foxc(tmp_path / "c.bin", 1, {"w": np.array([object()])})
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_clear_line_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.bin"
    write_foxc(path, 1, {"w": b"old"})
    before = path.read_bytes()
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(100, 90, 10))
    with pytest.raises(InputError, match="10 bytes free"):
        write_foxc(path, 2, {"w": b"new"})
    assert path.read_bytes() == before


def test_a_disk_that_fills_while_writing_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        write_foxc(tmp_path / "c.bin", 2, {"w": b"new"})
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_reads_back_differently_never_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rot(descriptor: int) -> None:
        os.pwrite(descriptor, b"\xff", 40)

    monkeypatch.setattr(os, "fsync", rot)
    with pytest.raises(InputError, match=r"bad CRC|found|truncated"):
        write_foxc(tmp_path / "c.bin", 2, {"w": bytes(100)})
    assert list(tmp_path.iterdir()) == []


@given(
    n=st.integers(0, 9),
    step=st.integers(0, 2**31 - 1),
    scalars=st.lists(st.floats(0, 1, width=32), min_size=5, max_size=5),
    data=st.data(),
)
def test_an_optimizer_section_round_trips(
    n: int, step: int, scalars: list[float], data: st.DataObject
) -> None:
    m = data.draw(hnp.arrays(np.float32, n))
    v = data.draw(hnp.arrays(np.float32, n))
    lr, beta1, beta2, eps, weight_decay = scalars
    section = optimizer_section(step, lr, beta1, beta2, eps, weight_decay, m, v)
    assert section[:12] == struct.pack("<Qi", n, step)
    found = parse_optimizer(section, where="here")
    assert found.step == step
    assert [found.lr, found.beta1, found.beta2, found.eps, found.weight_decay] == scalars
    assert found.m.tobytes() == m.tobytes()
    assert found.v.tobytes() == v.tobytes()


def test_a_missized_optimizer_section_is_refused(tmp_path: Path) -> None:
    section = optimizer_section(3, 0.1, 0.9, 0.99, 1e-8, 0.01, np.ones(4, np.float32), np.ones(4, np.float32))
    path = tmp_path / "c.bin"
    write_foxc(path, 3, {"adam.encoder": section[:-1]})
    with pytest.raises(InputError, match=r"section 'adam.encoder': found 63 bytes, expected 64 for n = 4"):
        read_foxc(path).optimizer("adam.encoder")
    with pytest.raises(InputError, match="found 3 bytes, expected at least 32"):
        parse_optimizer(b"abc", where="here")
