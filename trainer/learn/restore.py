"""What a run directory takes from its mirror before a stage looks at it.

Nothing local that is as new is replaced, and nothing is believed for being in the bucket: a checkpoint counts
when its own CRCs do, a marker when the checkpoint that it names is here with that digest.
"""

import json
import logging
import re
from pathlib import Path

from pydantic import ValidationError

from trainer.errors import InputError, MismatchError
from trainer.learn.checkpoints import IDENTITY, CheckpointStore, checkpoint_step, file_sha256
from trainer.learn.lock import fold_lock
from trainer.learn.markers import Marker, Stage, marker_path, read_marker
from trainer.learn.mirrored import Copy
from trainer.learn.records import RECORDS_FILE, last_recorded_step
from trainer.learn.run import METRICS_FILE, RUN_FILE, fold_dir
from trainer.location import S3Url
from trainer.storage.local import Progress
from trainer.storage.upload import WritableStore

# What a fold has beside its results. Only known names of the bucket become paths here.
HISTORY = re.compile(r"starts\.json|attempts\.jsonl|logs/attempt-\d+\.log")
EVALUATED = ("decisions.parquet", "trades.parquet", METRICS_FILE)
JUDGED = re.compile(rf"(fold\d+)/{re.escape(METRICS_FILE)}")

_log = logging.getLogger(__name__)


def begin(mirror: S3Url, run_dir: Path, stage: Stage, fold: int | None, on_progress: Progress) -> Copy:
    """Restores what the stage reads, takes over the copy of what it writes, and returns that copy."""
    root = mirror.at("/".join(filter(None, (mirror.key, run_dir.resolve().name))))
    store = WritableStore(root)
    run = Copy(store, root, run_dir, False, on_progress)
    restore_run(run)
    if fold is None:
        run.claim()
        if stage == "gate":
            restore_judged(run)
        return run
    run.close()
    copy = Copy(store, run.url(f"fold{fold}"), fold_dir(run_dir, fold), True, on_progress)
    # The lock first: who only finds the fold taken must not take its copy away from the one who works in it.
    with fold_lock(copy.directory):
        copy.claim()
        restore_fold(copy)
    return copy


def restore_run(run: Copy) -> None:
    """`run.json` to whichever has none; MismatchError where both have one, of different runs."""
    body, path = run.read(RUN_FILE), run.directory / RUN_FILE
    if body is None:
        if path.exists():
            run.send(RUN_FILE)  # prepared before there was a mirror
        return
    if not path.exists():
        run.fetch(RUN_FILE)
        return
    mine, theirs = _identity(path.read_bytes()), _identity(body)
    for key, label in IDENTITY.items():
        if mine.get(key) != theirs.get(key):
            what = f"{label} is {theirs.get(key)}, this run's is {mine.get(key)}"
            do = "use another --run-id, or another --mirror"
            raise MismatchError(what, where=str(run.url(RUN_FILE)), do=do)


def restore_fold(fold: Copy) -> None:
    """The newest valid checkpoint with its records, the history, and what train and evaluate completed."""
    store = CheckpointStore(fold.directory)
    newest = store.newest_valid()
    behind = _restore_checkpoint(fold, store, newest[1].step if newest else 0)
    for name in filter(HISTORY.fullmatch, sorted(fold.there)):
        # Of a directory that is behind, the history is not the one of this checkpoint.
        if behind or not (fold.directory / name).exists():
            fold.fetch(name)
    _restore_trained(fold)
    _restore_evaluated(fold)


def restore_judged(run: Copy) -> None:
    """What the gate reads of folds that this directory has nothing of."""
    for found in filter(None, map(JUDGED.fullmatch, sorted(run.there))):
        names = [f"{found[1]}/{name}" for name in (METRICS_FILE, "train.DONE.json", "evaluate.DONE.json")]
        if all(name in run.there and not (run.directory / name).exists() for name in names):
            for name in names:
                run.fetch(name)


def _restore_checkpoint(fold: Copy, store: CheckpointStore, local: int) -> bool:
    """The newest valid checkpoint behind step `local`, with the records up to it; whether there was one."""
    steps = sorted((step for name in fold.there if (step := checkpoint_step(name)) is not None), reverse=True)
    if not steps or steps[0] <= local or RECORDS_FILE not in fold.there:
        return False
    # First: a stop between the two leaves more records than a checkpoint needs, which resuming cuts off.
    recorded = last_recorded_step(fold.fetch(RECORDS_FILE))
    for step in steps:
        if step <= local:
            break
        path = store.path(step)
        if step > recorded:
            _log.warning("%s was not restored: its records end at step %d", fold.url(path.name), recorded)
            continue
        fold.fetch(path.name)
        if store.valid(step) is not None:
            return True
        path.unlink(missing_ok=True)
    return False


def _restore_trained(fold: Copy) -> None:
    theirs, mine = _remote_marker(fold, "train"), read_marker(fold.directory, "train")
    if theirs is None or theirs.checkpoint is None or checkpoint_step(theirs.checkpoint) is None:
        return
    if mine is not None and mine != theirs and (mine.steps or 0) >= (theirs.steps or 0):
        return
    path = fold.directory / theirs.checkpoint
    if not path.exists() and theirs.checkpoint in fold.there:
        fold.fetch(theirs.checkpoint)
    if not path.exists() or file_sha256(path) != theirs.checkpoint_sha256:
        _log.warning("%s was not restored: its checkpoint is not here", fold.url("train.DONE.json"))
    elif mine is None or mine != theirs:
        fold.fetch(marker_path(fold.directory, "train").name)


def _restore_evaluated(fold: Copy) -> None:
    theirs, trained = _remote_marker(fold, "evaluate"), read_marker(fold.directory, "train")
    if theirs is None or trained is None or not theirs.matches(trained.model_dump(exclude={"stage"})):
        return
    if read_marker(fold.directory, "evaluate") == theirs or any(name not in fold.there for name in EVALUATED):
        return
    for name in (*EVALUATED, marker_path(fold.directory, "evaluate").name):
        fold.fetch(name)


def _remote_marker(fold: Copy, stage: Stage) -> Marker | None:
    body = fold.read(marker_path(fold.directory, stage).name)
    if body is None:
        return None
    try:
        return Marker.model_validate_json(body)
    except ValidationError:
        _log.warning("%s is no completion marker: passed over", fold.url(f"{stage}.DONE.json"))
        return None


def _identity(body: bytes) -> dict[str, str]:
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InputError("not a prepared run", where=RUN_FILE, do="prepare again")
    return found
