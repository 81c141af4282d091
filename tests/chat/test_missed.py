"""What people wrote while the bot was away is answered, once, and only what is for the bot."""

import pytest

from tests.chat.conftest import Chat
from tests.platforms.slack_server import Person
from tests.platforms.slack_world import Message

HELP, AWAY = "What I can do", "I was away from"


def answers(chat: Chat, ts: str, words: str = HELP) -> int:
    """How many messages of a thread show these words."""
    return sum(words in message.shown for message in chat.slack.thread(ts))


async def test_what_was_written_while_it_was_away_is_answered_once(chat: Chat) -> None:
    slack = chat.slack
    alice, bob = slack.user("alice"), slack.user("bob")
    slack.silent, slack.ago_s = True, 90_000.0
    old = alice.mention("help")  # from before yesterday
    slack.silent, slack.ago_s = False, 7_200.0
    lunch = alice.say("lunch?")
    async with chat.open() as brain:
        asked = alice.mention("help")
        await chat.seen(asked.ts, HELP)
        direct = alice.dm("help")
        await chat.still(brain)

    slack.silent, slack.ago_s = True, 1_800.0
    alice.say("help", thread=asked.ts)
    bob.say("!train help", thread=asked.ts)
    alice.say("help", thread=lunch.ts)
    named, again = bob.mention("help"), alice.dm("help")
    bob.say("good morning, everybody")
    slack.ago_s = 0.0
    slack.fail("conversations.history", retry_after=1)
    for _ in range(2):  # the second start has nothing to answer
        async with chat.open() as brain:
            await slack.wait_for(lambda: answers(chat, asked.ts) == 3 and answers(chat, named.ts) == 1)
            await slack.wait_for(lambda: directs(chat, alice) == 2)
            await read_back(chat)
            await chat.still(brain)
        assert (answers(chat, asked.ts), answers(chat, named.ts), directs(chat, alice)) == (3, 1, 2)
        assert answers(chat, asked.ts, AWAY) == answers(chat, named.ts, AWAY) == directs(chat, alice, AWAY) == 1
        assert [len(slack.thread(m.ts)) for m in (old, lunch, direct, again)] == [1, 2, 1, 1]
        slack.calls.clear()
    shown = [message.shown for message in slack.thread(asked.ts)]
    assert [AWAY in text for text in shown].index(True) == 4  # before the answers to what was missed


async def test_a_mention_in_an_old_thread_of_others_is_answered(chat: Chat) -> None:
    slack = chat.slack
    alice, bob = slack.user("alice"), slack.user("bob")
    slack.ago_s = 3 * 86_400.0
    old, quiet = alice.say("which model is best?"), alice.say("lunch?")
    bob.say("at one", thread=quiet.ts)
    slack.ago_s = 0.0
    async with chat.open() as brain:
        asked = alice.mention("help")
        await chat.seen(asked.ts, HELP)
        await chat.still(brain)
    slack.silent = True
    bob.say("let me think", thread=old.ts)
    bob.mention("help", thread=old.ts)
    for _ in range(2):
        slack.calls.clear()
        async with chat.open() as brain:
            await slack.wait_for(lambda: answers(chat, old.ts) == 1)
            await read_back(chat)
            await chat.still(brain)
        assert (answers(chat, old.ts), len(slack.thread(quiet.ts))) == (1, 2)
        assert quiet.ts not in {call["ts"] for call in slack.called("conversations.replies")}


def directs(chat: Chat, person: Person, words: str = HELP) -> int:
    """How many direct messages to a person show these words."""
    return sum(words in message.shown for message in chat.slack.messages(f"dm-{person.name}"))


async def read_back(chat: Chat) -> None:
    """Wait until the last channel was read."""
    channels = {channel.id for channel in chat.slack.channels.values()}
    await chat.slack.wait_for(
        lambda: channels <= {call["channel"] for call in chat.slack.called("conversations.history")}
    )


async def test_a_connection_that_was_made_anew_loses_nothing(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.slack.adapter.PING_S", 0.2)
    monkeypatch.setattr("bot.slack.adapter.LOOK_S", 0.02)
    slack = chat.slack
    alice = slack.user("alice")
    async with chat.open() as brain:
        asked = alice.mention("help")
        await chat.seen(asked.ts, HELP)
        slack.silent = True
        missed: list[Message] = [alice.mention("help"), alice.say("help", thread=asked.ts)]
        slack.silent = False
        await slack.drop_sockets()
        await slack.wait_for(lambda: answers(chat, missed[0].ts) == 1 and answers(chat, asked.ts) == 2)
        await chat.still(brain)
        assert AWAY not in slack.transcript()  # it was gone for less than a minute
