"""A run small enough to be trained many times, and its copy in a bucket."""

import shutil
from pathlib import Path

import pytest
import torch

from tests.learn.small import SMALL_AGENT
from tests.storage.conftest import Bucket
from tests.storage.proxy import Change, Proxy, Request
from trainer.cli import main
from trainer.config import Config
from trainer.learn.prepare import prepare
from trainer.presets import demo

STEPS, EVERY = 12, 4


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """As the trainer runs."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def config() -> Config:
    """16 lanes, two folds of one short session each."""
    return demo().replaced(
        synthetic={"rows_per_session": 2048, "sessions": 3},
        data={"window_rows": 8, "folds": 2},
        agent=SMALL_AGENT,
        learn={"n_backtests": 16, "per_capacity": 256, "batch_size": 32},
        evaluate={
            "tile_decisions": 20,
            "bootstrap_block_decisions": 5,
            "bootstrap_resamples": 100,
            "random_traders": 2,
        },
        run={"n_steps": STEPS, "checkpoint_every": EVERY, "log_every": 4, "device": "cpu"},
    )


@pytest.fixture(scope="session")
def prepared(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared run directory; not to be written to."""
    root = tmp_path_factory.mktemp("mirror")
    prepare(config, root / "a1", root / "cache", lambda *_: None)
    return root / "a1"


@pytest.fixture(scope="session")
def trained(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fold 0 trained without a stop and without a mirror; not to be written to."""
    run_dir = tmp_path_factory.mktemp("trained") / "a1"
    shutil.copytree(prepared, run_dir)
    assert main(["train", "--run-dir", str(run_dir)]) == 0
    return run_dir


@pytest.fixture
def here(prepared: Path, tmp_path: Path) -> Path:
    """A prepared copy that a test may write to."""
    shutil.copytree(prepared, tmp_path / "here" / "a1")
    return tmp_path / "here" / "a1"


@pytest.fixture
def elsewhere(prepared: Path, tmp_path: Path) -> Path:
    """The same run in another cluster: prepared, and nothing else."""
    shutil.copytree(prepared, tmp_path / "elsewhere" / "a1")
    return tmp_path / "elsewhere" / "a1"


def stage(name: str, run_dir: Path, bucket: Bucket | str, *words: str, fold: int = 0) -> int:
    """Exit code of a stage with a mirror."""
    own = ["--fold-idx", str(fold)] if name in ("train", "evaluate") else []
    return main([name, "--run-dir", str(run_dir), "--mirror", f"{bucket}/runs", *own, *words])


def objects(bucket: Bucket, below: str = "runs/a1/") -> dict[str, bytes]:
    """Name below the run -> content; notes of writers left out."""
    listed = bucket.client.list_objects_v2(Bucket=bucket.name, Prefix=below).get("Contents", [])
    keys = [entry["Key"] for entry in listed if not entry["Key"].endswith(".writer.json")]
    got = {key: bucket.client.get_object(Bucket=bucket.name, Key=key)["Body"].read() for key in keys}
    return {key.removeprefix(below): body for key, body in got.items()}


def files(run_dir: Path, fold: str = "fold0") -> dict[str, bytes]:
    """Name below the run -> content of a fold's files."""
    found = (p for p in (run_dir / fold).rglob("*") if p.is_file() and p.name != ".lock")
    return {p.relative_to(run_dir).as_posix(): p.read_bytes() for p in found}


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Lines on stdout; without progress, which shows up where a machine is slow."""
    return [line for line in capsys.readouterr().out.splitlines() if not line.startswith("progress ")]


def the_error(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr that begins with `error: `, without that."""
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    return line.removeprefix("error: ")


def puts(proxy: Proxy) -> list[str]:
    """Names of the objects that were sent, in order, each once in a row, below the run; notes left out."""
    targets = [r.target.split("?")[0].partition("/runs/a1/")[2] for r in proxy.seen("PUT")]
    names = [name for name in targets if name and not name.endswith(".writer.json")]
    return [name for i, name in enumerate(names) if i == 0 or names[i - 1] != name]


def of_files(change: Change) -> Change:
    """`change` for what is sent of a fold's files, the notes of writers left alone."""

    def only(request: Request, answer):  # type: ignore[no-untyped-def]
        sent = request.method in ("PUT", "POST") and "/runs/a1/fold" in request.target
        return change(request, answer) if sent and ".writer.json" not in request.target else answer

    return only
