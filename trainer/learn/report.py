"""The verdict for people who have only the run directory: `report.txt` and `report.html`.

The HTML page stands alone, without script, picture or address, as Argo's artifact viewer demands.
"""

import html
import io
from pathlib import Path

from rich.console import Console, RenderableType

from trainer.learn.atomic import write_file

REPORT_TEXT, REPORT_HTML = "report.txt", "report.html"
WIDTH = 100
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ color: #1f2328; background: #ffffff; margin: 2em; }}
pre {{ font-family: Menlo, "DejaVu Sans Mono", Consolas, monospace; line-height: 1.25; }}
</style>
</head>
<body>
<h1>{title}</h1>
<pre>{code}</pre>
</body>
</html>
"""


def write_reports(run_dir: Path, shown: RenderableType, title: str) -> None:
    """Write what the terminal shows as text and as a page; each appears whole. Raises OSError."""
    console = Console(file=io.StringIO(), record=True, width=WIDTH)
    console.print(shown)
    text = console.export_text(clear=False)
    # rich fills in {code} by str.format: braces of the title are doubled.
    heading = html.escape(title).replace("{", "{{").replace("}", "}}")
    page = console.export_html(code_format=PAGE.replace("{title}", heading), inline_styles=True)
    for name, content in ((REPORT_TEXT, text), (REPORT_HTML, page)):
        write_file(run_dir / name, [content.encode()], num_bytes=len(content.encode()))
