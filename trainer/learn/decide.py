"""The gate stage: all folds' metrics to one verdict, `summary.json`, a table, and the table as files."""

import json
from pathlib import Path
from typing import TextIO

from pydantic import ValidationError
from rich.console import Console

from trainer.errors import InputError
from trainer.learn.gate import judge
from trainer.learn.markers import Marker, read_marker, write_marker
from trainer.learn.metrics import FoldMetrics
from trainer.learn.progress import termination_message
from trainer.learn.report import write_reports
from trainer.learn.run import METRICS_FILE, RUN_FILE, Run, fold_dir
from trainer.learn.verdict import Summary, verdict_line, verdict_table, write_summary

SUMMARY_FILE = "summary.json"


def decide(run_dir: Path, stream: TextIO, *, as_json: bool = False) -> int:
    """Judges the folds found in the run directory; returns the verdict's exit code.

    A fold counts only when its evaluation completed for this very configuration, data and checkpoint.
    Raises InputError.
    """
    if not (run_dir / RUN_FILE).exists():
        # Where prepare failed an orchestrator still asks for the verdict.
        raise InputError(
            "every fold is missing: nothing was prepared here",
            where=str(run_dir / RUN_FILE),
            do="read why prepare failed, or run `python -m trainer prepare --run-dir` first",
        )
    run = Run.load(run_dir)
    folds = [_fold_metrics(run, run_dir, index) for index in range(len(run.folds))]
    verdict = judge(folds, run.config.gate)
    summary = Summary(
        run_id=run_dir.resolve().name,
        config_digest=run.config_digest,
        data_fingerprint=run.data_fingerprint,
        verdict=verdict,
        folds=tuple(folds),
    )
    path = run_dir / SUMMARY_FILE
    write_summary(path, summary)
    table = verdict_table(verdict, folds)
    write_reports(run_dir, table, f"Walk-forward run {summary.run_id}")
    write_marker(
        run_dir, Marker(stage="gate", config_digest=run.config_digest, data_fingerprint=run.data_fingerprint)
    )
    if as_json:
        stream.write(json.dumps(summary.model_dump(mode="json"), indent=2) + "\n")
    else:
        Console(file=stream).print(table)
        stream.write(f"summary: {path}\n")
    if verdict.exit_code:
        # An orchestrator shows why this container ended; without words it would show the end of the table.
        termination_message("; ".join([verdict_line(verdict), *map(str, verdict.reasons)]))
    return int(verdict.exit_code)


def _fold_metrics(run: Run, run_dir: Path, index: int) -> FoldMetrics | None:
    directory = fold_dir(run_dir, index)
    trained, evaluated = read_marker(directory, "train"), read_marker(directory, "evaluate")
    path = directory / METRICS_FILE
    if trained is None or evaluated is None or not path.exists():
        return None
    # A fold that was trained on since is not answered with the metrics of its earlier checkpoint.
    expected = trained.model_dump(exclude={"stage"}) | {
        "config_digest": run.config_digest, "data_fingerprint": run.data_fingerprint, "fold": index,
    }  # fmt: skip
    if not evaluated.matches(expected):
        return None
    again = "evaluate this fold again"
    try:
        metrics = FoldMetrics.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        what = f"not the metrics of a fold: {str(error).splitlines()[0]}"
        raise InputError(what, where=str(path), do=again) from error
    if metrics.fold != index:
        raise InputError(f"metrics of fold {metrics.fold}, not {index}", where=str(path), do=again)
    return metrics
