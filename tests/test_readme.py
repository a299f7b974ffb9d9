"""What the README tells people to type or write is accepted by the programs it names."""

import re
import shlex
from pathlib import Path

import cappa
import pytest
import yaml

from pipelines.cli import Walkforward
from pipelines.commands.submit import HeraSubmit
from trainer.cli import Trainer
from trainer.options import overlaid
from trainer.presets import default

# Other programs' commands; what they need of us is tested with the Makefile and the chart.
OTHERS = ("make ", "helm ")
README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands() -> list[list[str]]:
    lines = [line for block in blocks("console") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line and not line.startswith(OTHERS)]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_of_the_readme_parses(words: list[str]) -> None:
    if words[0] == "hera":
        assert words[1:3] == ["submit", "walkforward"]
        cappa.parse(HeraSubmit, argv=words[2:], backend=cappa.backend)
    elif words[0].endswith("walkforward"):
        cappa.parse(Walkforward, argv=words[1:], backend=cappa.backend)
    else:
        assert words[:3] == ["python", "-m", "trainer"]
        cappa.parse(Trainer, argv=words[3:], backend=cappa.backend)


def test_the_readme_shows_every_stage_and_both_markets() -> None:
    typed = " ".join(" ".join(words) for words in commands())
    for expected in (
        "trainer prepare",
        "trainer train",
        "trainer evaluate",
        "trainer gate",
        "martingale",
        "--data",
    ):
        assert expected in typed


def test_the_config_example_of_the_readme_is_a_valid_config() -> None:
    (example,) = blocks("yaml")
    config = overlaid(default(), yaml.safe_load(example), "README.md")
    assert config.data.decision_ms == 500
    assert config.market.latency_ns == 2_000_000
