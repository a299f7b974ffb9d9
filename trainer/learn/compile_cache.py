"""Compiled kernels kept across attempts and folds: one archive, unpacked to local disk before compiling.

torch.compile takes two minutes on a GPU, and a pod begins with an empty disk. Its caches are many small files
that must be local: on a network file system they break (design page PIPELINE.md, "Pod specification"). So the
volume holds them as one file. Nothing here may stop a training: without it, it only compiles again.
"""

import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import torch

from trainer.config import Config

# Where compilers keep what they made; set together in pods. Elsewhere their own places outlive a process.
VARIABLES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
KEPT = 8  # archives: each code and configuration makes its own


class CompileCache:
    """One archive of the compilers' local directories.

    Args:
        archive: the file on the shared volume; its name says for which code, configuration, torch and GPU.
        directories: local directory by its name in the archive.
    """

    def __init__(self, archive: Path, directories: Mapping[str, Path]) -> None:
        self.archive, self._directories = archive, dict(directories)

    def restore(self) -> str:
        """Unpacks the archive into empty local directories; what happened, empty for nothing.

        A directory with files is left alone: they are newer. A damaged archive is removed, and so is what
        was unpacked of it.
        """
        if not self.archive.exists() or any(self._files()):
            return ""
        try:
            with zipfile.ZipFile(self.archive) as packed:
                for member in packed.infolist():
                    name, _, inner = member.filename.partition("/")
                    if name in self._directories:
                        member.filename = inner
                        packed.extract(member, self._directories[name])  # outside of it nothing is written
            with suppress(OSError):
                os.utime(self.archive)  # in use: the oldest are removed
        except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError) as error:
            for directory in self._directories.values():
                shutil.rmtree(directory, ignore_errors=True)
            with suppress(OSError):
                self.archive.unlink(missing_ok=True)
            return f"compiled kernels of {self.archive} are unreadable ({error}): compiling again"
        return f"compiled kernels restored from {self.archive}"

    def store(self) -> str:
        """Packs the local directories unless there is an archive; what happened, empty for nothing.

        The archive appears whole or not at all, also where several folds write at once.
        """
        if self.archive.exists() or not any(self._files()):
            return ""
        part = None
        try:
            self.archive.parent.mkdir(parents=True, exist_ok=True)
            handle, part = tempfile.mkstemp(dir=self.archive.parent, prefix=".", suffix=".part")
            with os.fdopen(handle, "wb") as stream:
                with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
                    for name, path in self._files():
                        packed.write(path, f"{name}/{path.relative_to(self._directories[name])}")
                stream.flush()
                os.fsync(stream.fileno())
            Path(part).replace(self.archive)
            self._remove_old()
        except (OSError, ValueError) as error:
            if part is not None:
                with suppress(OSError):
                    Path(part).unlink(missing_ok=True)
            return f"compiled kernels not kept in {self.archive}: {error}"
        return f"compiled kernels kept in {self.archive} ({self.archive.stat().st_size:,} bytes)"

    def _files(self) -> Iterator[tuple[str, Path]]:
        for name, directory in self._directories.items():
            yield from ((name, path) for path in sorted(directory.rglob("*")) if path.is_file())

    def _remove_old(self) -> None:
        found = sorted(self.archive.parent.glob("*.zip"), key=lambda path: path.stat().st_mtime)
        for path in found[:-KEPT]:
            path.unlink(missing_ok=True)


def arch_of(device: torch.device) -> str:
    """`sm_NN`, or `cpu` without a GPU."""
    return "sm_{}{}".format(*torch.cuda.get_device_capability(device)) if device.type == "cuda" else "cpu"


def kernels_of(config: Config, code_sha: str, cache_root: Path, device: torch.device) -> CompileCache | None:
    """The archive below `cache_root` of what this training compiles; None where it does not.

    None too where the environment sets no local directories.
    """
    directories = {name: Path(os.environ[name]) for name in VARIABLES if os.environ.get(name)}
    if device.type != "cuda" or not config.run.use_compile or len(directories) < len(VARIABLES):
        return None
    name = f"{arch_of(device)}-torch{torch.__version__}-{config.digest()}-{code_sha[:12]}.zip"
    return CompileCache(cache_root / "compiled" / name, directories)
