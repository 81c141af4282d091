"""A run belongs to its channel: elsewhere there is none for anybody, and for guests not even where runs are open."""

import json
from dataclasses import replace

import pytest

from agent.brain import Brain
from agent.domain.content import Content
from agent.domain.errors import NotFound
from agent.domain.inbound import Person, Thread
from agent.domain.policy import Effect
from agent.domain.runs import Run
from agent.ports import ToolCall
from agent.tools.dispatch import Dispatcher
from agent.tools.tool import Caller
from tests.agent.conftest import Harness
from tests.agent.engine import SPEC
from tests.agent.stage import Stage, lines, rows
from tests.fakes import ALICE, BOB, GUEST, THREAD, commanded, host

MORE: dict[str, dict[str, object]] = {  # what a tool must have beside the run
    "set_priority": {"priority": "high"},
    "clone_run": {"settings": {"seed": 3}},
    "update_script": {"script": "print(1)"},
    "predict": {"rows": [{"age": "3"}]},
}
SHARED = Thread(platform="slack", tenant="T1", channel="C-shared", thread_id="9.0")


async def in_thread(brain: Brain, thread: Thread, token: str) -> Run:
    """A run whose card is in `thread`."""
    session_id = await brain.stores.conversations.session_of(thread, create=True)
    assert session_id is not None
    return await brain.service.create(SPEC, session_id=session_id, requester=ALICE.key, thread=thread, token=token)


async def asks(harness: Harness, brain: Brain, *words: str, person: Person = GUEST, thread: Thread = SHARED) -> Content:
    """What a command answers there."""
    before = len(harness.adapter.whispers)
    await brain.router.accept(commanded(*words, person=person, thread=thread))
    await harness.until(lambda: len(harness.adapter.whispers) > before)
    return harness.adapter.whispers[-1][1]


@pytest.mark.parametrize(("person", "is_open"), [(GUEST, False), (GUEST, True), (BOB, False), (ALICE, False)])
async def test_no_tool_knows_a_run_of_another_channel(harness: Harness, person: Person, is_open: bool) -> None:
    harness.options = replace(harness.options, runs_open=is_open)
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        secret = await stage.running()
        await stage.says(secret, lines("customers lie in s3://corp/x"), rows(1, 2))
        shared = await in_thread(brain, SHARED, "shared")
        dispatcher: Dispatcher = brain.dispatcher
        session_id = await brain.stores.conversations.session_of(SHARED, create=False)
        guest = Caller(person, session_id or "", SHARED)
        looked = 0
        for tool in dispatcher._tools.values():
            if "run" not in tool.arguments.model_fields or (person is GUEST and tool.effect is not Effect.READ):
                continue
            more = MORE.get(tool.name, {})
            looked += 1
            refusals = []
            for run_id in (secret.id, "r-zzzzzz"):
                with pytest.raises(NotFound) as refused:
                    await dispatcher.call(guest, ToolCall("c", tool.name, json.dumps({"run": run_id, **more})))
                refusals.append(refused.value.text.replace(run_id, ""))
            assert refusals[0] == refusals[1], tool.name
        assert looked >= (9 if person is GUEST else 15)
        for name, arguments in (
            ("compare_runs", {"runs": [shared.id, secret.id]}),
            ("run_chart", {"run": shared.id, "others": [secret.id]}),
        ):
            with pytest.raises(NotFound, match=secret.id):
                await dispatcher.call(guest, ToolCall("c", name, json.dumps(arguments)))


async def test_a_guest_reads_the_runs_of_the_channel_they_speak_in(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        await stage.running()
        shared = await in_thread(brain, SHARED, "shared")
        newer = await stage.running()
        elsewhere = SHARED.model_copy(update={"thread_id": "10.0"})
        for thread in (SHARED, elsewhere):  # threads of one channel
            listed = (await asks(harness, brain, "runs", thread=thread)).card
            assert listed is not None
            assert listed.table is not None
            assert [row[0] for row in listed.table.rows] == [shared.id]
            assert shared.id in (await asks(harness, brain, "status", shared.id, thread=thread)).model_dump_json()
        assert (await asks(harness, brain, "status", shared.id)).card is not None
        text = (await asks(harness, brain, "status", newer.id, person=ALICE)).text
        assert text.startswith(f"There is no run `{newer.id}` here.")
        direct = Thread(platform="slack", tenant="T1", channel="D7")
        assert "no run yet" in (await asks(harness, brain, "runs", thread=direct)).text
        assert "There is no run" in (await asks(harness, brain, "status", shared.id, thread=direct)).text
        told = await asks(harness, brain, "experiments", "all", thread=direct)
        assert "No run has a result" in told.text


async def test_lists_of_the_cluster_name_no_run_of_another_channel(harness: Harness) -> None:
    harness.fleet.infos = (host("gpu-1", gpus=1),)
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        spec = SPEC.model_copy(update={"gpus": 1})
        running, waiting = await stage.running(spec), await stage.create(spec)
        await brain.service.tick()
        for word in ("cluster", "queue"):
            seen = (await asks(harness, brain, word)).model_dump_json()
            assert running.id not in seen
            assert waiting.id not in seen
            assert waiting.id not in (await asks(harness, brain, word, person=ALICE)).model_dump_json()
            assert waiting.id in (await asks(harness, brain, word, person=ALICE, thread=THREAD)).model_dump_json()
        assert running.id in (await asks(harness, brain, "cluster", person=ALICE, thread=THREAD)).model_dump_json()


async def test_a_setting_opens_runs_to_the_workspace(harness: Harness) -> None:
    harness.options = replace(harness.options, runs_open=True)
    async with harness.open() as brain:
        run = await Stage(harness, brain).running()
        assert (await asks(harness, brain, "status", run.id, person=BOB)).card is not None
        listed = (await asks(harness, brain, "runs", person=BOB)).card
        assert listed is not None
        assert listed.table is not None
        assert [row[0] for row in listed.table.rows] == [run.id]


async def test_a_thread_means_only_its_own_runs(harness: Harness) -> None:
    other = THREAD.model_copy(update={"thread_id": "7.0"})
    async with harness.open() as brain:
        run = await Stage(harness, brain).running()
        for words in (("status",), ("logs",), ("metrics",), ("chart",), ("results",)):
            text = (await asks(harness, brain, *words, person=ALICE, thread=other)).text
            assert "This thread has no run yet" in text, words
        assert "of other threads" in (await asks(harness, brain, "runs", person=ALICE, thread=other)).model_dump_json()
        outside = THREAD.model_copy(update={"thread_id": ""})  # a slash command in the channel
        assert run.id in (await asks(harness, brain, "status", person=ALICE, thread=outside)).model_dump_json()
