"""What a person and a script read, and the exit code."""

import io
import json

import pytest

from pipelines.cli import main
from pipelines.cluster.doctor.examine import CHECKS, Finding
from pipelines.cluster.doctor.report import tell, tell_json
from pipelines.cluster.doctor.result import Result, error, ok, warning
from tests.conftest import REPOSITORY

GOOD = Finding("storage", "claims", ok("claim a is bound"))
DOUBT = Finding("storage", "claims", warning("claim b is Pending", "look"))
BAD = Finding("nodes", "pools", error("no node", "add one"))


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("findings", "code", "last"),
    [
        ([GOOD], 0, "all well: walkforward submit"),
        ([GOOD, DOUBT], 0, "1 warning: nothing here stops a run"),
        ([GOOD, BAD, BAD, DOUBT], 2, "2 errors, 1 warning"),
    ],
)
def test_the_last_line_and_the_exit_code_sum_up(findings: list[Finding], code: int, last: str) -> None:
    out = io.StringIO()
    assert tell(findings, out) == code
    assert out.getvalue().splitlines()[-1] == last
    assert tell_json(findings, io.StringIO()) == code


def test_lines_stand_under_their_group_without_colours() -> None:
    out = io.StringIO()
    tell([GOOD, DOUBT, BAD], out)
    assert out.getvalue().splitlines()[:5] == [
        "storage",
        "  ok       claim a is bound",
        "  warning  claim b is Pending -> look",
        "nodes",
        "  error    no node -> add one",
    ]


def test_a_terminal_gets_colours_and_a_second_line_for_what_does_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    out = Terminal()
    tell([DOUBT], out)
    lines = out.getvalue().splitlines()
    assert lines[1:3] == ["  \x1b[33mwarning\x1b[0m  claim b is Pending", "           -> look"]


def test_json_holds_all_that_a_person_sees() -> None:
    out = io.StringIO()
    tell_json([GOOD, DOUBT, BAD], out)
    body = json.loads(out.getvalue())
    assert (body["errors"], body["warnings"]) == (1, 1)
    assert body["findings"][1] == {
        "group": "storage",
        "check": "claims",
        "level": "warning",
        "what": "claim b is Pending",
        "do": "look",
    }


def test_the_command_without_a_cluster_is_exit_code_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ARGO_SERVER", raising=False)
    assert main(["doctor", "--kubeconfig", "/nonexistent/config", "--json"]) == 2
    body = json.loads(capsys.readouterr().out)
    assert body["findings"][-1]["what"] == "/nonexistent/config: no such file"


def test_help_shows_examples_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "walkforward doctor -n research" in text
    assert "Exit codes" in text


def test_a_bad_parameter_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "-p", "folds=none"]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.count("\n") == 1


def test_a_result_that_is_not_ok_always_says_what_to_do() -> None:
    with pytest.raises(TypeError):
        warning("only what")  # type: ignore[call-arg]
    assert ok("fine") == Result(ok("fine").level, "fine", "")


def test_the_documentation_names_every_check() -> None:
    text = (REPOSITORY / "docs" / "doctor.md").read_text(encoding="utf-8")
    names = [check.name for check in CHECKS]
    names += ["versions", "hera-command", "credentials", "server", "clock", "argo-server"]
    assert [name for name in names if f"| {name} |" not in text] == []
    assert len(names) == len(set(names))
