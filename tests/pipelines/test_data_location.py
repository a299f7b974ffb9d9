"""An s3:// URL on its way from the command line to the trainer's command, here and in Argo."""

from pathlib import Path

import cappa
import pytest
import yaml

from pipelines.commands.run import Run
from pipelines.launch import config_of, option_values
from pipelines.parameters import parameters_of
from pipelines.plan import PREPARE, STAGES
from pipelines.render import render
from pipelines.settings import ChartValues
from trainer.errors import InputError

URL = "s3://bucket/a//b/es 2024.dbn.zst"


def test_a_url_reaches_the_trainers_command_as_it_was_typed() -> None:
    run = cappa.parse(Run, argv=["--data", URL, "--trades-data-dir", "s3://bucket/t"], backend=cappa.backend)
    options = Run(mbp10_data_dir=run.mbp10_data_dir, trades_data_dir=run.trades_data_dir)
    config = config_of(options)
    assert (config.run.mbp10_data_dir, config.run.trades_data_dir) == (URL, "s3://bucket/t")
    words = PREPARE.argv({"run-dir": "r", **option_values(options)})
    assert words[-4:] == ["--mbp10-data-dir", URL, "--trades-data-dir", "s3://bucket/t"]


def test_a_path_is_still_made_absolute() -> None:
    run = cappa.parse(Run, argv=["--data", "es//x.dbn"], backend=cappa.backend)
    assert run.mbp10_data_dir == Path("es/x.dbn")
    values = option_values(Run(mbp10_data_dir=run.mbp10_data_dir))
    assert values["mbp10-data-dir"] == str(Path("es/x.dbn").resolve())


def sent(*pairs: str) -> dict[str, str]:
    """Parameters of a workflow with these."""
    body = yaml.safe_load(render(ChartValues(), parameters_of(list(pairs))))
    return {item["name"]: item["value"] for item in body["spec"]["arguments"]["parameters"]}


def test_a_url_is_a_workflows_parameter_as_it_was_typed() -> None:
    assert sent(f"mbp10-data-dir={URL}")["mbp10-data-dir"] == URL


def test_a_url_with_a_password_is_refused_before_it_is_in_a_workflow() -> None:
    with pytest.raises(InputError) as refused:
        parameters_of(["trades-data-dir=s3://AKID:secret@bucket/t"])
    assert str(refused.value).startswith("parameters: trades_data_dir: an s3:// URL holds no credentials")
    assert "secret" not in str(refused.value)


def test_the_mirror_reaches_every_stage_as_it_was_typed() -> None:
    run = cappa.parse(
        Run, argv=["--market", "planted", "--mirror", "s3://bucket/r//x"], backend=cappa.backend
    )
    values = option_values(Run(market=run.market, mirror=run.mirror))
    for stage in STAGES:
        words = stage.argv({"run-dir": "r", "fold-idx": "0", **values})
        assert words[words.index("--mirror") + 1] == "s3://bucket/r//x"


def test_without_a_mirror_no_stage_names_one() -> None:
    values = option_values(Run(market="planted"))
    assert all("--mirror" not in stage.argv({"run-dir": "r", "fold-idx": "0", **values}) for stage in STAGES)


def test_every_stage_of_a_workflow_takes_the_mirror_from_its_parameter() -> None:
    for template in yaml.safe_load(render(ChartValues()))["spec"]["templates"]:
        if template["name"] in [stage.name for stage in STAGES]:
            words = template["container"]["args"]
            assert words[words.index("--mirror") + 1] == "{{workflow.parameters.mirror}}"
    assert sent("mirror=s3://bucket/r/")["mirror"] == "s3://bucket/r"


@pytest.mark.parametrize("given", ["s3://AKID:secret@bucket/t", "/a/path"])
def test_a_mirror_that_is_no_url_is_refused_before_it_is_in_a_workflow_or_a_run(given: str) -> None:
    with pytest.raises(InputError, match="parameters: mirror: ") as in_workflow:
        parameters_of([f"mirror={given}"])
    with pytest.raises(InputError, match=r"--mirror: .*; give s3://bucket/prefix") as here:
        config_of(Run(market="planted", mirror=given))
    assert "secret" not in f"{in_workflow.value}{here.value}"
