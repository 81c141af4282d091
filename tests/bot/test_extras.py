"""Each side runs where only its own extra is installed: the bot without torch, a GPU host without chat libraries."""

import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]

BLOCK = """
import importlib.abc, sys
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
import {modules}
print("ok")
"""
TRAINING = {"torch", "transformers", "lightgbm", "sklearn", "pandas", "skops", "safetensors", "tokenizers", "pynvml"}
CHAT = {"slack_bolt", "slack_sdk", "discord", "sqlalchemy", "alembic", "matplotlib", "PIL", "aiohttp", "litellm", "mcp"}


@pytest.mark.parametrize(
    ("modules", "missing"),
    [
        (
            "bot.app, bot.cli, bot.doctor, bot.slack.adapter, bot.discord.adapter, agent.llm.gateway",
            TRAINING | {"litellm"},
        ),
        ("worker.app, worker.tasks, worker.supervisor.attempt, worker.launches.sweep, bot.cli", CHAT),
        ("bot.cli, bot.alive", TRAINING | CHAT),
    ],
)
def test_imports_without_the_other_sides_libraries(modules: str, missing: set[str]) -> None:
    code = BLOCK.format(missing=missing, modules=modules)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout.strip() == "ok", ran.stderr


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with our packages and no extra."""
    place = tmp_path_factory.mktemp("bare")
    venv.create(place, symlinks=True)
    next(place.glob("lib/*/site-packages")).joinpath("ours.pth").write_text(str(REPO))
    return place / "bin" / "python"


def told(python: Path, code: str, *words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    env = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [python, "-c", code, *words]
    return subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_without_extras_there_is_what_scripts_import(bare: Path, tmp_path: Path) -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    assert project["dependencies"] == []
    code = "import trainyard\nrt = trainyard.TrainingRuntime()\nrt.start('m')\nrt.log_metrics(1, loss=1)\nrt.finish()"
    ran = told(bare, code, cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert (tmp_path / "metrics.jsonl").read_text().count("loss") == 1


@pytest.mark.parametrize(
    ("command", "extra"), [("chart", "bot"), ("up", "bot"), ("doctor", "bot"), ("worker", "worker"), ("--help", "bot")]
)
def test_the_command_line_names_the_extra_that_it_lacks(bare: Path, tmp_path: Path, command: str, extra: str) -> None:
    ran = told(bare, "from bot.start import main; main()", command, cwd=tmp_path)
    sentence = f"trainyard: this needs the extra `{extra}`: `pip install 'trainyard[{extra}]'`.\n"
    assert (ran.returncode, ran.stderr) == (1, sentence)


def test_a_chart_needs_the_bot_and_not_the_worker(tmp_path: Path) -> None:
    hidden = "import importlib.util as u; real = u.find_spec; u.find_spec = lambda n: n != {!r} and real(n) or None"
    for missing, code in (("matplotlib", 1), ("torch", 2)):  # 2: of a wrong word, said by the command line itself
        program = f"{hidden.format(missing)}\nfrom bot.start import main\nmain()"
        ran = told(Path(sys.executable), program, "chart", "--no-such", cwd=tmp_path)
        assert (ran.returncode, "extra `bot`" in ran.stderr) == (code, code == 1), ran.stderr
