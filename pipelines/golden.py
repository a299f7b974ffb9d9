"""`python -m pipelines.golden`: rewrite the golden YAML that the tests compare with; never run by CI."""

import sys

from pipelines.identity import REPOSITORY
from pipelines.parameters import parameters_of
from pipelines.render import render
from pipelines.settings import ChartValues

GOLDEN_DIR = REPOSITORY / "tests" / "golden"
CPU_VALUES = ChartValues(
    gpus=0, data_claim=None, prometheus=False, patch_executor=False, avoid_last_node=True
)


def goldens() -> dict[str, str]:
    """YAML text by file name: the default template, one for a CPU test cluster, a submitted workflow."""
    chosen = parameters_of(["folds=5", "market=planted", "run-id=abc-1"])
    return {
        "walkforward.yaml": render(ChartValues()),
        "walkforward-cpu.yaml": render(CPU_VALUES),
        "workflow.yaml": render(ChartValues(), chosen),
    }


def rewrite() -> list[str]:
    """Write every golden; returns the paths."""
    GOLDEN_DIR.mkdir(parents=True, exist_ok=True)
    for name, text in goldens().items():
        (GOLDEN_DIR / name).write_text(text, encoding="utf-8")
    return [str(GOLDEN_DIR / name) for name in goldens()]


if __name__ == "__main__":
    sys.stdout.write("\n".join(rewrite()) + "\n")
