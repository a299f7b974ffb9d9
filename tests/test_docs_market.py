"""The page of market rules cites places and tests that exist, and no test of a rule twice."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "market-rules.md").read_text(encoding="utf-8")
RULES = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| rule ")
]
IDS = [rule for rule, *_ in RULES]


def names_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_page_has_rules_of_three_cells_each() -> None:
    assert len(RULES) > 50
    assert [rule for rule in RULES if len(rule) != 3] == []


@pytest.mark.parametrize(("where", "test"), [rule[1:] for rule in RULES], ids=IDS)
def test_a_rule_names_code_and_a_test_that_exist(where: str, test: str) -> None:
    places = re.findall(r"`(\w+)\.(\w+)`", where)
    assert places, f"{where!r} names no place"
    for module, name in places:
        assert hasattr(importlib.import_module(f"trainer.market.{module}"), name), f"{module}.{name}"
    file, name = test.strip("`").split("::")
    assert name in names_in(file), f"{file} has no {name}"


def test_no_test_is_cited_for_two_rules() -> None:
    cited = [test for *_, test in RULES]
    assert sorted(cited) == sorted(set(cited))


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)]+)\)", PAGE))
def test_a_link_leads_somewhere(link: str) -> None:
    assert (ROOT / "docs" / link).is_file()
