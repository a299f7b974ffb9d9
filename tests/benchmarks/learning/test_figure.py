"""Learning curves: the SVG holds the figures, and its labels do not overlap."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.learning.figure import LABEL_GAP, figure, line_of, nice_ticks, spread
from tests.benchmarks.learning.conftest import MakeResult, metrics

SVG = "{http://www.w3.org/2000/svg}"


def test_a_line_is_mean_and_range_over_seeds_from_the_untrained_agent_on(make_result: MakeResult) -> None:
    line = line_of("demo", [make_result(0.2), make_result(0.6, seed=1)])
    assert line.steps == [0, 100, 200]
    assert line.middle == pytest.approx([-0.4, 0.2, 0.4])
    assert line.low == pytest.approx([-0.4, 0.1, 0.2])
    assert line.high == pytest.approx([-0.4, 0.3, 0.6])


def test_a_line_has_the_steps_that_all_seeds_share(make_result: MakeResult) -> None:
    results = [make_result(0.2, steps=(50, 100, 200)), make_result(0.6, seed=1, steps=(100, 200))]
    assert line_of("demo", results).steps == [0, 100, 200]


def test_every_market_is_a_panel_and_every_variant_a_labelled_line(make_result: MakeResult) -> None:
    results = [
        make_result(0.4, variant=variant, market=market, seed=seed)
        for market in ("planted", "martingale")
        for variant in ("a<b", "other")
        for seed in (0, 1)
    ]
    root = ElementTree.fromstring(figure(results))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert [text for text in texts if text in ("planted", "martingale")] == ["planted", "martingale"]
    assert texts.count("a<b +0.40") == texts.count("other +0.40") == 2
    assert {"optimal trader 1.25", "sees the book only 1.12", "optimal trader 0.00"} <= set(texts)
    assert any("mean over 2 seeds" in str(text) for text in texts)
    assert len(list(root.iter(f"{SVG}polyline"))) == len(list(root.iter(f"{SVG}polygon"))) == 4
    colours = [line.get("stroke") for line in root.iter(f"{SVG}polyline")]
    assert colours[0] == colours[2] != colours[1] == colours[3]


def test_points_lie_where_the_axes_say(make_result: MakeResult) -> None:
    root = ElementTree.fromstring(figure([make_result(0.4)]))
    (line,) = root.iter(f"{SVG}polyline")
    points = [tuple(map(float, pair.split(","))) for pair in str(line.get("points")).split()]
    axis = {
        text.text: (float(str(text.get("x"))), float(str(text.get("y"))))
        for text in root.iter(f"{SVG}text")
        if re.fullmatch(r"-?[\d.,]+", str(text.text))
    }
    one_px = (axis["0.5"][1] - axis["1"][1]) / 0.5
    height = [axis["1"][1] - 4 + (1.0 - net) * one_px for net in (-0.4, 0.2, 0.4)]
    assert [y for _, y in points] == pytest.approx(height, abs=0.2)
    assert [x for x, _ in points] == pytest.approx([axis[step][0] for step in ("0", "100", "200")], abs=0.2)


def test_labels_of_near_ends_are_apart_and_inside(make_result: MakeResult) -> None:
    results = [make_result(0.4 + 0.001 * at, variant=f"variant-{at}") for at in range(9)]
    root = ElementTree.fromstring(figure(results))
    width = float(str(root.get("width")))
    labels = [t for t in root.iter(f"{SVG}text") if str(t.text).startswith(("variant-", "optimal", "sees"))]
    places = sorted(float(str(text.get("y"))) for text in labels)
    assert len(places) == 11
    assert min(b - a for a, b in pairwise(places)) >= LABEL_GAP - 0.2
    assert all(float(str(t.get("x"))) + 5.5 * len(str(t.text)) <= width for t in labels)


def test_a_flat_line_is_not_blown_up(make_result: MakeResult) -> None:
    flat = metrics(0.0).model_copy(update={"net_ticks_per_decision": 0.0})
    result = make_result(0.002, market="martingale", metrics=flat)
    still = result.folds[0].model_copy(update={"untrained_ticks_per_decision": 0.004})
    root = ElementTree.fromstring(figure([result.model_copy(update={"folds": (still,)})]))
    texts = {text.text for text in root.iter(f"{SVG}text")}
    assert {"-0.1", "0", "0.1"} <= texts


@given(st.lists(st.floats(0, 300), min_size=1, max_size=12).map(sorted))
def test_spread_labels_keep_order_distance_and_bounds(wanted: list[float]) -> None:
    places = spread(wanted, 15.0, 0.0, 300.0)
    assert all(b - a >= 15.0 - 1e-6 for a, b in pairwise(places))
    assert places[0] >= -1e-6
    assert places[-1] <= 300.0 + 1e-6
    if all(b - a >= 15.0 for a, b in pairwise(wanted)):
        assert places == pytest.approx(wanted)


@given(low=st.floats(-50, 50), span=st.floats(0.01, 1e5))
def test_ticks_are_round_few_and_reach_over_the_values(low: float, span: float) -> None:
    ticks = nice_ticks(low, low + span)
    step = ticks[1] - ticks[0]
    assert ticks[0] <= low + 1e-6 * step
    assert ticks[-1] >= low + span - 1e-6 * step
    assert 2 <= len(ticks) <= 9
    assert f"{step:.3e}"[:5] in ("1.000", "2.000", "5.000")
