"""Which stages of a fold need not run again, read from the completion markers that the trainer wrote.

The trainer answers at once too when its marker matches, but only after its imports. A marker that cannot be
read, or names other steps, another config, other data or another checkpoint, means: run the stage.
"""

import json
from pathlib import Path
from typing import Any

from pipelines.plan import EVALUATE, PREPARE, TRAIN, Stage

SAME_RUN = ("config_digest", "data_fingerprint")


def is_done(run_dir: Path, stage: Stage, fold_idx: int, n_steps: int) -> bool:
    """Whether the stage of this fold completed what prepare, which has just succeeded, now asks for.

    n_steps: training steps in total. evaluate must have judged the checkpoint that train left.
    """
    prepared = _read(run_dir / PREPARE.marker(None))
    trained = _read(run_dir / TRAIN.marker(fold_idx))
    if trained.get("steps") != n_steps or not _agree(prepared, trained, SAME_RUN):
        return False
    checkpoint = trained.get("checkpoint")
    if not checkpoint or not (run_dir / f"fold{fold_idx}" / Path(checkpoint).name).is_file():
        return False
    if stage is not EVALUATE:
        return stage is TRAIN
    judged = _read(run_dir / EVALUATE.marker(fold_idx))
    has_metrics = (run_dir / f"fold{fold_idx}" / "metrics.json").is_file()
    return has_metrics and _agree(trained, judged, (*SAME_RUN, "checkpoint_sha256"))


def _agree(one: dict[str, Any], other: dict[str, Any], keys: tuple[str, ...]) -> bool:
    return all(one.get(key) is not None and one.get(key) == other.get(key) for key in keys)


def _read(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return body if isinstance(body, dict) else {}
