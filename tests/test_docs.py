"""The pages under docs/ name what exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TRAPS = (ROOT / "docs" / "data-traps.md").read_text(encoding="utf-8")
NUM_TRAPS = 9  # of the design page
CITED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TRAPS)
LINES = re.findall(r"^\| (?!Fact or trap)(.*?) \| (.*?) \|$", TRAPS, re.MULTILINE)


def functions_of(path: str) -> set[str]:
    """Names of the functions of a file, read without importing it."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("path", sorted({path for path, _ in CITED}))
def test_every_cited_test_exists(path: str) -> None:
    cited = {name for file, name in CITED if file == path}
    assert cited - functions_of(path) == set(), f"named in docs/data-traps.md, but not in {path}"


def test_every_trap_has_functions_of_its_own() -> None:
    numbers = {int(found[1]) for fact, _ in LINES if (found := re.match(r"(\d+)\. ", fact))}
    assert numbers == set(range(1, NUM_TRAPS + 1))


@pytest.mark.parametrize(("fact", "tests"), LINES, ids=[fact for fact, _ in LINES])
def test_every_line_cites_distinct_tests_and_nothing_else(fact: str, tests: str) -> None:
    cited = tests.split("<br>")
    assert len(set(cited)) == len(cited)
    assert all(re.fullmatch(r"`tests/[\w/]+\.py::test_\w+`", one) for one in cited), fact
