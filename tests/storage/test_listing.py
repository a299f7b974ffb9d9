"""Which objects an s3:// URL means."""

from urllib.parse import quote

import pytest

from tests.storage.conftest import Bucket
from tests.storage.proxy import Proxy
from trainer.data import dbn, lobster
from trainer.errors import InputError
from trainer.location import S3Url
from trainer.storage.listing import content_key, data_objects, file_name, is_data_key
from trainer.storage.store import Store

MESSAGE = "AAPL_2024-01-08_34200000_57600000_message_10.csv"
ORDERBOOK = MESSAGE.replace("message", "orderbook")
READ = ["es.dbn", "es.dbn.zst", MESSAGE, ORDERBOOK, f"{MESSAGE}.zst"]
NOT_READ = ["es.dbz", "es.dbn.gz", "symbology.csv", "manifest.json", "es.dbn.zst.part", ".dbn", "notes"]


def names(text: str) -> list[str]:
    url = S3Url.parse(text)
    return list(data_objects(Store(url), url))


def refused(text: str) -> str:
    with pytest.raises(InputError) as caught:
        names(text)
    assert str(caught.value).startswith("s3://")
    return str(caught.value)


@pytest.mark.parametrize("name", READ)
def test_what_the_readers_take_is_data(name: str) -> None:
    assert is_data_key(name)
    assert is_data_key(f"deep/er/{name}")
    assert lobster.is_lobster_name(name) != name.endswith(dbn.DBN_SUFFIXES)


@pytest.mark.parametrize("name", NOT_READ)
def test_what_vendors_put_beside_data_is_not_fetched(name: str) -> None:
    assert not is_data_key(name)


def test_a_prefix_is_a_directory_and_its_data_files_are_found_at_any_depth(bucket: Bucket) -> None:
    keys = ["es/b.dbn", "es/a.dbn.zst", "es/2024/c.dbn", "es/notes.txt", "es/2024/", "es-old/d.dbn", "e.dbn"]
    for key in keys:
        bucket.put(key, b"x")
    assert names(f"{bucket}/es") == names(f"{bucket}/es/") == ["a.dbn.zst", "b.dbn", "c.dbn"]
    assert names(f"{bucket}/es/2024") == ["c.dbn"]
    assert names(f"{bucket}") == ["a.dbn.zst", "b.dbn", "c.dbn", "d.dbn", "e.dbn"]


def test_a_listing_of_many_pages_is_read_to_its_end(bucket: Bucket, proxy: Proxy) -> None:
    expected = [f"{number:02d}.dbn" for number in range(7)]
    for name in expected:
        bucket.put(f"es/{name}", b"x")
    proxy.rewrite = lambda target: f"{target}&max-keys=2"
    assert names(f"{bucket}/es") == expected
    assert len(proxy.requests) == 4


def test_a_key_that_ends_like_a_file_is_that_object_and_needs_no_right_to_list(
    bucket: Bucket, proxy: Proxy
) -> None:
    bucket.put("es/a.dbn", b"x")
    bucket.put("es/a.dbn.zst", b"x")
    assert names(f"{bucket}/es/a.dbn") == ["a.dbn"]
    assert [request.method for request in proxy.requests] == ["HEAD"]


@pytest.mark.parametrize("given", [MESSAGE, ORDERBOOK])
def test_one_file_of_a_lobster_recording_brings_the_other(given: str, bucket: Bucket) -> None:
    for name in (MESSAGE, ORDERBOOK):
        bucket.put(f"aapl/message_1/{name}", b"x")
    assert names(f"{bucket}/aapl/message_1/{given}") == [MESSAGE, ORDERBOOK]


def test_a_missing_partner_is_named(bucket: Bucket) -> None:
    bucket.put(MESSAGE, b"x")
    assert refused(f"{bucket}/{MESSAGE}").startswith(f"{bucket}/{ORDERBOOK}: there is no such object")


@pytest.mark.parametrize("name", ["a b+c%20d.dbn", "größe-☃.dbn", "a&b=c?d#e.dbn", "'\"<>*.dbn"])
def test_any_name_a_file_can_have_is_listed_as_it_is(name: str, bucket: Bucket) -> None:
    bucket.put(f"es/{name}", b"x")
    assert names(f"{bucket}/es") == names(f"{bucket}/es/{name}") == [name]


def test_no_data_file_says_which_there_could_be(bucket: Bucket) -> None:
    bucket.put("es/old.dbz", b"x")
    line = refused(f"{bucket}/es")
    assert line.startswith(f"{bucket}/es: no data file below it (names ending in .dbn")


def test_two_objects_of_one_name_are_refused_with_both(bucket: Bucket) -> None:
    bucket.put("es/2023/a.dbn", b"x")
    bucket.put("es/2024/a.dbn", b"y")
    line = refused(f"{bucket}/es")
    assert f"{bucket}/es/2024/a.dbn: another object of the same name" in line
    assert f"{bucket}/es/2023/a.dbn; give the prefix of one of them" in line


@pytest.mark.parametrize(
    "key",
    ["../a.dbn", "es/../a.dbn", "es/./a.dbn", "es/.a.dbn", "es/a\\b.dbn", "es/a\nb.dbn", "é" * 130 + ".dbn"],
)
def test_a_key_that_is_no_safe_path_is_refused_before_it_is_asked_for(
    key: str, bucket: Bucket, proxy: Proxy
) -> None:
    assert "cannot be part of a file's path here" in refused(f"{bucket}/{key}")
    assert proxy.requests == []


def test_an_unsafe_key_among_others_is_refused_too(bucket: Bucket, proxy: Proxy) -> None:
    bucket.put("es/a.dbn", b"x")

    def escaped(target: str) -> str:
        return target

    proxy.rewrite = escaped
    proxy.change = lambda request, answer: type(answer)(
        answer.status, answer.headers, answer.body.replace(b"es/a.dbn", quote("es/../../etc/a.dbn").encode())
    )
    assert "the key holds '..'" in refused(f"{bucket}/es")


def test_a_key_with_empty_and_absolute_parts_has_the_last_one_as_its_name() -> None:
    assert file_name(S3Url("b", "/abs//x.dbn")) == "x.dbn"


def test_the_content_key_follows_names_sizes_and_bytes_but_fetches_nothing(
    bucket: Bucket, proxy: Proxy
) -> None:
    url = bucket.put("es/a.dbn", b"one").at("es")
    first = content_key(url)
    assert len(first) == 12
    assert content_key(url) == first
    bucket.put("es/a.dbn", b"two")
    changed = content_key(url)
    bucket.put("es/b.dbn", b"x")
    assert len({first, changed, content_key(url)}) == 3
    assert proxy.seen("GET") == []
