"""A new script and a copy of a run: planned exactly, shown as a difference, executed once after the approval."""

import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from agent.cards import shows_all, spec_facts
from agent.domain.content import Card, Content, Table
from agent.domain.errors import BadRequest
from agent.domain.events import Ended
from agent.domain.inbound import Attachment
from agent.domain.orders import GpuInfo, HostInfo, Limits
from agent.domain.runs import ExitClass, Outcome, RunSpec, RunState
from agent.ports import ModelReply, ToolCall
from agent.tools.training.change_cards import differences
from agent.tools.training.scripts import Replacement, check, diff_of, replaced
from bot.discord.embeds import pieces
from bot.slack.blocks import card_blocks
from tests.agent.conftest import Harness
from tests.agent.engine import SPEC
from tests.agent.stage import Stage, saved
from tests.agent.test_turns import asked_to_train, attached
from tests.fakes import ALICE, BOB, START, THREAD, ScriptedModel, clicked, host, said

_S = RunState
GPUS = tuple(
    GpuInfo(uuid=f"GPU-{n}", index=n, name="H100", memory_bytes=80_000_000_000, sick="too hot" if n == 2 else "")
    for n in range(3)
)
HOST = HostInfo(
    host="gpu-1",
    cpus=8,
    memory_bytes=64_000_000_000,
    disk_free_bytes=10**12,
    gpus=GPUS,
    sandbox="bwrap",
    networks=("none", "hub", "open"),
    limits=(
        Limits(memory_bytes=11 * 10**9, disk_bytes=5 * 10**10, processes=4096, files=65_536),
        Limits(memory_bytes=22 * 10**9, processes=4096),
    ),
    at=START,
)


def script(folder: Path, text: str, name: str = "train.py") -> tuple[Attachment, ...]:
    path = folder / name
    path.write_text(text)
    return (Attachment(id="F2", name=name, size_bytes=len(text), locator=str(path)),)


def card_of(content: Content) -> Card:
    assert content.card is not None
    return content.card


def facts(content: Content) -> dict[str, str]:
    return {fact.name: fact.value for fact in card_of(content).facts}


def table(content: Content) -> dict[str, tuple[str, str]]:
    found = card_of(content).table
    return {row[0]: (row[1], row[2]) for row in found.rows} if found else {}


async def test_a_new_script_is_shown_as_a_diff_and_takes_over_after_the_approval(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        files = script(harness.folder, "print('training')\nprint('better')\n")
        await brain.router.accept(said(f"update {run.id}", files=files))
        asked = card_of(await stage.asked())
        assert "+print('better')" in asked.log
        assert "paused with a checkpoint first" in asked.body
        assert "train_v1.py" in asked.body
        assert harness.fleet.stopped == []
        await brain.router.accept(clicked(asked.buttons[0]))
        await harness.until(lambda: any("takes over" in text for text in harness.adapter.texts()))
        assert [order.how for order in harness.fleet.stopped] == ["pause"]
        await stage.says(run, saved(10))
        await stage.ended(run, _S.PAUSED)
        await brain.service.tick()
        after = await brain.stores.runs.get(run.id)
        assert (after.attempt, after.script) == (2, 2)
        assert harness.fleet.launched[-1].spec.bundle_sha256 == after.spec.bundle_sha256 != run.spec.bundle_sha256
        old = card_of(await stage.asks("script", run.id, "1"))
        assert old.title.endswith("train_v1.py")
        assert old.log == ("print('training')",)
        assert "print('better')" in card_of(await stage.asks("script", run.id)).log


async def test_a_script_with_a_syntax_error_stops_nothing(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        files = script(harness.folder, "for x in range(3)\n    print(x)\n")
        await brain.router.accept(said(f"update {run.id}", files=files))
        await harness.until(lambda: any("not valid Python" in text for text in harness.adapter.texts()))
        (text,) = [text for text in harness.adapter.texts() if "not valid Python" in text]
        assert "line 1" in text
        assert "for x in range(3)" in text
        assert harness.fleet.stopped == []
        assert (await brain.stores.runs.get(run.id)).state is _S.RUNNING


async def test_a_strangers_script_and_the_same_script_are_refused(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        files = script(harness.folder, "print('training')\n")
        await brain.router.accept(said(f"update {run.id}", files=files, person=BOB))
        await harness.until(lambda: any("change its program" in text for text in harness.adapter.texts()))
        await brain.router.accept(said(f"update {run.id}", files=files))
        await harness.until(lambda: any("nothing would change" in text for text in harness.adapter.texts()))
        assert harness.fleet.stopped == []


async def test_a_card_that_was_overtaken_changes_nothing(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        for number in (1, 2):
            files = script(harness.folder, f"print({number})\n", f"train{number}.py")
            await brain.router.accept(said(f"update {run.id}", files=files))
            await harness.until(lambda number=number: len(open_cards(harness)) == number)  # type: ignore[misc]
        first, second = open_cards(harness)
        await brain.router.accept(clicked(second.buttons[0]))
        await harness.until(lambda: any("takes over" in text for text in harness.adapter.texts()))
        await brain.router.accept(clicked(first.buttons[0]))
        await harness.until(lambda: any("has changed since this card" in text for text in harness.adapter.texts()))
        assert (await brain.stores.runs.get(run.id)).script == 2


async def test_of_two_cards_that_are_clicked_at_once_one_is_refused(harness: Harness) -> None:
    other = THREAD.model_copy(update={"thread_id": "other"})
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        for number, thread in enumerate((THREAD, other), start=1):
            files = script(harness.folder, f"print({number})\n", f"train{number}.py")
            await brain.router.accept(said(f"update {run.id}", files=files, thread=thread))
            await harness.until(lambda number=number: len(open_cards(harness)) == number)  # type: ignore[misc]
        first, second = open_cards(harness)
        await brain.router.accept(clicked(first.buttons[0]))
        await brain.router.accept(clicked(second.buttons[0], thread=other))
        await harness.until(lambda: any("takes over" in text for text in harness.adapter.texts()))
        await harness.until(lambda: any("has changed since this card" in text for text in harness.adapter.texts()))
        assert [one.version for one in await brain.stores.runs.scripts(run.id)] == [1, 2]


async def test_a_tick_leaves_alone_what_a_click_is_carrying_out(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await brain.router.accept(said(f"update {run.id}", files=script(harness.folder, "print(1)\n")))
        approve = card_of(await stage.asked()).buttons[0]
        update, times = brain.service.update_script, []

        async def with_a_tick(run_id: str, bundle_sha256: str, *, was: str) -> str:
            times.append(was)
            if len(times) == 1:
                await brain.router.expire()
            return await update(run_id, bundle_sha256, was=was)

        monkeypatch.setattr(brain.service, "update_script", with_a_tick)
        await brain.router.accept(clicked(approve))
        await harness.until(
            lambda: any("Version 2" in text and "takes over" in text for text in harness.adapter.texts())
        )
        await brain.router.idle()
        assert len(times) == 1
        assert (await brain.stores.runs.get(run.id)).script == 2


async def test_a_script_that_could_not_be_used_is_refused_before_anybody_is_asked(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        stopping, used_up = await stage.running(), await stage.running()
        await brain.service.stop(stopping.id)
        outcome = Outcome(state=_S.FAILED, exit_class=ExitClass.USER_ERROR, seconds=3700.0)
        await stage.says(used_up, Ended(outcome=outcome))
        for run, says in ((stopping, "it is stopping; wait"), (used_up, "has used the 1 hour")):
            files = script(harness.folder, "print(1)\n")
            await brain.router.accept(said(f"update {run.id}", files=files))
            await harness.until(lambda says=says: any(says in text for text in harness.adapter.texts()))  # type: ignore[misc]
        assert open_cards(harness) == []


def open_cards(harness: Harness) -> list[Card]:
    cards = [content.card for content in harness.adapter.shown if content.card and content.card.kind == "approval"]
    return [card for card in cards if card.buttons]


async def test_a_clone_shows_what_differs_and_runs_once_approved(harness: Harness) -> None:
    harness.fleet.infos = (HOST,)
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        spec = SPEC.model_copy(update={"settings": {"learning_rate": 0.05, "rounds": 100}, "sandbox": "bwrap"})
        run = await stage.running(spec)
        words = ("lr=0.1", "rounds=default", "seed=3", "hours=2", "gpus=1", "network=hub", "priority=high")
        answer = await stage.asks("clone", run.id, *words)
        assert "answer stands in this channel" in answer.text
        asked = await stage.asked()
        assert table(asked) == {
            "seed": ("7", "3"),
            "GPUs": ("0", "1"),
            "hours at most": ("1", "2"),
            "network": ("none", "hub"),
            "learning_rate": ("0.05", "0.1"),
            "rounds": ("100", "default"),
            "priority": ("normal", "high"),
        }
        assert "model hubs only" in facts(asked)["Network"]
        assert facts(asked)["Host"] == "gpu-1, 1 GPU"
        assert facts(asked)["Limits"] == "22.0 GB memory, 4,096 processes"
        assert len(harness.fleet.launched) == 1
        approve = card_of(asked).buttons[0]
        await brain.router.accept(clicked(approve))
        await brain.router.accept(clicked(approve))
        await harness.until(lambda: len(harness.fleet.launched) == 2)
        new = harness.fleet.launched[-1]
        assert new.spec.settings == {"learning_rate": 0.1}
        assert new.spec.bundle_sha256 == run.spec.bundle_sha256
        assert new.gpu_uuids == ("GPU-0",)
        await brain.router.idle()
        assert len(harness.fleet.launched) == 2
        (created,) = [one for one in await brain.stores.runs.recent(5) if one.id != run.id]
        assert (created.priority, created.requester) == (1, ALICE.key)


async def test_a_clone_trains_on_other_data_without_what_these_do_not_have(harness: Harness) -> None:
    harness.fleet.infos = (HOST,)
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        spec = SPEC.model_copy(update={"target": "visited_doctor", "drop_columns": ("age", "gone")})
        run = await stage.running(spec)
        october = script(harness.folder, "age,health,visited_doctor\n30,good,yes\n", "october.csv")
        await brain.router.accept(said(f"clone {run.id} file=october.csv secrets=HF_TOKEN", files=october))
        asked = await stage.asked()
        assert table(asked)["data"] == ("visits.csv", "october.csv")
        assert table(asked)["columns left out"] == ("age, gone", "age")
        assert table(asked)["secrets"] == ("–", "HF_TOKEN")
        await brain.router.accept(clicked(card_of(asked).buttons[0]))
        await harness.until(lambda: len(harness.fleet.launched) == 2)
        dataset = harness.fleet.launched[-1].spec.dataset
        assert dataset is not None
        assert (dataset.name, dataset.sha256 != "a" * 64) == ("october.csv", True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("lr",), "is not a change"),
        (("env.A=1",), "takes no `environment`"),
        (("file=none.csv",), "no data file in this thread"),
        (("gpus=9",), "has 2"),
        (("host=gpu-7",), "no host `gpu-7`"),
        (("target=nope",), "no column `nope`"),
        (("network=everything",), "`everything` is no `network`: none, hub or open."),
    ],
)
async def test_a_clone_that_cannot_be_is_refused_before_anybody_is_asked(
    harness: Harness, words: tuple[str, ...], says: str
) -> None:
    harness.fleet.infos = (HOST,)
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.asks("clone", run.id, *words)
        await harness.until(lambda: any(says in text for text in told(harness)))
        await brain.router.idle()
        assert open_cards(harness) == []


def told(harness: Harness) -> list[str]:
    """Everything that was said in words, to all or to one."""
    return [*harness.adapter.texts(), *(content.text for _, content in harness.adapter.whispers)]


async def test_a_command_that_people_approve_goes_on_after_a_restart(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.tells("hello")
        await brain.router.accept(said(f"clone {run.id} seed=5"))
        approve = card_of(await stage.asked()).buttons[0]
    async with harness.open() as brain:
        await brain.router.accept(clicked(approve))
        await harness.until(lambda: any("Started `r-" in text for text in harness.adapter.texts()))
        assert harness.fleet.launched[-1].spec.seed == 5
        await brain.router.idle()
        assert sum("Started" in text for text in harness.adapter.texts()) == 1


async def test_a_clone_that_waits_or_starts_elsewhere_is_not_said_to_have_started_there(harness: Harness) -> None:
    harness.fleet.infos = (host("gpu-1", slots=1), host("gpu-2", slots=1))
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()  # it takes gpu-1, for which the clones are approved
        for seed, says in ((2, "on gpu-2; its card follows"), (3, "waits in the queue. It is number 1")):
            await brain.router.accept(said(f"clone {run.id} seed={seed} host=gpu-1"))
            asked = await stage.asked()
            assert facts(asked)["Host"].startswith("gpu-1")
            await brain.router.accept(clicked(card_of(asked).buttons[0]))
            await harness.until(lambda says=says: any(says in text for text in harness.adapter.texts()))  # type: ignore[misc]
            await brain.router.idle()
            await brain.delivery.idle()
        assert [order.host for order in harness.fleet.launched] == ["gpu-1", "gpu-2"]
        assert sum("Started" in text for text in harness.adapter.texts()) == 1


async def test_what_a_card_cannot_show_of_a_plan_is_in_a_file_with_it(harness: Harness) -> None:
    many = {f"setting_{n}": n for n in range(120)}
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running(SPEC.model_copy(update={"settings": many | {"zz_danger": 1}}))
        await brain.router.accept(said(f"clone {run.id} seed=2"))
        asked = await stage.asked()
        (file,) = asked.files
        exact = json.loads(Path(file.path).read_text())
        assert exact["spec"]["settings"] == many | {"zz_danger": 1}
        assert (exact["spec"]["seed"], exact["clone_of"]) == (2, run.id)
        assert f"All that is approved is in the file `{file.name}`" in card_of(asked).body
        await brain.router.accept(clicked(card_of(asked).buttons[0]))
        await harness.until(lambda: len(harness.fleet.launched) > 1)
        assert harness.fleet.launched[-1].spec.model_dump(mode="json") == exact["spec"]
        await stage.settled()
        short = await stage.running()
        await brain.router.accept(said(f"clone {short.id} seed=2"))
        await harness.until(lambda: bool(open_cards(harness)))
        assert (await stage.asked()).files == ()


@pytest.mark.parametrize(
    ("settings", "rows", "whole"),
    [
        ({"lr": 0.1}, (), True),
        ({"note": "x" * 490}, (), True),
        ({"note": "x" * 600}, (), False),
        ({"note": "&" * 200}, (), False),
        ({}, (("seed", "7", "9"),) * 30, True),
        ({}, (("seed", "7", "9"),) * 60, False),
        ({}, (("note", "x" * 1500, "y" * 1500),), False),
    ],
)
def test_a_card_that_shows_all_is_cut_on_no_platform(
    settings: dict[str, JsonValue], rows: tuple[tuple[str, ...], ...], whole: bool
) -> None:
    table = Table(columns=("what", "was", "becomes"), rows=rows)
    facts = tuple(spec_facts(SPEC.model_copy(update={"settings": settings})))
    card = Card(kind="approval", title="Train?", facts=facts, table=table)
    assert shows_all(card) is whole
    if whole:
        slack = json.dumps(card_blocks(card, {}), ensure_ascii=False)
        assert "…" not in slack
        assert "not shown" not in slack
        (piece,) = pieces(Content(card=card))
        assert "…" not in str(piece.embed.to_dict() if piece.embed else "")
        assert piece.rest == ""


async def test_a_training_with_many_settings_shows_all_of_them_in_a_file(harness: Harness, csv: Path) -> None:
    settings = {f"setting_{n}": n for n in range(120)}
    call = ToolCall("c1", "start_training", json.dumps({"target": "visited_doctor", "settings": settings}))
    harness.model = ScriptedModel(ModelReply("", (call,), "scripted"))
    async with harness.open() as brain:
        await brain.router.accept(said("train it, with these settings", files=attached(csv)))
        asked = await Stage(harness, brain).asked()
        (file,) = asked.files
        assert json.loads(Path(file.path).read_text())["spec"]["settings"] == settings
        assert card_of(asked).body.startswith("**There is more than fits here.**")
        await brain.router.idle()


async def test_the_same_run_once_more_shows_a_priority_that_is_not_usual(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.create(priority=1)
        await brain.router.accept(said(f"clone {run.id} priority=high"))
        asked = await stage.asked()
        assert "Nothing differs" in card_of(asked).body
        assert facts(asked)["Priority"] == "high"


async def test_people_say_in_words_what_to_change(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await brain.router.accept(said(f"train {run.id} again with learning rate 0.01 and seed 9"))
        assert table(await stage.asked()) == {"seed": ("7", "9"), "learning_rate": ("default", "0.01")}


async def test_gpus_that_would_be_idle_are_refused_before_anybody_is_asked(harness: Harness, csv: Path) -> None:
    call = ToolCall("c1", "start_training", json.dumps({"file": csv.name, "target": "visited_doctor", "gpus": 2}))
    model = harness.model = ScriptedModel(ModelReply("", (call,), "m"), ModelReply("Without, then.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("train on two gpus", files=attached(csv)))
        await harness.until(lambda: any("Without, then." in text for text in harness.adapter.texts()))
        assert "trains no network, so 2 GPUs would be idle: leave `gpus` out." in model.asked[-1][-1].text


async def test_several_gpus_need_a_sandbox_in_which_their_processes_meet(harness: Harness, csv: Path) -> None:
    harness.fleet.infos = (HOST.model_copy(update={"sandbox": "landlock"}),)
    asked = {"file": csv.name, "target": "visited_doctor", "task": "text_classification", "gpus": 2}
    model = harness.model = ScriptedModel(
        ModelReply("", (ToolCall("c1", "start_training", json.dumps(asked)),), "m"), ModelReply("One, then.", (), "m")
    )
    async with harness.open() as brain:
        await brain.router.accept(said("train on two gpus", files=attached(csv)))
        await harness.until(lambda: any("One, then." in text for text in harness.adapter.texts()))
        assert "the processes of 2 GPUs meet with network=open alone" in model.asked[-1][-1].text


async def test_the_card_of_a_training_says_walls_gpus_and_what_a_fault_means(harness: Harness, csv: Path) -> None:
    harness.fleet.infos = (HOST,)
    async with harness.open() as brain:
        await asked_to_train(harness, brain, csv)
        (card,) = open_cards(harness)
        shown = {fact.name: fact.value for fact in card.facts}
        assert shown["Host"] == "gpu-1, CPU"
        assert shown["Limits"] == "11.0 GB memory, 50.0 GB disk, 4,096 processes, 65,536 open files"
        assert shown["Network"].startswith("none")
        assert shown["Sandbox"] == "bubblewrap"
        assert "tried again by itself" in shown["If it fails"]
        await brain.router.accept(clicked(card.buttons[0]))
        await harness.until(lambda: len(harness.fleet.launched) == 1)
        assert harness.fleet.launched[0].spec.network == "none"


async def test_a_host_that_cannot_cut_the_network_off_is_not_hidden(harness: Harness, csv: Path) -> None:
    harness.fleet.infos = (HOST.model_copy(update={"networks": ("open",), "sandbox": "none"}),)
    async with harness.open() as brain:
        await asked_to_train(harness, brain, csv)
        (card,) = open_cards(harness)
        assert {fact.name: fact.value for fact in card.facts}["Network"] == "open: it reaches everything"


def test_replacements_are_exact() -> None:
    text = "lr = 0.1\nsteps = 10\nlr2 = 0.1\n"
    assert replaced(text, [Replacement(old="steps = 10", new="steps = 20")]) == text.replace("10", "20")
    for old, says in (("0.1", "2 times"), ("nothing", "does not stand"), ("", "does not stand")):
        with pytest.raises(BadRequest, match=says):
            replaced(text, [Replacement(old=old, new="x")])


@pytest.mark.parametrize("text", ["print(", "def f():\nreturn 1\n", "x = \x00", "(" * 5000, "return 1\n", "await x\n"])
def test_what_is_no_program_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="so nothing was changed or stopped"):
        check(text)


def test_a_long_diff_is_cut_and_counted() -> None:
    before, after = "\n".join(map(str, range(500))), "\n".join(f"{n}!" for n in range(500))
    diff = diff_of(before, after)
    assert (diff.added, diff.removed) == (500, 500)
    assert len(diff.shown) <= 40
    assert diff.cut == 1001 - len(diff.shown)
    assert diff.text.startswith("--- train.py (now)\n+++ train.py (new)\n@@")
    assert diff_of("a", "b" * 400).cut > 0  # a line that is too wide is not shown whole either


def test_differences_name_what_people_know() -> None:
    other = RunSpec.model_validate(SPEC.model_dump() | {"max_hours": 3.0, "auto_resume": False, "settings": {"a": 1}})
    assert differences(SPEC, SPEC) == []
    assert differences(SPEC, other) == [
        ("hours at most", "1", "3"),
        ("retries by itself", "yes", "no"),
        ("a", "default", "1"),
    ]


@pytest.mark.parametrize(
    ("tier", "says"), [("landlock", "/dev/shm"), ("none", "Nothing is closed to it"), ("bwrap", "")]
)
async def test_every_approval_says_what_the_sandbox_does_not_stop(
    harness: Harness, csv: Path, tier: str, says: str
) -> None:
    harness.fleet.infos = (HOST.model_copy(update={"sandbox": tier}),)
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        await brain.router.accept(said("train a model that predicts visited_doctor", files=attached(csv)))
        await harness.until(lambda: len(open_cards(harness)) == 1)
        run = await stage.running(SPEC.model_copy(update={"sandbox": tier}))
        await stage.asks("clone", run.id, "seed=3")
        await brain.router.accept(said(f"update {run.id}", files=script(harness.folder, "print(1)\n")))
        await harness.until(lambda: len(open_cards(harness)) == 3)
        for card in open_cards(harness):
            assert ("**What this sandbox does not stop**" in card.body) is bool(says), card.title
            assert says in card.body
        asked = facts_of(open_cards(harness)[0])["Network"]
        assert asked == (
            "none was asked for, but without a sandbox it reaches everything"
            if tier == "none"
            else "none: it reaches nothing"
        )


async def test_a_secret_that_no_host_keeps_is_refused_before_anybody_is_asked(harness: Harness, csv: Path) -> None:
    keeps = HOST.model_copy(update={"secrets": ("HF_TOKEN",)})
    harness.fleet.infos = (keeps.model_copy(update={"host": "a-bare-one", "secrets": ()}), keeps)
    arguments: dict[str, object] = {"file": csv.name, "target": "visited_doctor"}

    def plan(*secrets: str) -> ModelReply:
        call = ToolCall(f"c-{len(secrets)}", "start_training", json.dumps(arguments | {"secrets": secrets}))
        return ModelReply("", (call,), "m")

    model = harness.model = ScriptedModel(
        plan("HF_TOKEN", "WANDB_KEY"), ModelReply("I ask for less.", (), "m"), plan("HF_TOKEN")
    )
    async with harness.open() as brain:
        await brain.router.accept(said("train with my tokens", files=attached(csv)))
        await harness.until(lambda: any("I ask for less." in text for text in harness.adapter.texts()))
        refusal = model.asked[-1][-1].text
        assert "No connected host that could run this keeps the secrets `HF_TOKEN`, `WANDB_KEY`" in refusal
        assert "a-bare-one: none; gpu-1: HF_TOKEN" in refusal
        assert open_cards(harness) == []
        await brain.router.accept(said("then with one of them"))
        await harness.until(lambda: len(open_cards(harness)) == 1)
        (card,) = open_cards(harness)
        assert facts_of(card)["Secrets"] == "HF_TOKEN"
        assert facts_of(card)["Host"].startswith("gpu-1")


def facts_of(card: Card) -> dict[str, str]:
    return {fact.name: fact.value for fact in card.facts}


async def test_a_script_that_came_too_late_is_not_what_made_the_result(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        harness.clock.forward(5)
        await brain.router.accept(said(f"update {run.id}", files=script(harness.folder, "print(2)\n")))
        await harness.until(lambda: len(open_cards(harness)) == 1)
        await brain.router.accept(clicked(open_cards(harness)[0].buttons[0]))
        await harness.until(lambda: any("takes over" in text for text in harness.adapter.texts()))
        assert (await brain.stores.runs.get(run.id)).script == 2
        done = await stage.ended(run, _S.SUCCEEDED)
        assert done.state is _S.SUCCEEDED
        assert (done.script, done.spec.bundle_sha256) == (1, run.spec.bundle_sha256)
        assert done.outcome is not None
        assert done.outcome.reason.endswith(
            "before version 2 of its program could take over: this is what version 1 made."
        )
        assert [one.version for one in await brain.stores.runs.scripts(run.id)] == [1, 2]
        assert len(harness.fleet.launched) == 1


async def test_a_script_that_took_over_is_what_made_the_result(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        harness.clock.forward(5)
        await brain.router.accept(said(f"update {run.id}", files=script(harness.folder, "print(2)\n")))
        await harness.until(lambda: len(open_cards(harness)) == 1)
        await brain.router.accept(clicked(open_cards(harness)[0].buttons[0]))
        await harness.until(lambda: any("takes over" in text for text in harness.adapter.texts()))
        harness.clock.forward(5)
        await stage.says(run, saved(4))
        await stage.ended(run, _S.PAUSED)
        await brain.service.tick()
        assert len(harness.fleet.launched) == 2
        done = await stage.ended(run, _S.SUCCEEDED)
        assert (done.script, done.state) == (2, _S.SUCCEEDED)
        assert done.spec.bundle_sha256 == harness.fleet.launched[-1].spec.bundle_sha256 != run.spec.bundle_sha256
        assert done.outcome is not None
        assert done.outcome.reason == ""
