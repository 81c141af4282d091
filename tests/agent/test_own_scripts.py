"""Programs of somebody's own: planned exactly, shown before they run, cloned and updated like any run."""

import io
import json
import zipfile
from pathlib import Path

import pytest

from agent.commands.registry import command_of
from agent.domain.content import Card
from agent.domain.errors import AppError, BadData, BadRequest
from agent.domain.inbound import Attachment
from agent.domain.runs import JobKind, Outcome, RunState
from agent.llm.offline import OfflinePlanner
from agent.ports import AttachedFile, ModelMessage, ModelReply, Role, ToolCall
from agent.runs.cards.run_cards import result_card, run_card
from agent.tools.dispatch import NeedsApproval
from agent.tools.tool import Caller, Result
from agent.tools.training.command_lines import arguments_of, with_options
from agent.tools.training.programs import entry_of, environment_in, files_of, requirements_in
from tests.agent.conftest import Harness
from tests.agent.stage import Stage, rows
from tests.agent.test_changing import card_of, facts, table
from tests.fakes import ALICE, START, THREAD, clicked, said

PROGRAM = "import sys\nprint('hello', sys.argv[1:])\n"


def attach(folder: Path, **files: str) -> tuple[Attachment, ...]:
    found = []
    for key, text in files.items():
        path = folder / key.replace("__", ".")
        path.write_text(text)
        found.append(Attachment(id=path.name, name=path.name, size_bytes=len(text), locator=str(path)))
    return tuple(found)


def zipped(path: Path, **files: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


async def test_an_attached_program_runs_after_it_was_shown_and_approved(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        files = attach(harness.folder, train__py=PROGRAM, points__csv="a,b\n1,2\n", requirements__txt="tiny>=1\n")
        await brain.router.accept(said("run train.py on it for 4 hours --lr 0.1 --deep", files=files))
        asked = await stage.asked()
        card = card_of(asked)
        assert card.title == "Run train.py?"
        assert card.log == tuple(PROGRAM.splitlines())
        shown = facts(asked)
        assert shown["Data"] == "points.csv"
        assert shown["Arguments"] == "--lr 0.1 --deep"
        assert shown["Requirements"].startswith("tiny>=1; ")
        assert shown["Cost"] == "stops at 4 h 00 min"
        assert {"Host", "Network", "Sandbox", "If it fails"} <= shown.keys()
        assert "Test part" not in shown
        await brain.router.accept(clicked(card.buttons[0]))
        await harness.until(lambda: bool(harness.fleet.launched))
        (order,) = harness.fleet.launched
        script = order.spec.script
        assert script is not None
        assert (order.spec.job, order.spec.task, order.spec.max_hours) == (JobKind.SCRIPT, None, 4.0)
        assert (script.entry, script.arguments, script.requirements) == (
            "train.py", ("--lr", "0.1", "--deep"), ("tiny>=1",),
        )  # fmt: skip
        assert [file.name for file in script.data] == ["points.csv"]
        run = await stage.says(await brain.stores.runs.get(order.run), rows(1, 2, loss=0.5))
        drawn = run_card(run, [], [], None, now=START)
        assert drawn.title == f"{run.id} · train.py from points.csv"
        assert drawn.footer.startswith("own script on ")
        ended = run.model_copy(update={"state": RunState.SUCCEEDED, "outcome": Outcome(state=RunState.SUCCEEDED)})
        result = result_card(ended)
        assert "sealed test rows" not in result.body
        assert (await stage.asks("status")).card is not None
        assert (await stage.asks("chart")).card is not None
        assert "train.py" in card_of(await stage.asks("script")).title
        assert "train.py" in str(card_of(await stage.asks("runs")).table)
        assert "has written no log yet" in (await stage.asks("logs")).text


async def test_the_next_card_shows_what_changed(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        await brain.router.accept(said("run it", files=attach(harness.folder, train__py=PROGRAM)))
        await brain.router.accept(clicked(card_of(await stage.asked()).buttons[0]))
        await harness.until(lambda: bool(harness.fleet.launched))
        first = harness.fleet.launched[0].run
        changed = PROGRAM.replace("hello", "goodbye")
        await brain.router.accept(said("start train.py hours=2 --n 3", files=attach(harness.folder, train__py=changed)))
        await harness.until(lambda: any("What changed" in card.body for card in cards(harness)))
        card = cards(harness)[-1]
        assert f"What changed since `{first}`: 1 line added, 1 removed." in card.body
        assert "+print('goodbye', sys.argv[1:])" in card.log


async def test_a_clone_takes_other_arguments_and_no_settings(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        await brain.router.accept(said("run it --lr 0.1", files=attach(harness.folder, train__py=PROGRAM)))
        await brain.router.accept(clicked(card_of(await stage.asked()).buttons[0]))
        await harness.until(lambda: bool(harness.fleet.launched))
        run = harness.fleet.launched[0].run
        assert "has no option for `seeds`; its options are" in await stage.tells(f"clone {run} seeds=2")
        await brain.router.accept(said(f'clone {run} args="--lr 0.2" hours=3'))
        await harness.until(lambda: any(card.title.startswith("Train ") for card in cards(harness)))
        asked = harness.adapter.shown[-1]
        assert table(asked)["arguments"] == ("--lr, 0.1", "--lr, 0.2")
        assert facts(asked)["Arguments"] == "--lr 0.2"


BEFORE = ("data", "--lr", "0.1", "--layers", "64", "32", "-e=3", "--fast")


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("--lr -2", "data --lr -2 --layers 64 32 -e=3 --fast"),
        ("--layers 8 -e 5", "data --lr 0.1 --layers 8 -e 5 --fast"),
        ("--slow", "data --lr 0.1 --layers 64 32 -e=3 --fast --slow"),
        ("other --lr 1", "other --lr 1"),
        ("-- --lr 1", "--lr 1"),
        ("", ""),
    ],
)
def test_options_that_are_given_replace_those_of_their_name(line: str, after: str) -> None:
    assert with_options(BEFORE, arguments_of(line)) == arguments_of(after)


async def test_a_setting_is_the_option_that_the_program_had(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        files = attach(harness.folder, train__py=PROGRAM)
        await brain.router.accept(said("run it --lr 0.1 --epochs 3", files=files))
        await brain.router.accept(clicked(card_of(await stage.asked()).buttons[0]))
        await harness.until(lambda: bool(harness.fleet.launched))
        await brain.router.accept(said(f"clone {harness.fleet.launched[0].run} lr=0.2"))
        await harness.until(lambda: any(card.title.startswith("Train ") for card in cards(harness)))
        assert facts(harness.adapter.shown[-1])["Arguments"] == "--lr 0.2 --epochs 3"


async def test_settings_in_words_become_options_that_the_program_has(harness: Harness) -> None:
    program = 'import argparse\np = argparse.ArgumentParser()\np.add_argument("--lr")\np.add_argument("--steps")\n'
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        files = attach(harness.folder, train__py=program)
        await brain.router.accept(said("run this with a learning rate of 0.3 for 100 steps", files=files))
        assert facts(await stage.asked())["Arguments"] == "--lr 0.3 --steps 100"
        await brain.router.accept(clicked(card_of(harness.adapter.shown[-1]).buttons[0]))
        await harness.until(lambda: bool(harness.fleet.launched))
        run = harness.fleet.launched[0].run
        told = await stage.tells(f"clone {run} batch_size=64")
        assert "has no option for `batch_size`; its options are `--lr`, `--steps`." in told
        await brain.router.accept(said(f"clone {run} lr=0.2"))
        await harness.until(lambda: any(card.title.startswith("Train ") for card in cards(harness)))
        assert facts(harness.adapter.shown[-1])["Arguments"] == "--lr 0.2 --steps 100"


async def test_a_clone_takes_other_data_requirements_and_variables(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        files = attach(harness.folder, train__py=PROGRAM)
        await brain.router.accept(said("!train start train.py env.A=1", files=files))
        await brain.router.accept(clicked(card_of(await stage.asked()).buttons[0]))
        await harness.until(lambda: bool(harness.fleet.launched))
        run = harness.fleet.launched[0].run
        files = attach(harness.folder, more__csv="a\n1\n", requirements__txt="tiny>=1\n")
        words = f"!train clone {run} data=more.csv requirements=requirements.txt env.A=2 env.B=3"
        await brain.router.accept(said(words, files=files))
        await harness.until(lambda: any(card.title.startswith("Train ") for card in cards(harness)))
        shown = table(harness.adapter.shown[-1])
        assert shown["data"] == ("–", "more.csv")
        assert shown["requirements"] == ("–", "tiny>=1")
        assert shown["environment"] == ("A=1", "A=2, B=3")
        await brain.router.accept(clicked(cards(harness)[-1].buttons[0]))
        await harness.until(lambda: len(harness.fleet.launched) == 2)
        script = harness.fleet.launched[1].spec.script
        assert script is not None
        assert [file.name for file in script.data] == ["more.csv"]
        assert script.environment == {"A": "2", "B": "3"}
        assert script.requirements == ("tiny>=1",)


def cards(harness: Harness) -> list[Card]:
    return [content.card for content in harness.adapter.shown if content.card and content.card.kind == "approval"]


async def reply_to(text: str, *files: str) -> ModelReply:
    asked = ModelMessage(Role.USER, text, files=tuple(AttachedFile(name, 900) for name in files))
    (reply,) = [one async for one in OfflinePlanner().stream([asked], []) if not isinstance(one, str)]
    return reply


async def test_what_the_planner_makes_of_programs() -> None:
    (call,) = (await reply_to("please run this on 2 gpus", "net.zip", "points.csv")).calls
    assert call.name == "start_script"
    assert call.arguments == '{"file": "net.zip", "data": ["points.csv"], "gpus": 2}'
    (call,) = (await reply_to("start train.py with points.csv")).calls
    assert call.arguments == '{"file": "train.py", "data": ["points.csv"]}'
    (call,) = (await reply_to("update r-abc123 with this script", "train.py")).calls
    assert call.name == "update_script"
    assert (await reply_to("", "train.py")).text.startswith("Shall I run `train.py`?")
    (call,) = (await reply_to("run train.py with learning rate 0.1 --name x")).calls
    assert call.arguments == '{"file": "train.py", "arguments": "--name x", "settings": {"learning_rate": 0.1}}'


async def again(words: str, **ran: object) -> ModelReply:
    """What the planner makes of words after a program ran so, and once more with epochs=3."""
    plans = ("start_script", {"file": "train.py", **ran}), ("clone_run", {"settings": {"epochs": 3}})
    said = [ModelMessage(Role.USER, "run it", files=(AttachedFile("train.py", 900),))]
    for number, (tool, arguments) in enumerate(plans):
        planned = ToolCall(f"c{number}", tool, json.dumps(arguments))
        ran_it = ModelMessage(Role.TOOL, '{"run": "r-abc123"}', call_id=planned.id)
        said += [ModelMessage(Role.ASSISTANT, "", (planned,)), ran_it, ModelMessage(Role.USER, "and now?")]
    said[-1] = ModelMessage(Role.USER, words)
    (reply,) = [one async for one in OfflinePlanner().stream(said, []) if not isinstance(one, str)]
    return reply


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("run it again but with half the learning rate", {"learning_rate": 0.05}),
        ("again with twice the epochs", {"epochs": 6}),
        ("once more with a learning rate of 0.3", {"learning_rate": 0.3}),
    ],
)
@pytest.mark.parametrize("ran", [{"arguments": "--lr 0.1"}, {"settings": {"learning_rate": 0.1}}])
async def test_a_program_again_with_a_multiple_of_what_it_had(
    words: str, settings: dict[str, float], ran: dict[str, object]
) -> None:
    (call,) = (await again(words, **ran)).calls
    assert (call.name, json.loads(call.arguments)["settings"]) == ("clone_run", settings)


async def test_a_multiple_of_what_nobody_said_is_asked_for() -> None:
    told = await again("run it again with half the learning rate", arguments="--verbose")
    assert (told.text.startswith("I do not know the learning rate that it had"), told.calls) == (True, ())


def test_the_words_of_the_command() -> None:
    command = command_of("start")
    assert command is not None
    words = ["train.py", "hours=2", "data=a.csv,b.csv", "env.DEPTH=3", "--lr", "0.1", "lr=3"]
    found = command.arguments(words)
    assert command.meant(words).tool == "start_script"
    assert found == {
        "file": "train.py", "max_hours": 2, "data": ["a.csv", "b.csv"], "environment": {"DEPTH": "3"},
        "arguments": "--lr 0.1 lr=3",
    }  # fmt: skip
    plain = command.arguments(["price", "lr=0.1"])
    assert (command.meant(["price"]).tool, plain["settings"]) == ("start_training", {"lr": 0.1})


def test_a_folder_in_a_zip_and_its_program(tmp_path: Path) -> None:
    path = zipped(tmp_path / "net.zip", **{
        "net/train.py": "import lib.model\n", "net/lib/model.py": "x = 1\n", "net/data/a.txt": "1",
        "net/__pycache__/a.pyc": "x", "__MACOSX/net/._train.py": "x",
    })  # fmt: skip
    files = files_of(path, "net.zip")
    assert sorted(files) == ["data/a.txt", "lib/model.py", "train.py"]
    assert entry_of(files, None, "net.zip") == "train.py"
    assert entry_of(files, "lib/model.py", "net.zip") == "lib/model.py"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"../evil.py": "1"}, "leads out of its folder"),
        ({"/abs.py": "1"}, "leads out of its folder"),
        ({"train.py": "1", "order.json": "{}"}, "holds `order.json`, which Trainyard keeps"),
        ({"train.py": "1", "checkpoints/step_1/x": "1"}, "holds `checkpoints`"),
        (
            {"a.py": "1", "b.py": "2"},
            "Which program of `p.zip` should run? Say `entry=train.py`. Programs in it: `a.py`",
        ),
        ({"notes.txt": "1"}, "`p.zip` holds no program (.py)"),
        ({"train.py": "for x in\n"}, "is not valid Python"),
    ],
)
def test_what_cannot_run_is_refused_with_a_sentence(files: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(AppError, match=None) as refused:
        entry_of(files_of(zipped(tmp_path / "p.zip", **files), "p.zip"), None, "p.zip")
    assert said in refused.value.text


def test_a_link_and_a_bomb_in_a_zip_are_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("train.py")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "l.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(BadData, match="holds the link"):
        files_of(tmp_path / "l.zip", "l.zip")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("train.py", b"0" * (101 * 1024**2))
    (tmp_path / "b.zip").write_bytes(buffer.getvalue())
    with pytest.raises(BadData, match="unpacks to 1 files with 106 MB"):
        files_of(tmp_path / "b.zip", "b.zip")
    (tmp_path / "n.zip").write_bytes(b"no zip")
    with pytest.raises(BadData, match="is no program"):
        files_of(tmp_path / "n.zip", "n.zip")


def test_requirements_and_variables_are_plain() -> None:
    text = "# what it needs\nnumpy>=2,<3\n\ntorch[opt]==2.13.0  # pinned\nx ; python_version<'4'\n"
    assert requirements_in(text) == (
        "numpy>=2,<3", "torch[opt]==2.13.0", "x ; python_version<'4'",
    )  # fmt: skip
    for line in (
        "-r other.txt",
        "--index-url http://x",
        "git+https://x/y",
        "x @ https://a/b.whl",
        "./here",
        "a b\n--pre",
    ):
        with pytest.raises(BadRequest, match="no plain requirement"):
            requirements_in(line)
    assert environment_in({"DEPTH": "3"}) == {"DEPTH": "3"}
    for name in ("LD_PRELOAD", "PYTHONPATH", "TRAINYARD_RUN_DIR", "depth", "A B"):
        with pytest.raises(BadRequest, match="cannot be set"):
            environment_in({name: "1"})


KEY = "sk-proj-AbCdEfGhIjKlMnOpQrSt1234"
PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----"
TOKEN = "qR7tY2uI9oP4aS6dF1gH"
WITH_SECRETS = f'''import os
KEY = "{KEY}"
PEM = """{PEM}"""
api_key = "{TOKEN}"
print("hello")
'''


async def test_a_secret_in_a_program_runs_and_is_shown_to_nobody(harness: Harness) -> None:
    values = (KEY, TOKEN, PEM.splitlines()[1])
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        await brain.router.accept(said("run train.py", files=attach(harness.folder, train__py=WITH_SECRETS)))
        card = card_of(await stage.asked())
        assert card.body.startswith("It holds what looks like a secret (api_key, openai, private-key)")
        assert 'KEY = "[secret: openai]"' in card.log
        (person, warning), *_ = harness.adapter.whispers
        assert (person, warning.text[:46]) == ("U-alice", "`train.py` holds what looks like a secret (api")
        assert "`secrets/HF_TOKEN` of the host's home" in warning.text
        await brain.router.accept(clicked(card.buttons[0]))
        await harness.until(lambda: bool(harness.fleet.launched))
        (order,) = harness.fleet.launched
        assert harness.bundles.files[order.spec.bundle_sha256]["train.py"] == WITH_SECRETS
        dispatcher = brain.dispatcher
        session = await brain.stores.conversations.session_of(THREAD, create=False)
        caller = Caller(ALICE, session or "", THREAD)
        shown = await dispatcher.call(caller, ToolCall("c", "run_script", f'{{"run": "{order.run}"}}'))
        assert isinstance(shown, Result)
        files = "".join(Path(file.path).read_text() for file in shown.files)
        told = f"{shown}{dispatcher.answer('run_script', shown)}{files}"
        assert 'print("hello")' in files
        other = WITH_SECRETS.replace(KEY, KEY + "5678").replace("hello", "bye")
        call = ToolCall("c", "update_script", json.dumps({"run": order.run, "script": other}))
        planned = await dispatcher.call(caller, call)
        assert isinstance(planned, NeedsApproval)
        assert planned.plan.card.log[-2:] == ('-print("hello")', '+print("bye")')
        assert harness.bundles.files[str(planned.plan.exact["bundle_sha256"])]["train.py"] == other
        marked = json.dumps({"run": order.run, "script": WITH_SECRETS.replace(KEY, "[secret: openai]")})
        with pytest.raises(BadRequest, match="in place of a value that is not shown"):
            await dispatcher.call(caller, ToolCall("c", "update_script", marked))
        told += repr((planned.plan.card, planned.plan.files, harness.adapter.messages, harness.adapter.whispers))
        assert [value for value in values if value in told] == []
    kept = b"".join(path.read_bytes() for path in harness.folder.glob("test.db*")).decode(errors="replace")
    assert [value for value in values if value in kept] == []
