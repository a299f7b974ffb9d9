"""Pictures of the documentation: one style, drawn by matplotlib, saved as SVG that stands alone.

No script, no font and no address from elsewhere; equal data give equal bytes. Import it only where a picture
is drawn: matplotlib takes half a second to load.
"""

import io
import math
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from trainer.errors import InputError
from trainer.learn.atomic import write_file

INK, FAINT, GRID = "#1f2937", "#6b7280", "#e5e7eb"
# Okabe and Ito's colours but for yellow: told apart also by the colour-blind.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)))  # so that more lines than colours still differ
LABEL_GAP = 1.15  # between the baselines of two labels, in heights of their letters

_STYLE = {
    "svg.fonttype": "none",  # text stays text: small, searchable, read aloud
    "svg.hashsalt": "alpha-rl",  # ids of equal pictures are equal
    "font.size": 9,
    "text.color": INK,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": FAINT,
    "axes.labelcolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "patch.linewidth": 0.0,
}
matplotlib.rcParams.update(_STYLE)  # type: ignore[arg-type]

_HEAD = re.compile(r"<\?xml.*?(?=<svg )|\s*<metadata>.*?</metadata>", re.DOTALL)
_TAG = re.compile(r"<[^!/][^>]*>")
_LONG = re.compile(r"-?\d+\.\d{3,}(?![\d.]*e)")


def drawing(width: float, height: float) -> Figure:
    """An empty figure of so many inches whose parts keep clear of each other."""
    return Figure(figsize=(width, height), layout="constrained")


def as_svg(figure: Figure, label: str) -> str:
    """The figure as one SVG element that says `label` to those who cannot see it."""
    stream = io.StringIO()
    metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(stream, format="svg", metadata=metadata)
    text = _HEAD.sub("", stream.getvalue())
    # A hundredth of a point is not seen, and the last digits of floats differ between machines.
    # In tags only: a number between them is a label, and is said in full.
    text = _TAG.sub(lambda tag: _LONG.sub(_rounded, tag[0]), text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def save_svg(path: Path, text: str, option: str) -> None:
    """Writes it whole or not at all; InputError that asks for another `option` if the path is unwritable."""
    try:
        write_file(path, [text.encode()])
    except OSError as error:
        what = f"cannot write: {error.strerror or error}"
        raise InputError(what, where=str(path), do=f"choose another {option}") from error


def style_of(index: int) -> tuple[str, object]:
    """Colour and dashes of line `index`."""
    return COLOURS[index % len(COLOURS)], DASHES[index // len(COLOURS) % len(DASHES)]


def label_ends(axes: Axes, labels: Sequence[tuple[float, str, str]]) -> None:
    """Names lines where they end: `(y, text, colour)` each, right of the axes, moved apart if they overlap.

    Call it when the limits of the axes are final; the height of the axes in points is taken from the figure.
    """
    low, high = axes.get_ylim()
    figure = axes.get_figure(root=True)
    assert isinstance(figure, Figure)
    figure.draw_without_rendering()  # only a drawn layout has sizes
    height_pt = axes.get_window_extent().height * 72 / figure.dpi
    gap = LABEL_GAP * float(matplotlib.rcParams["font.size"]) / height_pt
    ordered = sorted(labels)
    places = spread([(y - low) / (high - low) for y, _, _ in ordered], gap, 0.0, 1.0)
    for (y, text, colour), place in zip(ordered, places, strict=True):
        axes.annotate(
            text, ((1.0, (y - low) / (high - low))), (1.03, place),
            xycoords="axes fraction", textcoords="axes fraction", color=colour, va="center",
            arrowprops={
                "arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0,
                "relpos": (0.0, 0.5),  # to the front of the text, not through it
            },
            annotation_clip=False,
        )  # fmt: skip


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places `gap` or more apart, in the order of `wanted` (rising) and as near to it as that allows.

    Least squares by pooling adjacent violators, then moved between `low` and `high` if they fit.
    """
    pools: list[list[float]] = []  # of wanted places, each less the room that those before it need
    for at, want in enumerate(wanted):
        pools.append([want - at * gap])
        while len(pools) > 1 and _mean(pools[-2]) > _mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    level = [_mean(pool) for pool in pools for _ in pool]
    room = high - gap * (len(level) - 1)
    return [max(low, min(value, room)) + at * gap for at, value in enumerate(level)]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
