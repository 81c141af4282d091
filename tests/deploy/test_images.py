"""The images: what goes in, who runs it, and how it is asked for its health."""

import importlib.util
import json
import tomllib

import pytest

from tests.deploy.files import DEPLOY, IMAGES, ROOT, copied, extras, instructions

BOTH = pytest.mark.parametrize("dockerfile", IMAGES.values(), ids=lambda path: path.name)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@BOTH
def test_every_source_is_there_and_let_in(dockerfile):
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}

    assert copied(dockerfile)
    for source in copied(dockerfile):
        assert (ROOT / source).exists(), source
        assert source in let_in


def test_no_secret_can_get_into_an_image():
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]

    assert lines[0] == "*"
    assert not [line for line in lines if line.startswith("!.")]


@BOTH
def test_it_runs_as_a_user_of_its_own_behind_an_init(dockerfile):
    found = instructions(dockerfile)
    words = [word for word, _ in found]
    last_run = len(words) - 1 - words[::-1].index("RUN")

    assert [rest for word, rest in found if word == "USER"] == ["trainyard"]
    assert words.index("USER") > last_run
    assert dict(found)["ENTRYPOINT"] == '["tini", "--"]'
    assert "tini" in next(rest for word, rest in found if word == "RUN")


@BOTH
def test_its_commands_exist(dockerfile):
    found = dict(instructions(dockerfile))
    check = json.loads(found["HEALTHCHECK"].partition("CMD ")[2])
    command = json.loads(found["CMD"])

    assert check[:2] == ["python", "-m"]
    assert importlib.util.find_spec(check[2]) is not None
    if command[0] == "python":
        assert importlib.util.find_spec(command[2]) is not None
    else:
        assert command[0] in PROJECT["scripts"]
    assert importlib.util.find_spec(check[2]).origin.startswith(tuple(str(ROOT / name) for name in copied(dockerfile)))


@BOTH
def test_both_pin_what_they_install_to_the_lock(dockerfile):
    installs = [rest for word, rest in instructions(dockerfile) if word == "RUN" and "pip install" in rest]

    assert all("-c requirements.lock" in line or "--no-deps" in line for line in installs)
    assert extras(dockerfile) <= set(PROJECT["optional-dependencies"])


def test_the_bot_has_no_training_libraries_and_the_worker_no_chat():
    assert extras(DEPLOY / "bot.Dockerfile") == {"bot", "llm", "postgres"}
    assert extras(DEPLOY / "worker.Dockerfile") == {"worker"}
    assert "bot" not in copied(DEPLOY / "worker.Dockerfile")


def test_the_worker_has_its_sandbox():
    installed = next(rest for word, rest in instructions(DEPLOY / "worker.Dockerfile") if word == "RUN")

    assert "bubblewrap" in installed.split()
