"""The command line as it is typed: version, help, examples."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent.domain.errors import BadRequest
from bot.cli import app
from bot.demo import story_of

COMMANDS = ("chat", "up", "bot", "worker", "doctor", "replay", "chart", "demo", "manifest")


def said(*words: str) -> str:
    argv = [sys.executable, "-c", "from bot.start import main; main()", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_version_is_that_of_the_package() -> None:
    assert said("--version").split() == ["trainyard", importlib.metadata.version("trainyard")]


def test_the_help_names_every_command() -> None:
    whole = said("--help")
    assert "trainyard[worker]" in whole
    assert all(f" {command} " in whole for command in COMMANDS)


@pytest.mark.parametrize(
    ("task", "words"),
    [("foo", "`foo` is no task type; these are: "), ("regression", "may be tabular_regression or image_regression.")],
)
def test_an_example_of_no_task_type_or_of_several_names_them(task: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest) as raised:
        story_of(task, tmp_path)
    assert words in raised.value.text
    assert raised.value.text.endswith(" Say one of them.")


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_an_example(command: str) -> None:
    example = CliRunner().invoke(app, [command, "--help"]).stdout.rpartition("Example: ")[2]
    assert f"trainyard {command}" in example
