"""Compiled kernels kept as one archive: whole or not at all, never in a training's way."""

import io
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from tests.conftest import REPOSITORY
from trainer.config import Config
from trainer.learn import loop
from trainer.learn.compile_cache import KEPT, VARIABLES, CompileCache, kernels_of
from trainer.learn.loop import train
from trainer.learn.run import Run, fold_dir

Tiny = tuple[Run, Path]


def made(tmp_path: Path, node: str = "node") -> CompileCache:
    """An archive on the volume, and empty local directories of a node."""
    directories = {name: tmp_path / node / name for name in VARIABLES}
    return CompileCache(tmp_path / "volume" / "compiled" / "a.zip", directories)


def filled(cache: CompileCache) -> CompileCache:
    for name, directory in cache._directories.items():
        (directory / "ab").mkdir(parents=True)
        (directory / "ab" / "kernel.cubin").write_bytes(name.encode() + bytes(range(256)))
    return cache


def contents(cache: CompileCache) -> dict[str, bytes]:
    return {
        f"{name}/{path.relative_to(cache._directories[name])}": path.read_bytes()
        for name, path in cache._files()
    }


def test_what_one_pod_compiled_the_next_one_has_byte_for_byte(tmp_path: Path) -> None:
    first, second = filled(made(tmp_path)), made(tmp_path, "other")
    assert "compiled kernels kept in" in first.store()
    assert "compiled kernels restored from" in second.restore()
    assert contents(second) == contents(first)
    assert len(contents(second)) == 2
    assert list(first.archive.parent.iterdir()) == [first.archive]


def test_without_an_archive_or_with_files_there_nothing_is_touched(tmp_path: Path) -> None:
    assert made(tmp_path).restore() == ""
    assert made(tmp_path).store() == "", "there is nothing to pack"
    cache = filled(made(tmp_path))
    cache.store()
    newer = filled(made(tmp_path, "other"))
    (newer._directories[VARIABLES[0]] / "ab" / "kernel.cubin").write_bytes(b"newer")
    before = contents(newer)
    assert (newer.restore(), newer.store()) == ("", "")
    assert contents(newer) == before


@pytest.mark.parametrize("keep", [0, 10, -1, None])
def test_a_damaged_archive_is_removed_and_leaves_nothing_unpacked(tmp_path: Path, keep: int | None) -> None:
    cache = filled(made(tmp_path))
    cache.store()
    whole = cache.archive.read_bytes()
    broken = whole[:keep] if keep is not None else whole.replace(b"TRITON", b"TRITOX", 1)
    if keep is None:
        broken = whole[:60] + bytes([whole[60] ^ 255]) + whole[61:]
    cache.archive.write_bytes(broken)
    other = made(tmp_path, "other")
    assert "compiling again" in other.restore()
    assert contents(other) == {}
    assert not cache.archive.exists()
    assert "kept in" in cache.store(), "the next one mends it"


def test_an_archive_writes_nothing_outside_the_local_directories(tmp_path: Path) -> None:
    cache = made(tmp_path)
    cache.archive.parent.mkdir(parents=True)
    with zipfile.ZipFile(cache.archive, "w") as packed:
        packed.writestr(f"{VARIABLES[0]}/../../../escaped", "x")
        packed.writestr(f"{VARIABLES[1]}//absolute", "x")
        packed.writestr("OTHER/file", "x")
    cache.restore()
    inside = set((tmp_path / "node").rglob("*"))
    assert {path for path in tmp_path.rglob("*") if path.is_file()} - inside == {cache.archive}


def test_a_volume_that_cannot_be_written_is_told_and_no_error(tmp_path: Path) -> None:
    cache = filled(made(tmp_path))
    cache.archive.parent.parent.mkdir()
    cache.archive.parent.write_text("a file in the place of the directory")
    assert "not kept in" in cache.store()


def test_only_the_newest_archives_stay(tmp_path: Path) -> None:
    cache = filled(made(tmp_path))
    cache.archive.parent.mkdir(parents=True)
    for age in range(KEPT + 2):
        old = cache.archive.with_name(f"{age}.zip")
        old.write_bytes(b"")
        os.utime(old, (1e9 - age, 1e9 - age))
    cache.store()
    kept = {path.name for path in cache.archive.parent.iterdir()}
    assert kept == {"a.zip", *(f"{age}.zip" for age in range(KEPT - 1))}


def test_only_a_training_that_compiles_into_local_directories_has_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: (9, 0))
    gpu, config = torch.device("cuda"), Config(market_source="planted")
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert kernels_of(config, "c" * 40, tmp_path, gpu) is None
    for name in VARIABLES:
        monkeypatch.setenv(name, str(tmp_path / name))
    assert kernels_of(config, "c" * 40, tmp_path, torch.device("cpu")) is None
    assert kernels_of(config.replaced(run={"use_compile": False}), "c" * 40, tmp_path, gpu) is None
    names = {
        cache.archive.name
        for cache in (
            kernels_of(config, "c" * 40, tmp_path, gpu),
            kernels_of(config, "d" * 40, tmp_path, gpu),
            kernels_of(config.replaced(learn={"n_backtests": 64}), "c" * 40, tmp_path, gpu),
        )
        if cache is not None
    }
    assert len(names) == 3
    assert all(name.startswith(f"sm_90-torch{torch.__version__}-") for name in names)


def test_a_training_keeps_its_kernels_at_the_first_checkpoint_and_the_next_attempt_has_them_before_a_step(
    tiny_run: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tiny_run[0].with_run_options({"n_steps": 4, "checkpoint_every": 2, "log_every": 1})
    logs = []
    for node in ("node", "other"):
        run_dir = tmp_path / node / "run"
        shutil.copytree(tiny_run[1], run_dir)
        cache = made(tmp_path, node)
        if node == "node":
            filled(cache)
        monkeypatch.setattr(loop, "kernels_of", lambda *_, cache=cache: cache)
        stream = io.StringIO()
        train(run, run_dir, 0, stream)
        logs.append(stream.getvalue().splitlines())
        assert len(contents(cache)) == 2
        assert (fold_dir(run_dir, 0) / "checkpoint-4.bin").exists()
    kept = [i for i, line in enumerate(logs[0]) if line.startswith("compiled kernels kept")]
    step = [i for i, line in enumerate(logs[0]) if line.startswith("step ")]
    assert len(kept) == 1
    assert step[1] < kept[0] < step[2]
    (restored,) = [i for i, line in enumerate(logs[1]) if line.startswith("compiled kernels restored")]
    assert restored < next(i for i, line in enumerate(logs[1]) if line.startswith("step "))


# No compiler pool, no trial of each instruction set: they take minutes on a busy machine.
QUICK = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCHINDUCTOR_VEC_ISA_OK": "0"}
COMPILED = """
import sys
from pathlib import Path
import torch
from torch._dynamo.utils import counters
from trainer.learn.compile_cache import VARIABLES, CompileCache
import os
cache = CompileCache(Path(sys.argv[1]), {name: Path(os.environ[name]) for name in VARIABLES})
said = cache.restore()
torch._inductor.config.cpp_cache_precompile_headers = False
torch.compile(lambda x: (x.sin() * 2 + x.cos()).sum())(torch.ones(64))
cache.store()
print(bool(said), counters["inductor"]["fxgraph_cache_hit"], counters["inductor"]["fxgraph_cache_miss"])
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_compiler_takes_what_was_restored(tmp_path: Path) -> None:
    """Inductor itself, on the CPU: the second process, with empty local directories, compiles nothing."""
    said = []
    for node in ("node", "other"):
        # The same path on every node, as in the pods.
        local = tmp_path / "local"
        shutil.rmtree(local, ignore_errors=True)
        env = {**os.environ, **QUICK, **{name: str(local / name) for name in VARIABLES}}
        done = subprocess.run(
            [sys.executable, "-c", COMPILED, str(tmp_path / "a.zip")],
            env=env, cwd=REPOSITORY, capture_output=True, text=True, timeout=280, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{node}: {done.stderr[-800:]}"
        said.append(done.stdout.split())
    assert said[0][0] == "False"
    assert int(said[0][2]) > 0
    assert said[1] == ["True", str(int(said[0][2])), "0"]
