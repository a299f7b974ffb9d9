"""The page of numerics cites tests that exist, each once, and the table of `tests/learn/test_reach.py`."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "numerics.md").read_text(encoding="utf-8")
LINES = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if "::" in line]


def names_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_line_has_a_part_an_oracle_and_one_test() -> None:
    assert len(LINES) > 50
    form = re.compile(r"`tests/[\w/]+\.py::test_\w+`")
    assert [line for line in LINES if len(line) != 3 or not form.fullmatch(line[2])] == []


@pytest.mark.parametrize("test", [line[2].strip("`") for line in LINES])
def test_a_cited_test_exists(test: str) -> None:
    file, name = test.split("::")
    assert name in names_in(file), f"{file} has no {name}"


def test_no_test_is_cited_twice() -> None:
    cited = [line[2] for line in LINES]
    assert sorted(cited) == sorted(set(cited))


def test_no_test_of_these_files_is_left_out() -> None:
    files = ["tests/agent/test_gradients.py", *(f"tests/learn/test_{name}.py" for name in (
        "gradients", "reach", "extremes", "odd_batches", "damaged_features",
    ))]  # fmt: skip
    written = {f"`{file}::{name}`" for file in files for name in names_in(file) if name.startswith("test_")}
    assert written - {line[2] for line in LINES} == set()


def test_the_table_of_reach_is_the_one_that_is_tested() -> None:
    from tests.learn.test_reach import REACH

    names = {"labels, sizes": ["labels", "sizes"], "Q": ["q"], "value": ["value"], "returns": ["returns"],
             "policy, distillation, entropy": ["policy", "distill", "entropy"],
             "distillation on fresh states": ["fresh distillation"]}  # fmt: skip
    parts = ("encoder", "labels", "returns", "q", "pi", "v")
    start = PAGE.index("| loss | encoder")
    rows = [line.strip("|").split("|") for line in PAGE[start:].split("\n\n")[0].splitlines()[2:]]
    shown = {
        loss: {part for part, cell in zip(parts, cells, strict=True) if cell.strip() == "yes"}
        for label, *cells in rows
        for loss in names[label.strip()]
    }
    assert shown == REACH
