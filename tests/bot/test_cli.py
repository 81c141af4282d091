"""The command line as it is typed: version, help, examples."""

import importlib.metadata
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from bot.cli import app

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


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_an_example(command: str) -> None:
    example = CliRunner().invoke(app, [command, "--help"]).stdout.rpartition("Example: ")[2]
    assert f"trainyard {command}" in example
