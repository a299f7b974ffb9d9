"""`python -m pipelines.chart`: rewrite the generated files of the chart; with --check only compare them."""

import sys

from pipelines.chart.files import REWRITE, generated, rendered, stale
from pipelines.chart.symbolic import prove, symbolic
from pipelines.identity import REPOSITORY
from trainer.errors import AlphaError, ExitCode


def main(argv: list[str]) -> int:
    """0 when the files are as they should be; bad input when --check finds a stale one."""
    if argv not in ([], ["--check"]):
        sys.stderr.write(f"usage: {REWRITE} [--check]\n")
        return int(ExitCode.BAD_INPUT)
    try:
        return _check() if argv else _write()
    except AlphaError as error:
        sys.stderr.write(f"{REWRITE}: {error}\n")
        return int(error.exit_code)


def _check() -> int:
    old = stale(generated(symbolic(rendered)))
    for path in old:
        sys.stderr.write(f"{path.relative_to(REPOSITORY)} is stale; run {REWRITE}\n")
    return int(ExitCode.BAD_INPUT if old else ExitCode.DONE)


def _write() -> int:
    found = symbolic(rendered)
    prove(found, rendered)
    for path, text in generated(found).items():
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(REPOSITORY)}\n")
    return int(ExitCode.DONE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
