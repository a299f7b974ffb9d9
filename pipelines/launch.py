"""`walkforward run`: from options to a locked run directory, the executed plan and the printed verdict."""

import asyncio
from dataclasses import fields
from pathlib import Path
from typing import Any, TextIO

from pipelines.commands.run import Run
from pipelines.identity import run_id
from pipelines.local import TRAINER_COMMAND, LocalRun, LocalRunner
from pipelines.lock import run_lock
from pipelines.progress import display_for
from pipelines.settings import TAG_PATTERN, matches
from trainer.arguments import RunOptions
from trainer.config import Config
from trainer.errors import InputError
from trainer.location import mirror_url
from trainer.options import build_config

# Options that the trainer knows under the same name, in the order of its help.
PASSED_ON = tuple(field.name for field in fields(RunOptions) if field.name != "preset")


def config_of(options: Run) -> Config:
    """The resolved config of the options; InputError for a bad value or without anything to train on."""
    if options.mbp10_data_dir is not None and options.market is not None:
        raise InputError("--data and --market are both given", where="options", do="give one of them")
    config = build_config(options.preset, options.config, _given(options))
    if config.market_source is None and config.run.mbp10_data_dir is None:
        raise InputError(
            "no data to train on",
            where="options",
            do="give --data FILE_OR_DIR, or --market planted for the synthetic market, or --preset demo",
        )
    _check(options, config)
    mirror_url(options.mirror)
    return config


def _check(options: Run, config: Config) -> None:
    if options.jobs < 1:
        raise InputError(f"{options.jobs} is not a number of jobs", where="--jobs", do="give 1 or more")
    if options.fold_idx is not None and not 0 <= options.fold_idx < config.data.folds:
        last = config.data.folds - 1
        raise InputError(f"there is no fold {options.fold_idx}", where="--fold-idx", do=f"give 0 to {last}")
    if options.run_id is not None and not matches(TAG_PATTERN, options.run_id):
        raise InputError(
            f"{options.run_id!r} cannot name a directory",
            where="--run-id",
            do="use letters, digits, dot, dash, _",
        )


# Stages of a runner that was killed save and end within seconds; a new runner waits for them.
LOCK_WAIT_S = 15.0


def option_values(options: Run) -> dict[str, str]:
    """Values of the trainer's options; what nobody gave is left to the trainer's own defaults."""
    # Absolute paths, so that run.json says the same wherever the next command is typed.
    plain = {
        name: value.resolve() if isinstance(value, Path) else value for name, value in _given(options).items()
    }
    values = {name.replace("_", "-"): str(value) for name, value in plain.items()}
    return {"preset": options.preset, **values}


def _given(options: Run) -> dict[str, Any]:
    return {name: value for name in PASSED_ON if (value := getattr(options, name)) is not None}


def launch(
    options: Run, stdout: TextIO, stderr: TextIO, trainer_command: tuple[str, ...] = TRAINER_COMMAND
) -> int:
    """Run the plan here; returns the exit code and writes the verdict to stdout, progress to stderr.

    trainer_command replaces `python -m trainer`: the seam for tests.
    """
    config = config_of(options)
    run_dir = options.runs.absolute() / (options.run_id or run_id(config))
    with run_lock(run_dir, LOCK_WAIT_S) as lock_fd:
        run = LocalRun(
            run_dir=run_dir,
            values=option_values(options),
            folds=config.data.folds,
            n_steps=config.run.n_steps,
            fold_idx=options.fold_idx,
            jobs=options.jobs,
            json=options.json,
            lock_fd=lock_fd,
            trainer_command=trainer_command,
        )
        display = display_for(stdout, stderr)
        display.note("walkforward", f"run directory {run_dir}")
        runner = LocalRunner(run, display)
        try:
            code = asyncio.run(runner.execute())
        finally:
            display.close()
    _report(runner, run_dir, options, stdout)
    return code


def _report(runner: LocalRunner, run_dir: Path, options: Run, stdout: TextIO) -> None:
    text = "".join(line + "\n" for line in runner.result)
    stdout.write(text)
    summary = run_dir / "summary.json"
    if text and summary.exists() and not options.json and str(summary) not in text:
        stdout.write(f"summary: {summary}\n")
    stdout.flush()
