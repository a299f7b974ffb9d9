"""Pictures stand alone, are the same for the same data, and their labels do not overlap."""

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from benchmarks.picture import as_svg, drawing, save_svg, spread
from trainer.errors import InputError


def drawn() -> Figure:
    figure = drawing(4.0, 3.0)
    axes = figure.subplots()
    axes.plot([0, 1, 2], [0.1234567, 1e-7, 2.0], marker="^", label="a<b")
    axes.fill_between([0, 1, 2], 0, 1, alpha=0.25)
    axes.legend()
    return figure


def test_equal_data_give_equal_bytes() -> None:
    assert as_svg(drawn(), "x") == as_svg(drawn(), "x")


def test_it_stands_alone_and_says_what_it_is() -> None:
    text = as_svg(drawn(), 'two "lines" & more')
    root = ElementTree.fromstring(text)
    assert root.get("aria-label") == 'two "lines" & more'
    assert "<script" not in text
    addresses = re.findall(r'[\w:]*="[^"]*//[^"]*"', text)
    assert {address.split("=")[0] for address in addresses} == {"xmlns", "xmlns:xlink"}, "names, not links"
    links = [value for node in root.iter() for name, value in node.items() if name.endswith("href")]
    assert links
    assert all(link.startswith("#") for link in links)
    assert "a<b" in [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]


def test_coordinates_have_two_places_and_labels_all_of_theirs() -> None:
    figure = drawn()
    figure.axes[0].set_xlim(0.0, 0.1)
    figure.axes[0].set_xticks([0.0, 0.025, 0.0625])
    text = re.sub(r"<style.*?</style>", "", as_svg(figure, "x"))
    tags = "".join(re.findall(r"<[^!/][^>]*>", text))
    assert re.search(r"\d\.\d{2}\b", tags)
    assert not re.search(r"\d\.\d{3}", tags)
    labels = {
        str(node.text) for node in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}text")
    }
    assert {"0.0000", "0.0250", "0.0625"} <= labels


def test_an_unwritable_path_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write: No such file or directory; choose another --svg"):
        save_svg(tmp_path / "absent" / "a.svg", "", "--svg")


@given(st.lists(st.floats(0, 300), min_size=1, max_size=12).map(sorted))
def test_spread_labels_keep_order_distance_and_bounds(wanted: list[float]) -> None:
    places = spread(wanted, 15.0, 0.0, 300.0)
    assert all(b - a >= 15.0 - 1e-6 for a, b in pairwise(places))
    assert places[0] >= -1e-6
    assert places[-1] <= 300.0 + 1e-6
    if all(b - a >= 15.0 for a, b in pairwise(wanted)):
        assert places == pytest.approx(wanted)
