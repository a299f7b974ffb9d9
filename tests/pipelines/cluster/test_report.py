"""report: the gate's words, from a Workflow or from a run directory here."""

import io
from pathlib import Path

import pytest

from pipelines.cluster.report import FILES, of_directory, of_workflow, part_for, write
from pipelines.workflow import GATE_OUTPUTS
from tests.pipelines.cluster.made_workflows import NAME, MadeWorkflow, finished, pod
from tests.pipelines.cluster.memory_api import MemoryApi
from trainer.errors import InputError


def judged(code: int = 0) -> MemoryApi:
    body = finished(code)
    gate = next(node for node in body["status"]["nodes"].values() if node["name"].endswith(".gate"))
    gate["outputs"]["parameters"] = [{"name": part, "value": f"the {part}"} for part in FILES]
    return MemoryApi(body)


def test_the_parts_are_the_templates_outputs() -> None:
    assert FILES == GATE_OUTPUTS


@pytest.mark.parametrize(
    ("as_json", "output", "part"),
    [
        (False, None, "report"),
        (True, None, "summary"),
        (False, "r.txt", "report"),
        (False, "r.json", "summary"),
        (False, "r.html", "report-html"),
    ],
)
def test_the_form_follows_the_option_or_the_files_name(as_json: bool, output: str | None, part: str) -> None:
    assert part_for(as_json, Path(output) if output else None) == part


@pytest.mark.parametrize("code", [0, 3, 4])
@pytest.mark.parametrize("part", FILES)
def test_a_verdict_is_read_from_the_workflow_whatever_it_says(code: int, part: str) -> None:
    assert of_workflow(judged(code), NAME, part) == f"the {part}"


def test_a_verdict_without_its_text_says_where_the_files_are() -> None:
    with pytest.raises(
        InputError, match=r"does not hold the report; its run directory /feature-cache/.*report\.txt"
    ):
        of_workflow(MemoryApi(finished()), NAME, "report")


def test_no_verdict_yet() -> None:
    api = MemoryApi(MadeWorkflow().done("prepare").body())
    with pytest.raises(
        InputError, match="no verdict: it is running, the gate comes last; walkforward status"
    ):
        of_workflow(api, NAME, "report")


def test_no_verdict_because_a_stage_failed() -> None:
    bad = pod("Failed", begin=0, end=5, code=2, message="es.dbn: not a DBN file; check the path")
    api = MemoryApi(MadeWorkflow().stage("prepare", "Failed", bad).body("Failed"))
    with pytest.raises(InputError, match=r"no verdict: prepare failed: es.dbn: not a DBN file"):
        of_workflow(api, NAME, "report")


def test_no_verdict_of_a_stopped_run() -> None:
    killed = pod("Failed", begin=0, end=5, code=143, message="main: Error (exit code 143)")
    body = MadeWorkflow().stage("prepare", "Failed", killed).body("Failed", shutdown="Stop")
    with pytest.raises(InputError, match="no verdict: it was stopped"):
        of_workflow(MemoryApi(body), NAME, "report")


def test_one_fold_alone_has_no_verdict() -> None:
    made = MadeWorkflow(fold_idx=0).done("prepare").dag(0, "Succeeded").done("train", 0).done("evaluate", 0)
    with pytest.raises(InputError, match="no verdict: it ran one fold alone"):
        of_workflow(MemoryApi(made.body("Succeeded")), NAME, "report")


def test_a_run_directory_has_the_same_parts(tmp_path: Path) -> None:
    for part, file in FILES.items():
        (tmp_path / file).write_text(f"the {part}")
    assert [of_directory(tmp_path, part) for part in FILES] == [f"the {part}" for part in FILES]


def test_a_run_directory_without_verdict(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no verdict there; give a run directory whose gate has run"):
        of_directory(tmp_path, "report")


def test_a_run_directory_of_an_earlier_version_says_how_to_write_the_report(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text("{}")
    assert of_directory(tmp_path, "summary") == "{}"
    with pytest.raises(InputError, match="write it: python -m trainer gate --run-dir"):
        of_directory(tmp_path, "report")


def test_the_text_goes_to_stdout_or_whole_into_a_file(tmp_path: Path) -> None:
    out, file = io.StringIO(), tmp_path / "r.txt"
    write("text", None, out)
    write("text", file, out)
    assert (out.getvalue(), file.read_text()) == ("text\n", "text\n")
    assert [path.name for path in tmp_path.iterdir()] == ["r.txt"]


def test_a_file_that_cannot_be_written_is_one_line() -> None:
    with pytest.raises(InputError, match=r"/absent/r.txt: cannot write: No such file or directory"):
        write("text", Path("/absent/r.txt"), io.StringIO())
