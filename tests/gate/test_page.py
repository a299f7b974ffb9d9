"""docs/gate.md names the tests that exist, and every trader and attack that is tested."""

import ast
import re

from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "gate.md").read_text(encoding="utf-8")
CITED = set(re.findall(r"`(tests/gate/\w+\.py)::(test_\w+)`", PAGE))
FILES = ("test_traders.py", "test_files.py", "test_attacks.py")


def cases_of(name: str) -> set[tuple[str, str]]:
    """Its test functions, read without importing it."""
    path = f"tests/gate/{name}"
    body = ast.parse((REPOSITORY / path).read_text(encoding="utf-8")).body
    return {
        (path, node.name) for node in body if isinstance(node, ast.FunctionDef) and "test_" in node.name[:5]
    }


def test_the_page_cites_every_test_of_a_trader_or_an_attack_and_no_other() -> None:
    written = set().union(*(cases_of(name) for name in FILES))
    assert written == CITED


def test_its_figure_exists() -> None:
    for image in re.findall(r"\]\((img/[\w.-]+)\)", PAGE):
        assert (REPOSITORY / "docs" / image).is_file()
