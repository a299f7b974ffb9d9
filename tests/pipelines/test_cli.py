"""The command `walkforward`: help, exit codes, one error line, nothing heavy at start."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cappa
import pytest
import yaml

from pipelines.cli import Walkforward, main
from pipelines.commands.submit import HeraSubmit
from pipelines.golden import GOLDEN_DIR
from trainer.cli import Trainer

REPOSITORY = GOLDEN_DIR.parents[1]


def loaded_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return {name.split(".")[0] for name in done.stdout.split()}


def test_importing_every_module_of_pipelines_loads_no_torch() -> None:
    names = [path.stem for path in (REPOSITORY / "pipelines").glob("*.py") if path.stem != "__main__"]
    modules = loaded_after("\n".join(f"import pipelines.{name}" for name in names))
    assert "hera" in modules  # the check sees what was loaded
    assert "torch" not in modules


def test_the_command_starts_without_hera_torch_or_the_trainers_data_libraries() -> None:
    modules = loaded_after("import pipelines.cli, pipelines.launch")
    assert modules & {"hera", "torch", "numpy", "pandas", "requests"} == set()


@pytest.mark.parametrize("words", [[], ["run"], ["render"], ["lint"]])
def test_help_ends_well_and_shows_an_example(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    assert "walkforward " + (words[0] if words else "run") in capsys.readouterr().out


def texts(command: Any) -> Iterator[str]:
    """Descriptions and helps of a command and all below it."""
    yield command.description or ""
    for argument in command.all_arguments:
        yield getattr(argument, "help", "") or ""
        for below in getattr(argument, "options", {}).values():
            yield from texts(below)


@pytest.mark.parametrize("command", [Walkforward, Trainer, HeraSubmit])
def test_no_help_holds_what_its_renderer_swallows(command: type) -> None:
    """Help is rendered as Markdown, which shows nothing of `<run-id>`."""
    found = list(texts(cappa.collect(command)))
    assert len(found) > 20
    assert [text for text in found if "<" in text] == []


@pytest.mark.parametrize(
    "words", [["fly"], ["run", "--market", "moon"], ["run", "--folds", "x"], ["run", "--nope"]]
)
def test_bad_usage_is_exit_code_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert capsys.readouterr().err


def test_an_error_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run"]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.startswith("walkforward: options: no data to train on; give --data")
    assert streams.err.count("\n") == 1


def test_debug_adds_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_render_writes_the_template_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render"]) == 0
    golden = yaml.safe_load((GOLDEN_DIR / "walkforward.yaml").read_text())
    assert yaml.safe_load(capsys.readouterr().out) == golden


def test_render_writes_a_workflow_to_a_file(tmp_path: Path) -> None:
    file = tmp_path / "workflow.yaml"
    words = [
        "render",
        "--workflow",
        "-o",
        str(file),
        "-p",
        "folds=5",
        "-p",
        "market=planted",
        "-p",
        "run-id=abc-1",
    ]
    assert main(words) == 0
    assert yaml.safe_load(file.read_text()) == yaml.safe_load((GOLDEN_DIR / "workflow.yaml").read_text())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["render", "-p", "folds=5"], "-p belongs to a Workflow; add --workflow"),
        (["render", "--workflow", "-p", "fold=5"], "unknown parameter fold"),
        (["render", "-o", "/absent/x.yaml"], "/absent/x.yaml: cannot write"),
        (["render", "--values", "/absent.yaml"], "/absent.yaml: cannot read"),
        (["lint", "/absent.yaml"], "/absent.yaml: cannot read"),
    ],
)
def test_render_and_lint_errors_say_what_to_do(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_lint_prints_findings_and_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text("kind: Pod\n")
    assert main(["lint", str(file)]) == 2
    assert capsys.readouterr().out == (
        f"{file}: kind: schema: not an Argo document: Pod; "
        "use one of Workflow, WorkflowTemplate, ClusterWorkflowTemplate, CronWorkflow\n"
    )


def test_lint_of_the_rendered_template_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint"]) == 0
    assert capsys.readouterr().out == ""


def test_render_for_a_namespace_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "-n", "quant"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["metadata"]["namespace"] == "quant"


def test_a_values_file_that_is_no_mapping_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("- image\n")
    assert main(["render", "--values", str(file)]) == 2
    assert f"{file}: not a mapping of values; write name: value lines" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["run", "--folds"], ["submit", "--n-steps"], ["logs", "@latest", "--tail"]]
)
def test_a_word_that_is_no_number_is_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "x"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"Error: Invalid value for '{words[-1]}': 'x' is no whole number\n"
