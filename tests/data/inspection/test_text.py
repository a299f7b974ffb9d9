"""What a person reads: within 80 columns, lists cut, problems whole; and the page that documents it."""

import io
import re
import typing
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from databento_dbn import SType
from rich.console import Console

from tests.data import conftest as made
from trainer.config import Config
from trainer.data.inspection.faults import FAULTS
from trainer.data.inspection.inspector import inspect_data
from trainer.data.inspection.report import Problem, Report
from trainer.data.inspection.sentences import share_text
from trainer.data.inspection.text import MEANINGS, print_report
from trainer.data.rows import REASONS
from trainer.presets import default

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "data-inspect.md").read_text(encoding="utf-8")
SMALL = Config().replaced(data={"decision_rows": 4, "window_rows": 8, "horizons": (1, 2, 4), "folds": 1})


def text_of(report: Report, **console: Any) -> str:
    stream = io.StringIO()
    print_report(report, Console(file=stream, **{"width": 80, "highlight": False, **console}))
    return stream.getvalue()


@pytest.fixture
def crowded(tmp_path: Path) -> Report:
    """A report in which every list is long: files, ids, sessions, gaps, problems."""
    day_ns = 86_400 * 10**9
    for day in (*range(4), *range(6, 11), *range(13, 16)):
        records = made._records(600, start_ns=made.OPEN_NS + day * day_ns, seed=day)
        records["ts_recv"] += (np.arange(600) // 200 * 10**11).astype(np.uint64)
        records["instrument_id"] = 1000 + day
        records["bid_px_00"][day] += 1
        made._write(tmp_path / f"glbx-mdp3-202401{day:02d}.mbp-10.dbn.zst", made._encode(records))
    return inspect_data(SMALL, tmp_path)


def test_the_text_fits_80_columns_and_problems_are_whole_lines(crowded: Report) -> None:
    text = text_of(crowded)
    lines = text.splitlines()
    problems = [line for line in lines if line.startswith(("✗ error: ", "! warning: "))]
    assert problems == [
        f"{'✗' if one.severity == 'error' else '!'} {one.severity}: {one}" for one in crowded.problems
    ]
    assert [line for line in lines if len(line) > 80 and line not in problems] == []
    assert [line for line in lines if line != line.rstrip()] == []
    assert "\x1b" not in text
    names = [file.name for file in crowded.files]
    assert all(name in text for name in names[:10]), "names of the vendor's length are not broken"


def test_long_lists_are_cut_and_the_json_has_them_whole(crowded: Report) -> None:
    text = text_of(crowded)
    assert crowded.rows is not None
    assert (len(crowded.files), len(crowded.rows.sessions), len(crowded.rows.gaps)) == (12, 12, 24)
    body = crowded.as_json()
    assert (len(body["files"]), len(body["instrument_ids"]), len(body["rows"]["gaps"])) == (12, 12, 24)
    assert "all 12 files" in text
    assert "Sessions, the 10 least covered of 12 (America/Chicago time)" in text
    assert text.count("\n  and 2 more\n") == 1, "of the ids"
    assert text.count("\n  and 14 more\n") == 1, "of the gaps"
    assert "id 1000, 1001, 1002, 1003, 1006, 1007 and 6 more" in text


def test_many_problems_are_cut_too(crowded: Report) -> None:
    many = tuple(Problem("error", f"number {k}", "here", "go") for k in range(33))
    text = text_of(replace(crowded, problems=many))
    assert "(33 errors, below)" in text
    assert text.endswith("✗ error: here: number 19; go\nand 13 more\n")


def test_every_reason_and_every_fault_is_explained(crowded: Report) -> None:
    assert set(MEANINGS) == set(REASONS)
    assert crowded.rows is not None
    every = replace(crowded.rows, skipped=dict.fromkeys(REASONS, 1), refused=dict.fromkeys(FAULTS, 1))
    words = " ".join(text_of(replace(crowded, rows=every)).split())
    for name, meaning in {**MEANINGS, **{kind: f"refused: {what}" for kind, what in FAULTS.items()}}.items():
        assert name in words
        assert meaning in words


def test_the_headline_says_whether_it_is_usable_without_colour(crowded: Report) -> None:
    assert text_of(crowded).startswith("✗ prepare refuses this data (1 error, 1 warning, below)\n")
    fine = replace(crowded, problems=())
    assert text_of(fine).startswith("✓ prepare takes this data\n")
    two = (Problem("warning", "a", "b", "c"), Problem("warning", "a", "", ""))
    text = text_of(replace(crowded, problems=two))
    assert text.startswith("✓ prepare takes this data (2 warnings, below)\n")


def test_a_terminal_gets_colour_unless_it_is_unwanted(
    crowded: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b[1;31m" in text_of(crowded, force_terminal=True, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1;31m" not in text_of(crowded, force_terminal=True)


def test_markup_in_a_name_is_text(tmp_path: Path) -> None:
    source = made._write(tmp_path / "[bold]es[x].dbn", made._encode(made._records(9)))
    assert text_of(inspect_data(SMALL, source)).count("[bold]es[x].dbn") == 2


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0 %"), (1.0, "100 %"), (1e-9, "<0.1 %"), (0.99999, ">99.9 %"), (0.5, "50.0 %"), (0.001, "0.1 %")],
)
def test_a_share_never_looks_like_nothing_or_everything_unless_it_is(share: float, text: str) -> None:
    assert share_text(share) == text


def test_the_page_shows_the_output_of_the_command(shared_data: Path) -> None:
    """Rewritten by pasting what the command prints."""
    ((name, shown),) = re.findall(r"<!-- output: (\S+) -->\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert shown == text_of(inspect_data(default(), shared_data / name))


def keys(kind: Any, prefix: str = "") -> set[str]:
    """Every key of a dataclass and of those inside it, `rows.gaps[].seconds`."""
    found: set[str] = set()
    for name, hint in typing.get_type_hints(kind).items():
        if name not in {field.name for field in fields(kind)}:
            continue
        inner = [part for part in (hint, *typing.get_args(hint)) if is_dataclass(part)]
        many = "[]" if typing.get_origin(hint) is tuple and inner else ""
        found |= keys(inner[0], f"{prefix}{name}{many}.") if inner else {prefix + name}
    return found


def test_the_page_documents_every_key() -> None:
    documented: set[str] = set()
    for key, meaning in re.findall(r"^\| `([\w.\[\]]+)` \| (.*) \|$", PAGE.split("## JSON")[1], re.MULTILINE):
        inside = re.findall(r"`(\w+)`", meaning)
        documented |= {f"{key}.{name}" for name in inside} or {key}
    assert documented == keys(Report) | {"report_version", "usable"}


def test_several_instruments_are_a_table_and_no_judgement(tmp_path: Path) -> None:
    records = made._records(900)
    records["instrument_id"][::3] = 9
    source = made._write(tmp_path / "es.dbn", made._encode(records, symbols=("ES.FUT",), stype=SType.PARENT))
    text = text_of(inspect_data(SMALL.replaced(data={"instrument": "ES"}), source))
    assert "Instrument   ES (as given), rows are not judged\n" in text
    assert re.search(r"^ +7  – +600 +600  \d+\.\d\d  \d+\.\d\d  0\.25$", text, re.MULTILINE)
    assert "Valid rows" not in text
    chosen = SMALL.replaced(data={"instrument": "ES", "instrument_id": 9})
    assert "Instrument   ES (as given), id 9 of 2\n" in text_of(inspect_data(chosen, source))
