"""Stands in for `python -m trainer`: same arguments, files and exit codes, no training.

FAKE_CODES: JSON of "<stage>" or "<stage><fold>" -> exit codes of consecutive attempts, the last one repeated.
FAKE_WAIT: a stage that waits for SIGTERM, then "saves" and exits 75.
"""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("stage")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--fold-idx", default="")
    parser.add_argument("--folds", type=int)
    parser.add_argument("--n-steps", type=int, default=25_000)
    parser.add_argument("--json", action="store_true")
    return parser.parse_known_args()[0]


def planned_code(run_dir: Path, key: str, stage: str) -> int:
    codes = json.loads(os.environ.get("FAKE_CODES", "{}"))
    listed = codes.get(key, codes.get(stage, [0]))
    counter = run_dir / f"attempts-{key}"
    done = int(counter.read_text()) if counter.exists() else 0
    counter.write_text(str(done + 1))
    return int(listed[min(done, len(listed) - 1)])


def wait_for_signal(run_dir: Path, key: str) -> None:
    def save(*_: object) -> None:
        (run_dir / f"saved-{key}").touch()
        sys.stderr.write("interrupted: saved\n")
        os._exit(75)

    signal.signal(signal.SIGTERM, save)
    (run_dir / f"waiting-{key}").touch()
    time.sleep(30)
    os._exit(1)


def mark(directory: Path, stage: str, **own: object) -> None:
    directory.mkdir(exist_ok=True)
    body = {"stage": stage, "config_digest": "c", "data_fingerprint": "d", **own}
    (directory / f"{stage}.DONE.json").write_text(json.dumps(body))


def complete(args: argparse.Namespace) -> int:
    fold = args.run_dir / f"fold{args.fold_idx}"
    if args.stage == "prepare":
        (args.run_dir / "run.json").write_text(json.dumps({"folds": args.folds or 3}))
        mark(args.run_dir, "prepare")
    elif args.stage == "train":
        sys.stdout.write(f"step {args.n_steps}/{args.n_steps} wr=0.561 hold=41.2% ent=1.93 sps=9.5 eta=0s\n")
        mark(
            fold,
            "train",
            steps=args.n_steps,
            checkpoint="checkpoint.bin",
            checkpoint_sha256=f"sha{args.n_steps}",
        )
        (fold / "checkpoint.bin").touch()
    elif args.stage == "evaluate":
        trained = json.loads((fold / "train.DONE.json").read_text())
        mark(fold, "evaluate", checkpoint_sha256=trained["checkpoint_sha256"])
        (fold / "metrics.json").write_text("{}")
    else:
        return gate(args)
    return 0


def gate(args: argparse.Namespace) -> int:
    folds = json.loads((args.run_dir / "run.json").read_text())["folds"]
    missing = [k for k in range(folds) if not (args.run_dir / f"fold{k}" / "metrics.json").exists()]
    verdict = {"outcome": "fail" if missing else "pass", "missing": missing}
    (args.run_dir / "summary.json").write_text(json.dumps(verdict))
    table = f"verdict: {verdict['outcome']}, missing folds {missing}"
    sys.stdout.write((json.dumps(verdict) if args.json else table) + "\n")
    return 3 if missing else 0


def main() -> int:
    args = options()
    key = f"{args.stage}{args.fold_idx}"
    with (args.run_dir / "calls.txt").open("a") as file:
        file.write(f"{time.monotonic()} begin {key} {' '.join(sys.argv[1:])}\n")
    code = planned_code(args.run_dir, key, args.stage)
    if os.environ.get("FAKE_WAIT") == args.stage:
        wait_for_signal(args.run_dir, key)
    if code < 0:
        os.kill(os.getpid(), -code)
    time.sleep(float(os.environ.get("FAKE_SECONDS", "0")))
    if code:
        sys.stderr.write(f"{key}: planned failure {code}\n")
        return code
    code = complete(args)
    with (args.run_dir / "calls.txt").open("a") as file:
        file.write(f"{time.monotonic()} end {key}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
