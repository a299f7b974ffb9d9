"""Learning curves: the picture holds the figures, and its labels do not overlap."""

from itertools import pairwise
from xml.etree import ElementTree

import pytest
from matplotlib.text import Annotation

from benchmarks.learning.figure import LABEL, figure, line_of
from benchmarks.picture import as_svg
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
    drawn = figure(results)
    assert [axes.get_title(loc="left") for axes in drawn.axes] == ["planted", "martingale"]
    texts = [text.text for text in ElementTree.fromstring(as_svg(drawn, LABEL)).iter(f"{SVG}text")]
    assert texts.count("a<b +0.40") == texts.count("other +0.40") == 2
    assert {"optimal trader 1.25", "sees the book only 1.12", "optimal trader 0.00"} <= set(texts)
    assert any("mean over 2 seeds" in str(text) for text in texts)
    first, second = ([line for line in axes.lines if len(line.get_xdata()) == 3] for axes in drawn.axes)
    assert len(first) == len(second) == len(drawn.axes[0].collections) == 2
    colours = [line.get_color() for line in first]
    assert colours == [line.get_color() for line in second]
    assert colours[0] != colours[1]


def test_points_are_those_of_the_line(make_result: MakeResult) -> None:
    (axes,) = figure([make_result(0.4)]).axes
    (line,) = (line for line in axes.lines if len(line.get_xdata()) == 3)
    assert list(line.get_xdata()) == [0, 100, 200]
    assert list(line.get_ydata()) == pytest.approx([-0.4, 0.2, 0.4])
    assert axes.get_xlim() == (0, 200)
    assert axes.get_ylim()[0] <= -0.4 < 1.25 < axes.get_ylim()[1]


def test_labels_of_near_ends_are_apart_and_inside(make_result: MakeResult) -> None:
    results = [make_result(0.4 + 0.001 * at, variant=f"variant-{at}") for at in range(9)]
    (axes,) = (drawn := figure(results)).axes
    drawn.draw_without_rendering()
    labels = [text for text in axes.texts if isinstance(text, Annotation)]
    assert len(labels) == 11
    height_pt = axes.get_window_extent().height * 72 / drawn.dpi
    places = sorted(text.xyann[1] * height_pt for text in labels)
    assert min(b - a for a, b in pairwise(places)) >= 9.0, "points, the size of the letters"
    boxes = [label.get_tightbbox() for label in labels]
    assert all(box.x1 <= drawn.bbox.x1 and box.y0 >= 0 and box.y1 <= drawn.bbox.y1 for box in boxes)


def test_a_flat_line_is_not_blown_up(make_result: MakeResult) -> None:
    flat = metrics(0.0).model_copy(update={"net_ticks_per_decision": 0.0})
    result = make_result(0.002, market="martingale", metrics=flat)
    still = result.folds[0].model_copy(update={"untrained_ticks_per_decision": 0.004})
    low, high = figure([result.model_copy(update={"folds": (still,)})]).axes[0].get_ylim()
    assert low <= -0.1
    assert high >= 0.1
