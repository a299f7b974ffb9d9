"""Folds as train and evaluate leave them, without having run."""

from pathlib import Path

from trainer.learn.markers import Marker, write_marker
from trainer.learn.metrics import FoldMetrics
from trainer.learn.run import METRICS_FILE, Run, fold_dir


def put(run: Run, run_dir: Path, metrics: FoldMetrics) -> Marker:
    """Leaves what train and evaluate leave, the checkpoint itself excepted."""
    directory = fold_dir(run_dir, metrics.fold)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / METRICS_FILE).write_text(metrics.model_dump_json())
    marker = Marker(
        stage="train", fold=metrics.fold, config_digest=run.config_digest,
        data_fingerprint=run.data_fingerprint,
        steps=200, checkpoint="checkpoint-200.bin", checkpoint_sha256="ab" * 32,
    )  # fmt: skip
    write_marker(directory, marker)
    write_marker(directory, marker.model_copy(update={"stage": "evaluate"}))
    return marker
