"""Which words reach the bot, and which belong together."""

from tests.chat.conftest import Chat
from tests.platforms.slack_world import Message

CSV = b"age,health,visited_doctor\n30,good,yes\n"


async def test_a_thread_that_a_command_opened_is_heard(chat: Chat) -> None:
    alice = chat.slack.user("alice")
    async with chat.open():
        for asked in (alice.mention("help"), alice.say("!train runs")):
            await answers(chat, asked.ts, 1)
            alice.say("train a model on my data", thread=asked.ts)
            await answers(chat, asked.ts, 2)


async def answers(chat: Chat, ts: str, count: int) -> None:
    """Wait until the bot has said so much in a thread."""
    bot = chat.slack.bot_user_id
    await chat.slack.wait_for(lambda: sum(message.user == bot for message in chat.slack.thread(ts)) >= count)


async def test_a_direct_message_is_one_conversation(chat: Chat) -> None:
    alice = chat.slack.user("alice")

    def standing() -> list[Message]:
        return chat.slack.messages(f"dm-{alice.name}")

    async with chat.open():
        given = alice.dm("look at this", files=[chat.slack.file("visits.csv", CSV)])
        await chat.slack.wait_for(lambda: "Data: visits.csv" in chat.slack.transcript())
        alice.dm("train a model that predicts visited_doctor")
        await chat.slack.wait_for(lambda: any("Approve" in m.buttons for m in standing()))
        alice.dm("help", thread=given.ts)  # a thread of its own, where the person made one
        await chat.seen(given.ts, "What I can do")
        assert {m.thread_ts for m in standing() if m.user == chat.slack.bot_user_id} == {"", given.ts}


async def test_what_another_workspace_sends_is_refused(chat: Chat) -> None:
    async with chat.open() as brain:
        home = chat.slack.team_id
        chat.slack.team_id = "T0OTHER"
        chat.slack.user("mallory").mention("help")
        chat.slack.user("mallory").slash("help")
        chat.slack.team_id = home
        await chat.still(brain)
        assert "What I can do" not in chat.slack.transcript() + str([m.shown for m in chat.slack.whispers])
        asked = chat.slack.user("alice").mention("help")
        await chat.seen(asked.ts, "What I can do")
