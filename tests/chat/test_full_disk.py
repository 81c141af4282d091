"""What people say while the bot's disk is full."""

from pathlib import Path

import pytest

from tests.chat.conftest import Chat
from tests.platforms.slack_server import SlackServer

LONG = "hello? " * 1500  # more than fits into the pages that there are


async def test_words_that_came_while_the_disk_was_full_are_answered_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.conversation.backlog.PAUSES_S", (0.05, 0.05))
    async with SlackServer(rate_scale=100, ack_deadline_s=0.5, redeliver_after_s=(0.05,)) as slack:
        chat, alice = Chat(tmp_path, slack), slack.user("alice")
        async with chat.open() as brain:
            first = alice.mention("help")
            await chat.seen(first.ts, "What I can do")
            await chat.still(brain)
            await chat.limit_pages(1)
            asked = alice.mention(LONG)
            alice.say(f"{LONG} and the other file?", thread=asked.ts)
            last = [slack.deliveries[-1], *slack.deliveries_of(asked)]
            await slack.wait_for(lambda: all(len(d.attempts) == 2 and d.attempts[-1].ended_s for d in last))
            assert not any(delivery.acked for delivery in last)  # Slack has given up
            await chat.limit_pages(1_000_000)
            await slack.wait_for(lambda: sum(m.user == slack.bot_user_id for m in slack.thread(asked.ts)) == 2)
