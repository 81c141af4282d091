"""Each side runs where only its own extra is installed: the bot without torch, a GPU host without chat libraries."""

import subprocess
import sys

import pytest

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
        ("bot.app, bot.cli, bot.doctor, bot.slack.door, bot.discord.door, agent.llm.gateway", TRAINING | {"litellm"}),
        ("worker.app, worker.tasks, worker.supervisor.attempt, worker.sweep, bot.cli", CHAT),
        ("bot.cli, bot.alive", TRAINING | CHAT),
    ],
)
def test_imports_without_the_other_sides_libraries(modules: str, missing: set[str]) -> None:
    code = BLOCK.format(missing=missing, modules=modules)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout.strip() == "ok", ran.stderr
