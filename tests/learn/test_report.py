"""The verdict as files: the same words as the terminal's, and a page that needs nothing beside it."""

import re
from html.parser import HTMLParser
from pathlib import Path

from rich.table import Table
from rich.text import Text

from trainer.learn.report import REPORT_HTML, REPORT_TEXT, write_reports


class Page(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def shown() -> Table:
    table = Table(title="<b>")
    table.add_column("fold")
    table.add_row(Text("1.0 ✓", style="green"))
    return table


def test_both_files_say_what_the_terminal_says(tmp_path: Path) -> None:
    write_reports(tmp_path, shown(), "Walk-forward run demo")
    text, page = (tmp_path / REPORT_TEXT).read_text(), Page((tmp_path / REPORT_HTML).read_text())
    assert "<b>" in text
    assert "1.0 ✓" in text
    assert " ".join(text.split()) in " ".join(page.text.split())


def test_the_page_stands_alone_without_script_picture_or_address(tmp_path: Path) -> None:
    write_reports(tmp_path, shown(), "t")
    html = (tmp_path / REPORT_HTML).read_text()
    page = Page(html)
    assert set(page.tags) <= {"html", "head", "meta", "title", "style", "body", "h1", "pre", "span"}
    assert set(page.attributes) <= {"lang", "charset", "style"}
    assert re.search(r"https?:|url\(", html) is None


def test_a_title_of_any_characters_stays_text(tmp_path: Path) -> None:
    write_reports(tmp_path, shown(), "<script> {code} {x}")
    page = Page((tmp_path / REPORT_HTML).read_text())
    assert page.text.count("<script> {code} {x}") == 2
    assert "script" not in page.tags
