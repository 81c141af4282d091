"""From a question until its answer there is something to see: a status, or a reaction where Slack refuses that."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from agent.ports import ModelMessage, ModelReply, ToolSchema
from tests.chat.conftest import Chat


class Held:
    """Thinks until it may answer."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()

    async def stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        await self.may_answer.wait()
        yield ModelReply("Here it is.", (), "m")


@pytest.fixture
def held(chat: Chat) -> Held:
    chat.model = held = Held()
    return held


async def test_a_thread_shows_that_the_bot_is_at_work(chat: Chat, held: Held) -> None:
    alice, shown = chat.slack.user("alice"), chat.slack.statuses
    async with chat.open() as brain:
        asked = alice.mention("tell me more about it")
        await chat.slack.wait_for(lambda: shown)
        alice.say("and quickly, please", thread=asked.ts)  # waits for its turn in the same thread
        await chat.slack.wait_for(lambda: len(shown) == 2)
        held.may_answer.set()
        await chat.seen(asked.ts, "Here it is.")
        await chat.still(brain)
        await chat.slack.wait_for(lambda: shown[-1][2] == "active")
        assert [status for *_, status in shown] == ["processing", "processing", "active"]
        assert {(channel, ts) for channel, ts, _ in shown} == {(asked.channel, asked.ts)}


async def test_a_reaction_where_slack_refuses_the_status(chat: Chat, held: Held) -> None:
    chat.slack.scopes.discard("assistant:write")
    alice = chat.slack.user("alice")
    async with chat.open():
        asked = alice.mention("tell me more about it")
        await chat.slack.wait_for(lambda: asked.reactions == ["eyes"])
        other, direct = alice.mention("and this?"), alice.dm("and that?")
        await chat.slack.wait_for(lambda: other.reactions == direct.reactions == ["eyes"])
        assert len(chat.slack.called("agents.sessions.setStatus")) == 1  # refused once, not asked again
        chat.slack.fail("reactions.remove", retry_after=1)
        held.may_answer.set()
        await chat.slack.wait_for(lambda: not (asked.reactions or other.reactions or direct.reactions))
        assert "Here it is." in chat.slack.transcript()


async def test_words_that_are_for_others_get_no_sign(chat: Chat, held: Held) -> None:
    chat.slack.scopes.discard("assistant:write")
    alice = chat.slack.user("alice")
    async with chat.open() as brain:
        root = alice.say("lunch?")
        alice.say("yes", thread=root.ts)
        await chat.still(brain)
        asked = alice.mention("tell me more about it")
        await chat.slack.wait_for(lambda: asked.reactions)
        assert len(chat.slack.called("reactions.add")) == 1


async def test_a_work_that_goes_on_after_a_restart_takes_its_sign_away(chat: Chat, held: Held) -> None:
    chat.slack.scopes.discard("assistant:write")
    async with chat.open():
        asked = chat.slack.user("alice").mention("tell me more about it")
        await chat.slack.wait_for(lambda: asked.reactions)
    assert asked.reactions
    async with chat.open():
        held.may_answer.set()
        await chat.seen(asked.ts, "Here it is.")
        await chat.slack.wait_for(lambda: not asked.reactions)


async def test_an_answer_without_any_sign(chat: Chat, held: Held) -> None:
    chat.slack.scopes -= {"assistant:write", "reactions:write"}
    async with chat.open() as brain:
        asked = chat.slack.user("alice").mention("tell me more about it")
        await chat.slack.wait_for(lambda: chat.slack.called("reactions.add"))
        held.may_answer.set()
        await chat.seen(asked.ts, "Here it is.")
        await chat.still(brain)
    assert (asked.reactions, chat.slack.statuses) == ([], [])
    tried = ("agents.sessions.setStatus", "reactions.add", "reactions.remove")
    assert [len(chat.slack.called(method)) for method in tried] == [1, 1, 0]  # what was not put is not taken away
