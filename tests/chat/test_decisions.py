"""A typed yes or no decides only what its author can have seen, and what waits for that person."""

import asyncio
import io
import os
import sys
from pathlib import Path

import pytest
from rich.console import Console

from bot.console.adapter import ConsoleAdapter
from bot.console.plain import PlainScreen
from tests.agent.conftest import Harness
from tests.chat.conftest import Chat
from tests.chat.test_threads import CSV
from tests.platforms.slack_world import Message


async def planned(chat: Chat) -> Message:
    """Alice has asked for a training, and its card stands there; the message that began the thread."""
    alice = chat.slack.user("alice")
    asked = alice.mention("train a model that predicts visited_doctor", files=[chat.slack.file("visits.csv", CSV)])
    await chat.seen(asked.ts, "Train a model", "Approve")
    return asked


async def test_a_yes_that_was_written_before_the_card_stood_there_approves_nothing(chat: Chat) -> None:
    alice = chat.slack.user("alice")
    async with chat.open() as brain:
        files = [chat.slack.file("visits.csv", CSV)]
        asked = alice.mention("train a model that predicts visited_doctor", files=files)
        alice.say("yes", thread=asked.ts)
        again = await chat.seen(asked.ts, "Approve a-", "Train a model for visited_doctor?", "before this was shown")
        await chat.still(brain)
        assert chat.fleet.launched == []
        alice.click(again, "Approve")
        await chat.until(lambda: len(chat.fleet.launched) == 1)
        await chat.slack.wait_for(lambda: not again.buttons and "Approved by Alice" in again.shown)


async def test_a_question_that_is_decided_loses_its_buttons_wherever_it_was_asked(chat: Chat) -> None:
    alice = chat.slack.user("alice")
    async with chat.open() as brain:
        asked = await planned(chat)
        alice.say("train a model that predicts health", thread=asked.ts)
        card = await chat.seen(asked.ts, "Train a model for health?", "Approve")
        await chat.still(brain)
        alice.say("yes", thread=asked.ts)
        which = await chat.seen(asked.ts, "Which one?", "2 questions are open")
        assert len(which.buttons) == 4
        alice.click(card, "Reject")
        await chat.slack.wait_for(lambda: len(which.buttons) == 2 and "Rejected by Alice" in which.shown)
        (approve,) = [label for label in which.buttons if label.startswith("Approve")]
        alice.click(which, approve)
        await chat.until(lambda: len(chat.fleet.launched) == 1)
        await chat.slack.wait_for(lambda: not which.buttons and "Approved by Alice" in which.shown)


async def test_a_yes_to_a_colleague_approves_nothing(chat: Chat) -> None:
    alice, bob = chat.slack.user("alice"), chat.slack.user("bob")
    async with chat.open() as brain:
        asked = await planned(chat)
        await chat.still(brain)
        before = len(chat.slack.thread(asked.ts))
        bob.say("yes", thread=asked.ts)
        alice.say("yes, we talked about that yesterday", thread=asked.ts)
        await chat.seen(asked.ts, "did not understand")  # that was a sentence, and no decision
        await chat.still(brain)
        assert len(chat.slack.thread(asked.ts)) == before + 3  # nothing was said to bob
        bob.mention("yes", thread=asked.ts)
        await chat.seen(asked.ts, "Only the person who asked")
        assert chat.fleet.launched == []
        alice.say("yes", thread=asked.ts)
        await chat.until(lambda: len(chat.fleet.launched) == 1)


async def test_what_was_piped_into_a_terminal_before_the_card_approves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "visits.csv").write_bytes(CSV)
    read, write = os.pipe()
    monkeypatch.setattr(sys, "stdin", os.fdopen(read))
    printed = io.StringIO()
    harness = Harness(tmp_path)
    terminal = ConsoleAdapter(
        thread_id="t", person="ann", files=tmp_path, screen=PlainScreen(Console(file=printed, width=100))
    )
    harness.adapter = terminal  # type: ignore[assignment]
    os.write(write, f"train a model that predicts visited_doctor @{tmp_path / 'visits.csv'}\nyes\n".encode())
    async with harness.open() as brain:
        lines = asyncio.create_task(terminal.run(brain.router.accept))
        await harness.until(lambda: "Approve a-" in printed.getvalue())
        assert "approve a-" in printed.getvalue()  # what to type instead
        await brain.router.idle()
        assert harness.fleet.launched == []
        os.write(write, b"yes\n")
        await harness.until(lambda: len(harness.fleet.launched) == 1)
        os.close(write)
        await lines
