"""A download is the object: every kind of sum that stores tell, and none."""

import base64
import hashlib
import io
import logging
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.conftest import Bucket
from tests.storage.proxy import Answer, Proxy, Request, error
from trainer.errors import InputError
from trainer.location import S3Url
from trainer.storage.checksum import ALGORITHMS, SIZE_ONLY, digest_of, expectations, verify
from trainer.storage.store import Facts, Store

BODY = bytes(range(256)) * 40
PARTS = [BODY[:4000], BODY[4000:8000], BODY[8000:]]
# Of b"123456789", from the catalogue of CRCs and the standards of the hashes.
CHECK = {
    "CRC32": "cbf43926",
    "CRC32C": "e3069283",
    "CRC64NVME": "ae8b14860a799888",
    "SHA1": "f7c3bc1d808e04732adf679965ccc34ca7ae3441",
    "SHA256": "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
    "MD5": "25f9e794323b453885f5181f1b624d0b",
}


def text(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def facts(etag: str = '"opaque"', kind: str | None = None, md5: bool = True, **sums: str) -> Facts:
    return Facts(len(BODY), etag, None, sums, kind, md5)


def verified_by(url: S3Url, path: Path) -> str:
    store = Store(url)
    return verify(path, store, url, store.facts(url))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The download: the object's very bytes."""
    path = tmp_path / "es.dbn.part"
    path.write_bytes(BODY)
    return path


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """One bit differs; the size does not."""
    path = tmp_path / "damaged.dbn.part"
    path.write_bytes(BODY[:5000] + bytes([BODY[5000] ^ 1]) + BODY[5001:])
    return path


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_gives_its_published_check_value_in_any_pieces(algorithm: str) -> None:
    assert digest_of(io.BytesIO(b"123456789"), algorithm, []).hex() == CHECK[algorithm]
    pieces = ALGORITHMS[algorithm]()
    for piece in (b"1", b"", b"23456", b"789"):
        pieces.update(piece)
    assert pieces.digest().hex() == CHECK[algorithm]


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=6))
def test_a_sum_of_parts_is_the_sum_of_the_parts_sums(parts: list[bytes]) -> None:
    file, sizes = io.BytesIO(b"".join(parts)), [len(part) for part in parts]
    md5 = hashlib.md5(b"".join(hashlib.md5(part).digest() for part in parts)).digest()
    crc = zlib.crc32(b"".join(zlib.crc32(part).to_bytes(4, "big") for part in parts)).to_bytes(4, "big")
    assert digest_of(file, "MD5", sizes) == md5
    file.seek(0)
    assert digest_of(file, "CRC32", sizes) == crc


@pytest.mark.parametrize("algorithm", ["SHA256", "CRC64NVME", "CRC32C", "CRC32", "SHA1"])
def test_the_stores_own_checksum_is_used(algorithm: str, bucket: Bucket, copy: Path, damaged: Path) -> None:
    url = bucket.put("es.dbn", BODY, ChecksumAlgorithm=algorithm)
    assert verified_by(url, copy) == algorithm
    with pytest.raises(InputError, match=rf"es\.dbn: the download is not the object: its {algorithm} is "):
        verified_by(url, damaged)


def without_checksums(request: Request, answer: Answer) -> Answer:
    kept = {name: value for name, value in answer.headers.items() if "checksum" not in name}
    return Answer(answer.status, kept, answer.body)


def test_the_etag_of_an_upload_in_one_piece_is_its_md5(
    bucket: Bucket, proxy: Proxy, copy: Path, damaged: Path
) -> None:
    url = bucket.put("es.dbn", BODY)
    proxy.change = without_checksums
    assert verified_by(url, copy) == "MD5"
    with pytest.raises(InputError, match="its MD5 is "):
        verified_by(url, damaged)


def test_the_etag_of_equal_parts_costs_one_request_more(
    bucket: Bucket, proxy: Proxy, copy: Path, damaged: Path
) -> None:
    url = bucket.put_parts("es.dbn", PARTS)
    proxy.change = without_checksums
    assert verified_by(url, copy) == "MD5 of 3 parts"
    assert [request.target.partition("?")[2] for request in proxy.requests] == ["", "partNumber=1"]
    with pytest.raises(InputError, match="its MD5 of 3 parts is "):
        verified_by(url, damaged)


def test_the_etag_of_unequal_parts_is_made_of_the_parts_as_the_store_tells_them(
    bucket: Bucket, proxy: Proxy, copy: Path
) -> None:
    url = bucket.put_parts("es.dbn", [BODY[:3900], BODY[3900:8000], BODY[8000:]])
    proxy.change = without_checksums
    assert verified_by(url, copy) == "MD5 of 3 parts"
    assert [r.target.partition("=")[2] for r in proxy.requests[1:]] == ["1", "1", "2", "3"]


def test_a_checksum_of_parts_is_verified_part_by_part(
    bucket: Bucket, proxy: Proxy, copy: Path, damaged: Path
) -> None:
    url = bucket.put_parts("es.dbn", PARTS)
    crc = zlib.crc32(b"".join(zlib.crc32(part).to_bytes(4, "big") for part in PARTS))

    def composite(request: Request, answer: Answer) -> Answer:
        answer.headers["x-amz-checksum-crc32"] = text(crc.to_bytes(4, "big")) + "-3"
        answer.headers["x-amz-checksum-type"] = "COMPOSITE"
        return answer

    proxy.change = composite
    assert verified_by(url, copy) == "CRC32 of 3 parts"
    with pytest.raises(InputError, match="its CRC32 of 3 parts is "):
        verified_by(url, damaged)


@pytest.mark.parametrize("answer", ["refused", "ignored"])
def test_a_store_that_tells_no_part_leaves_the_size_and_says_so(
    answer: str, bucket: Bucket, proxy: Proxy, copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = bucket.put_parts("es.dbn", PARTS)

    def no_parts(request: Request, found: Answer) -> Answer:
        if "partNumber" in request.target and answer == "refused":
            return error(501, "NotImplemented")
        found.headers.pop("x-amz-mp-parts-count", None)
        return without_checksums(request, found)

    proxy.change = no_parts
    with caplog.at_level(logging.WARNING):
        assert verified_by(url, copy) == SIZE_ONLY
    assert caplog.messages == [f"{url}: the store tells no checksum of it: only its size was verified"]
    copy.write_bytes(BODY[:-1])
    with pytest.raises(
        InputError, match=r"10,239 bytes arrived, the object has 10,240; it was removed; run again"
    ):
        verified_by(url, copy)


def test_a_refusal_to_tell_parts_is_one_line(bucket: Bucket, proxy: Proxy, copy: Path) -> None:
    url = bucket.put_parts("es.dbn", PARTS)
    proxy.change = lambda request, found: (
        Answer(403) if "partNumber" in request.target else without_checksums(request, found)
    )
    with pytest.raises(InputError, match=r"es\.dbn: access denied"):
        verified_by(url, copy)


SHA = text(hashlib.sha256(BODY).digest())
MD5 = f'"{hashlib.md5(BODY).hexdigest()}"'


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (facts(MD5, SHA256=SHA, CRC32="AAAAAA=="), ["SHA256 0", "CRC32 0", "MD5 0"]),
        (facts(MD5[:-1] + '-3"', "FULL_OBJECT", CRC32="AAAAAA=="), ["CRC32 0", "MD5 3"]),
        (facts(MD5[:-1] + '-3"', "COMPOSITE", CRC32="AAAAAA==-3"), ["CRC32 3", "MD5 3"]),
        # Number and kind left out: it may be of the whole or of the parts, so the ETag decides.
        (facts(MD5[:-1] + '-3"', CRC32="AAAAAA=="), ["MD5 3"]),
        # Encrypted with a customer's key: an ETag that only looks like MD5.
        (facts(MD5, md5=False), []),
        (facts('"6805f2cfc46c0f04559748bb039d69ae-x"'), []),
        (facts('"opaque"', CRC32="not base64!", SHA256="AAAA"), []),
    ],
)  # fmt: skip
def test_the_sums_that_can_be_used_are_chosen(told: Facts, expected: list[str]) -> None:
    assert [f"{e.algorithm} {e.num_parts}" for e in expectations(told)] == expected


@pytest.mark.parametrize(
    ("header", "value", "is_md5"),
    [
        ("x-amz-server-side-encryption", "AES256", True),
        ("x-amz-server-side-encryption", "aws:kms", False),
        ("x-amz-server-side-encryption-customer-algorithm", "AES256", False),
        ("x-amz-storage-class", "EXPRESS_ONEZONE", False),
        ("x-amz-storage-class", "STANDARD_IA", True),
    ],
)
def test_an_etag_is_trusted_as_md5_only_where_it_is_one(
    header: str, value: str, is_md5: bool, bucket: Bucket, proxy: Proxy
) -> None:
    url = bucket.put("es.dbn", BODY)

    def told(request: Request, answer: Answer) -> Answer:
        answer.headers[header] = value
        return answer

    proxy.change = told
    assert Store(url).facts(url).etag_is_md5 is is_md5
