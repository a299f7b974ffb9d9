"""Kubernetes' own rules: quantities, tolerations, label selectors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.cluster.doctor.node import Toleration, expressions_match, quantity, selects

TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), ("4", 4), (4, 4), ("500m", 0.5), ("1.5", 1.5), (".5", 0.5), ("2k", 2000), ("8Gi", 2**33),
        ("1e3", 1000), ("1E3", 1000), ("3E", 3e18), ("129M", 129e6), ("1Ki", 1024), ("100u", 1e-4),
        ("7n", 7e-9),
    ],
)  # fmt: skip
def test_quantities_are_read_as_kubernetes_reads_them(text: str, number: float) -> None:
    assert quantity(text) == pytest.approx(number)


@pytest.mark.parametrize("text", ["", "much", "8gi", "1 Gi", "Gi", "0x10", "1e", "--1"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity(text)


@given(st.integers(0, 10**6), st.sampled_from(["", "m", "Ki", "Mi", "Gi"]))
def test_quantities_grow_with_their_number(number: int, suffix: str) -> None:
    assert quantity(f"{number}{suffix}") < quantity(f"{number + 1}{suffix}")


@pytest.mark.parametrize(
    ("toleration", "accepts"),
    [
        ({"key": "team", "operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "team", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "team", "value": "a"}, True),
        ({"key": "team", "value": "b"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"operator": "Exists"}, True),
        ({}, False),
    ],
)
def test_a_toleration_accepts_a_taint(toleration: dict[str, str], accepts: bool) -> None:
    assert Toleration.of(toleration).accepts(TAINT) is accepts


@pytest.mark.parametrize(
    ("operator", "values", "holds"),
    [
        ("In", ["5", "6"], True), ("In", ["6"], False), ("NotIn", ["6"], True), ("NotIn", ["5"], False),
        ("Exists", [], True), ("DoesNotExist", [], False), ("Gt", ["4"], True), ("Gt", ["5"], False),
        ("Lt", ["6"], True), ("Lt", ["5"], False), ("Near", ["5"], False),
    ],
)  # fmt: skip
def test_expressions_hold(operator: str, values: list[str], holds: bool) -> None:
    assert expressions_match([{"key": "n", "operator": operator, "values": values}], {"n": "5"}) is holds


def test_an_absent_label_is_in_nothing_and_not_in_anything() -> None:
    absent = [{"key": "n", "operator": operator, "values": ["5"]} for operator in ("NotIn", "DoesNotExist")]
    assert expressions_match(absent, {})
    assert not any(
        expressions_match([{"key": "n", "operator": operator, "values": ["5"]}], {})
        for operator in ("In", "Exists", "Gt", "Lt")
    )


def test_a_selector_needs_all_of_its_parts_and_an_empty_one_none() -> None:
    assert selects({}, {})
    assert selects({"matchLabels": {"a": "1"}}, {"a": "1", "b": "2"})
    assert not selects({"matchLabels": {"a": "1", "b": "3"}}, {"a": "1", "b": "2"})
    both = {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}
    assert not selects(both, {"a": "1", "b": "2"})
