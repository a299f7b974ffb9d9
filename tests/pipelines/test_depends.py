"""Argo's depends expressions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.depends import STATUSES, parse_depends


def test_tasks_and_statuses_are_found_in_order() -> None:
    text = "(a.Succeeded || b-2.Failed) && !c"
    assert parse_depends(text) == [("a", "Succeeded"), ("b-2", "Failed"), ("c", "")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a &&", "ends too early"),
        ("", "ends too early"),
        ("(a", "not closed"),
        ("a b", "'b' does not belong there"),
        ("a)", r"'\)' does not belong there"),
        ("&& a", "'&&' where a task is expected"),
        ("a.Done", "'Done' is no task result"),
        ("a | b", "cannot read"),
    ],
)
def test_a_faulty_expression_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_depends(text)


terms = st.tuples(st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True), st.sampled_from(["", *STATUSES]))
trees = st.recursive(
    terms.map(lambda term: ([term], ".".join(filter(None, term)))),
    lambda inner: st.one_of(
        inner.map(lambda one: (one[0], f"!({one[1]})")),
        st.tuples(inner, inner, st.sampled_from(["&&", "||"])).map(
            lambda pair: (pair[0][0] + pair[1][0], f"({pair[0][1]}) {pair[2]} {pair[1][1]}")
        ),
    ),
    max_leaves=6,
)


@given(tree=trees)
def test_any_well_formed_expression_gives_its_tasks(tree: tuple[list[tuple[str, str]], str]) -> None:
    assert parse_depends(tree[1]) == tree[0]
