"""Paths and s3:// URLs from the command line to the configuration."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import REPOSITORY
from trainer.config import Config
from trainer.errors import InputError
from trainer.location import S3Url, data_location
from trainer.options import build_config

BUCKETS = st.from_regex(r"[a-zA-Z0-9._-]{1,63}", fullmatch=True)
KEYS = st.text(st.characters(codec="utf-8"), max_size=60).map(lambda key: key.removesuffix("/"))


@given(BUCKETS, KEYS)
def test_a_url_is_read_as_it_is_written(bucket: str, key: str) -> None:
    url = S3Url(bucket, key)
    assert S3Url.parse(str(url)) == (url if not key.endswith("/") else S3Url(bucket, key[:-1]))


def test_another_scheme_is_no_s3_url() -> None:
    with pytest.raises(ValueError, match="not an s3:// URL"):
        S3Url.parse("gs://bucket/key")


def test_a_last_slash_means_the_same_prefix() -> None:
    assert S3Url.parse("s3://b/p/") == S3Url.parse("s3://b/p") == S3Url("b", "p")
    assert S3Url.parse("s3://b/") == S3Url.parse("s3://b") == S3Url("b", "")


@given(BUCKETS, KEYS)
def test_a_url_passes_options_config_and_files_unchanged(bucket: str, key: str) -> None:
    text = str(S3Url(bucket, key)).removesuffix("/")
    config = build_config("demo", None, {"mbp10_data_dir": data_location(text)})
    assert config.market_source is None
    kept = config.run.mbp10_data_dir
    assert isinstance(kept, str)
    assert kept.removesuffix("/") == text
    assert Config.model_validate_json(config.model_dump_json()) == config
    assert config.replaced(data={"folds": 2}).run.mbp10_data_dir == kept


def test_where_the_data_is_does_not_change_the_digest(tmp_path: Path) -> None:
    plain = Config()
    for place in ("s3://b/k", tmp_path, "s3://b/other"):
        assert plain.replaced(run={"mbp10_data_dir": place}).digest() == plain.digest()


def test_a_file_of_options_holds_urls_and_paths(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("market_source: null\nrun: {mbp10_data_dir: s3://b//k/x, trades_data_dir: t//x}\n")
    run = build_config("demo", path, {}).run
    assert (run.mbp10_data_dir, run.trades_data_dir) == ("s3://b//k/x", Path("t/x"))


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ("s3://", "the s3:// URL names no valid bucket"),
        ("s3:///key", "the s3:// URL names no valid bucket"),
        ("s3://a b/key", "the s3:// URL names no valid bucket"),
        ("s3://AKID:very-secret@b/key", "holds no credentials and no port; set AWS_PROFILE"),
        ("s3://host:9000/b/key", "holds no credentials and no port"),
        (Path("s3://b/k"), "an s3:// URL was made a path and lost a slash"),
        (3, "a path or an s3:// URL is needed"),
    ],
)
def test_a_bad_location_is_one_line_that_repeats_no_secret(given_: object, said: str) -> None:
    with pytest.raises(InputError) as refused:
        build_config("demo", None, {"mbp10_data_dir": given_})
    line = str(refused.value)
    assert line.startswith("options: run.mbp10_data_dir: ")
    assert said in line
    assert "secret" not in line
    assert "\n" not in line


def test_without_an_s3_url_nothing_of_aws_is_loaded() -> None:
    """boto3 takes half a second that no other command should wait for."""
    program = (
        "import sys\n"
        "import trainer.cli, trainer.learn.prepare, trainer.options\n"
        "import pipelines.cli, pipelines.launch, pipelines.identity\n"
        "print(sorted({'boto3', 'botocore', 'awscrt', 'urllib3'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr
