"""A run belongs to its channel: elsewhere there is none for anybody, and for guests not even where runs are open."""

import json
from dataclasses import replace

import pytest

from agent.brain import Brain
from agent.domain.content import Content
from agent.domain.errors import NotFound
from agent.domain.policy import Effect
from agent.domain.rooms import Person, Room
from agent.domain.runs import Run
from agent.ports import ToolCall
from agent.tools.dispatch import Dispatcher
from agent.tools.tool import Caller
from tests.agent.conftest import House
from tests.agent.engine import SPEC
from tests.agent.stage import Stage, lines, rows
from tests.fakes import ALICE, BOB, GUEST, ROOM, commanded, host

MORE: dict[str, dict[str, object]] = {  # what a tool must have beside the run
    "set_priority": {"priority": "high"},
    "clone_run": {"settings": {"seed": 3}},
    "update_script": {"script": "print(1)"},
    "predict": {"rows": [{"age": "3"}]},
}
SHARED = Room(platform="slack", tenant="T1", channel="C-shared", thread="9.0")


async def in_room(brain: Brain, room: Room, token: str) -> Run:
    """A run whose card is in `room`."""
    session_id = await brain.stores.conversations.session_of(room, create=True)
    assert session_id is not None
    return await brain.service.create(SPEC, session_id=session_id, requester=ALICE.key, room=room, token=token)


async def asks(house: House, brain: Brain, *words: str, person: Person = GUEST, room: Room = SHARED) -> Content:
    """What a command answers there."""
    before = len(house.door.whispers)
    await brain.desk.accept(commanded(*words, person=person, room=room))
    await house.until(lambda: len(house.door.whispers) > before)
    return house.door.whispers[-1][1]


@pytest.mark.parametrize(("person", "is_open"), [(GUEST, False), (GUEST, True), (BOB, False), (ALICE, False)])
async def test_no_tool_knows_a_run_of_another_channel(house: House, person: Person, is_open: bool) -> None:
    house.options = replace(house.options, runs_open=is_open)
    async with house.open() as brain:
        stage = Stage(house, brain)
        secret = await stage.running()
        await stage.says(secret, lines("customers lie in s3://corp/x"), rows(1, 2))
        shared = await in_room(brain, SHARED, "shared")
        dispatcher: Dispatcher = brain.desk._dispatcher
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


async def test_a_guest_reads_the_runs_of_the_channel_they_speak_in(house: House) -> None:
    async with house.open() as brain:
        stage = Stage(house, brain)
        await stage.running()
        shared = await in_room(brain, SHARED, "shared")
        newer = await stage.running()
        elsewhere = SHARED.model_copy(update={"thread": "10.0"})
        for room in (SHARED, elsewhere):  # threads of one channel
            listed = (await asks(house, brain, "runs", room=room)).card
            assert listed is not None
            assert listed.table is not None
            assert [row[0] for row in listed.table.rows] == [shared.id]
            assert shared.id in (await asks(house, brain, "status", shared.id, room=room)).model_dump_json()
        assert (await asks(house, brain, "status", shared.id)).card is not None
        text = (await asks(house, brain, "status", newer.id, person=ALICE)).text
        assert text.startswith(f"There is no run `{newer.id}` here.")
        direct = Room(platform="slack", tenant="T1", channel="D7")
        assert "no run yet" in (await asks(house, brain, "runs", room=direct)).text
        assert "There is no run" in (await asks(house, brain, "status", shared.id, room=direct)).text
        told = await asks(house, brain, "experiments", "all", room=direct)
        assert "No run has a result" in told.text


async def test_lists_of_the_cluster_name_no_run_of_another_channel(house: House) -> None:
    house.fleet.infos = (host("gpu-1", gpus=1),)
    async with house.open() as brain:
        stage = Stage(house, brain)
        spec = SPEC.model_copy(update={"gpus": 1})
        running, waiting = await stage.running(spec), await stage.create(spec)
        await brain.service.tick()
        for word in ("cluster", "queue"):
            seen = (await asks(house, brain, word)).model_dump_json()
            assert running.id not in seen
            assert waiting.id not in seen
            assert waiting.id not in (await asks(house, brain, word, person=ALICE)).model_dump_json()
            assert waiting.id in (await asks(house, brain, word, person=ALICE, room=ROOM)).model_dump_json()
        assert running.id in (await asks(house, brain, "cluster", person=ALICE, room=ROOM)).model_dump_json()


async def test_a_setting_opens_runs_to_the_workspace(house: House) -> None:
    house.options = replace(house.options, runs_open=True)
    async with house.open() as brain:
        run = await Stage(house, brain).running()
        assert (await asks(house, brain, "status", run.id, person=BOB)).card is not None
        listed = (await asks(house, brain, "runs", person=BOB)).card
        assert listed is not None
        assert listed.table is not None
        assert [row[0] for row in listed.table.rows] == [run.id]


async def test_a_thread_means_only_its_own_runs(house: House) -> None:
    other = ROOM.model_copy(update={"thread": "7.0"})
    async with house.open() as brain:
        run = await Stage(house, brain).running()
        for words in (("status",), ("logs",), ("metrics",), ("chart",), ("results",)):
            text = (await asks(house, brain, *words, person=ALICE, room=other)).text
            assert "This thread has no run yet" in text, words
        assert "of other threads" in (await asks(house, brain, "runs", person=ALICE, room=other)).model_dump_json()
        outside = ROOM.model_copy(update={"thread": ""})  # a slash command in the channel
        assert run.id in (await asks(house, brain, "status", person=ALICE, room=outside)).model_dump_json()
