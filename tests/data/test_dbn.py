"""The DBN reader: whole files in every form, and one clear error for every damage (DATA.md trap 7)."""

import itertools
import struct

import databento_dbn
import numpy as np
import pytest
import zstandard

from trainer.data.dbn import RecordReader, read_metadata, read_records, source_files
from trainer.errors import InputError

RECORD_BYTES = 368


def read_all(path, chunk_records=65_536, schema="mbp-10"):
    return np.concatenate(list(read_records(path, chunk_records, schema)))


def error_of(path, **options):
    with pytest.raises(InputError) as caught:
        read_all(path, **options)
    line = str(caught.value)
    assert str(path) in line, "the error must name the file"
    assert "\n" not in line
    return line


@pytest.mark.parametrize(
    ("name", "num_records", "dataset"),
    [
        ("ESH4_20231225.mbp-10.dbn.zst", 43_717, "GLBX.MDP3"),
        ("FROG_20250403.mbp-10.dbn.zst", 33_286, "XNAS.ITCH"),
        ("dbn_official/test_data.mbp-10.dbn", 2, "GLBX.MDP3"),
        ("dbn_official/test_data.mbp-10.v1.dbn.zst", 2, "GLBX.MDP3"),
        ("dbn_official/test_data.mbp-10.v2.dbn.zst", 2, "GLBX.MDP3"),
        ("dbn_official/test_data.mbp-10.v3.dbn.zst", 2, "GLBX.MDP3"),
        ("dbn_official/IFEU.IMPACT.mbp-10.dbn.zst", 4, "IFEU.IMPACT"),
    ],
)
def test_real_file_is_read_whole(shared_data, name, num_records, dataset):
    records = read_all(shared_data / name)
    assert len(records) == num_records
    assert read_metadata(shared_data / name).dataset == dataset
    assert (np.diff(records["ts_recv"].astype(np.int64)) >= 0).all()


def test_all_dbn_versions_hold_the_same_records(shared_data):
    versions = [read_all(shared_data / f"dbn_official/test_data.mbp-10.v{v}.dbn.zst") for v in (1, 2, 3)]
    headers = [read_metadata(shared_data / f"dbn_official/test_data.mbp-10.v{v}.dbn.zst") for v in (1, 2, 3)]
    assert [header.version for header in headers] == [1, 2, 3]
    assert versions[0].tobytes() == versions[1].tobytes() == versions[2].tobytes()


def test_legacy_dbz_is_refused_by_name(shared_data):
    assert "legacy .dbz" in error_of(shared_data / "dbn_official/test_data.mbp-10.dbz")


@pytest.mark.parametrize("chunk_records", [1, 7, 64, 1000])
@pytest.mark.parametrize("name", ["a.dbn", "a.dbn.zst"])
def test_records_round_trip_in_any_chunking(tmp_path, make_records, encode, write, chunk_records, name):
    records = make_records(64)
    path = write(tmp_path / name, encode(records))
    chunks = list(read_records(path, chunk_records))
    assert max(map(len, chunks)) <= chunk_records
    assert np.concatenate(chunks).tobytes() == records.tobytes()


def test_frames_in_a_row_are_one_stream(tmp_path, make_records, encode):
    records = make_records(50)
    data = encode(records)
    compress = zstandard.ZstdCompressor().compress
    cuts = [0, 3, 150, 1000, 1000, len(data)]
    frames = [compress(data[a:b]) for a, b in itertools.pairwise(cuts)]
    path = tmp_path / "frames.dbn.zst"
    path.write_bytes(b"".join(frames))
    assert read_all(path).tobytes() == records.tobytes()


def test_send_times_after_each_record_are_read_past(tmp_path, make_records, encode, write):
    plain = make_records(20)
    longer = np.zeros(20, np.dtype([*databento_dbn.MBP10Msg._dtypes, ("ts_out", "u8")]))
    for field in plain.dtype.names:
        longer[field] = plain[field]
    longer["length"] = (RECORD_BYTES + 8) // 4
    found = read_all(write(tmp_path / "live.dbn", encode(longer, ts_out=True)))
    assert (found["ask_px_09"] == plain["ask_px_09"]).all()
    assert (found["ts_recv"] == plain["ts_recv"]).all()


@pytest.mark.parametrize("kept", [0.2, 0.6, 0.99])
def test_truncated_zst_is_an_error_at_the_last_good_offset(tmp_path, make_records, encode, write, kept):
    path = write(tmp_path / "a.dbn.zst", encode(make_records(3000)))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * kept)])
    line = error_of(path)
    assert "truncated" in line
    assert " @ " in line


def test_truncation_between_two_records_is_caught_in_a_compressed_file(tmp_path, make_records, encode, write):
    """The decompressed bytes end on a record boundary, and yet the frame has no end."""
    data = encode(make_records(100))
    compressor = zstandard.ZstdCompressor().compressobj()
    path = tmp_path / "a.dbn.zst"
    path.write_bytes(compressor.compress(data) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
    assert "truncated" in error_of(path)


def test_partial_last_record_names_its_offset(tmp_path, make_records, encode, write):
    data = encode(make_records(10))
    path = write(tmp_path / "a.dbn", data[:-100])
    line = error_of(path)
    assert "268 of 368 bytes" in line
    assert f"@ {len(data) - RECORD_BYTES}" in line


@pytest.mark.parametrize("chunk_records", [4, 1000])
def test_wrong_length_or_type_word_names_the_record(tmp_path, make_records, encode, write, chunk_records):
    header = len(encode(make_records(0)))
    for field, value in (("length", 91), ("rtype", 1)):
        records = make_records(20)
        records[field][13] = value
        path = write(tmp_path / f"{field}.dbn", encode(records))
        line = error_of(path, chunk_records=chunk_records)
        assert f"@ {header + 13 * RECORD_BYTES}:" in line
        assert "length 92, type 10" in line


@pytest.mark.parametrize("name", ["a.dbn", "a.dbn.zst"])
@pytest.mark.parametrize("second", [0, 5])
def test_concatenated_files_are_told_by_their_second_header(
    tmp_path, make_records, encode, write, name, second
):
    first = encode(make_records(5))
    line = error_of(write(tmp_path / name, first + encode(make_records(second))))
    assert "concatenated" in line
    assert f"@ {len(first)}:" in line


def test_any_flipped_byte_of_a_checksummed_file_is_an_error(tmp_path, make_records, encode, write):
    path = write(tmp_path / "a.dbn.zst", encode(make_records(400)))
    whole = bytearray(path.read_bytes())
    for position in np.linspace(0, len(whole) - 1, 60).astype(int):
        damaged = whole.copy()
        damaged[position] ^= 0x55
        path.write_bytes(damaged)
        with pytest.raises(InputError):
            read_all(path)


def test_wrong_schema_says_what_was_found(tmp_path, make_trades, encode, write):
    data = encode(make_trades([1], [1], [b"B"]), schema=databento_dbn.Schema.TRADES)
    line = error_of(write(tmp_path / "a.dbn", data))
    assert "schema trades, not mbp-10" in line


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"timestamp,bid,ask\n1,2,3\n", "not a DBN file"),
        (b"DB", "not a DBN file"),
        (b"DBN\x03", "header"),
        (b"DBN\x03\xff\xff\xff\xff" + b"x" * 100, "header"),
        (b"DBN\x03\x64\x00\x00\x00" + b"\xff" * 100, "header"),
        (b"DBN\x63\x64\x00\x00\x00" + b"\x00" * 100, "header"),
    ],
)
def test_a_file_that_is_no_dbn_is_refused(tmp_path, data, words):
    path = tmp_path / "a.dbn"
    path.write_bytes(data)
    assert words in error_of(path)


def test_directory_gives_its_files_by_name_and_leaves_trades_out(
    tmp_path, make_records, make_trades, encode, write
):
    later = write(tmp_path / "day2.dbn", encode(make_records(2)))
    first = write(tmp_path / "day1.dbn.zst", encode(make_records(2)))
    trades = write(
        tmp_path / "t.dbn", encode(make_trades([1], [1], [b"B"]), schema=databento_dbn.Schema.TRADES)
    )
    (tmp_path / "condition.json").write_text("{}")
    assert source_files(tmp_path) == [first, later]
    assert source_files(tmp_path, "trades") == [trades]
    assert source_files(later) == [later]


def test_source_without_files_is_an_error(tmp_path, shared_data):
    with pytest.raises(InputError, match=r"no mbp-10 file"):
        source_files(tmp_path)
    with pytest.raises(InputError, match=r"no such file"):
        source_files(tmp_path / "absent")
    (tmp_path / "a.mbp-10.dbz").write_bytes(b"")
    with pytest.raises(InputError, match=r"legacy .dbz"):
        source_files(tmp_path)


def test_reader_tells_bytes_read_and_the_offset_of_each_chunk(tmp_path, make_records, encode, write):
    path = write(tmp_path / "a.dbn", encode(make_records(10)))
    with RecordReader(path, chunk_records=4) as reader:
        offsets = [reader.offset for _ in reader]
        assert reader.bytes_read == path.stat().st_size
    header = reader.metadata.header_bytes
    assert offsets == [header + k * 4 * RECORD_BYTES for k in range(3)]


def test_record_has_the_documented_368_byte_layout(tmp_path, make_records, encode, write):
    """Packed by hand from the published layout, not with the dtype that the reader uses."""
    head = struct.pack("<BBHIQqIccBBQiI", 92, 10, 2, 7, 11, -5, 3, b"M", b"A", 130, 4, 13, -9, 17)
    levels = b"".join(struct.pack("<qqIIII", -k, k, 100 + k, 200 + k, 30 + k, 40 + k) for k in range(10))
    assert len(head + levels) == RECORD_BYTES
    (found,) = read_all(write(tmp_path / "a.dbn", encode(make_records(0)) + head + levels))
    names = "ts_event price size action side flags depth ts_recv ts_in_delta sequence"
    assert tuple(found[name] for name in names.split(" ")) == (11, -5, 3, b"M", b"A", 130, 4, 13, -9, 17)
    levels_6 = [f"{side}_{field}_06" for field in ("px", "sz", "ct") for side in ("bid", "ask")]
    assert [found[name] for name in levels_6] == [-6, 6, 106, 206, 36, 46]


@pytest.mark.parametrize("start", [b"DBZ\x01", b"\x51\x2a\x4d\x18\x04\x00\x00\x00DBZ\x01"])
def test_either_form_of_the_legacy_format_is_refused(tmp_path, start):
    (tmp_path / "a.dbn.zst").write_bytes(start + b"records" * 9)
    assert "legacy .dbz" in error_of(tmp_path / "a.dbn.zst")


def test_compressed_files_joined_as_they_are_stored_are_told_by_their_second_header(
    tmp_path, make_records, encode, write
):
    data = encode(make_records(5))
    path = write(tmp_path / "a.dbn.zst", data)
    path.write_bytes(path.read_bytes() * 2)
    assert f"@ {len(data)}: a second DBN header" in error_of(path)
