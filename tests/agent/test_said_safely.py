"""What a model says leaves without secrets, also while it is said."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence

import pytest

from agent.conversation.redacted import Growing
from agent.ports import ModelMessage, ModelReply, ToolCall, ToolSchema
from tests.agent.conftest import Harness
from tests.agent.stage import Stage
from tests.fakes import BOB, ScriptedModel, said

TOKEN = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345"
RANDOM = "qR7tY2uI9oP4aS6dF1gH"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA1234\nAAKCAQEA1234MIIEowIB\n-----END RSA PRIVATE KEY-----"


class InPieces:
    """Says its text in pieces of some signs and then waits for ever, or ends it with a call."""

    def __init__(self, text: str, size: int, *calls: ToolCall, ends: bool = True) -> None:
        self.text, self.size, self.calls, self.ends = text, size, calls, ends
        self.said = 0

    async def stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        for at in range(0, len(self.text), self.size):
            yield self.text[at : at + self.size]
            self.said += 1
        if not self.ends:
            await asyncio.Event().wait()
        yield ModelReply(self.text, self.calls, "m")


def growing(text: str, size: int) -> list[str]:
    """What is shown of a text that is said in pieces of `size` signs."""
    answer = Growing()
    return [answer.more(text[at : at + size]) for at in range(0, len(text), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 400])
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"the token is {TOKEN} ok\nand more", "the token is [secret: huggingface] ok\nand "),
        (f"my secret {RANDOM}, then", "my secret [secret: secret], "),
        (f"结果很好。{TOKEN}。", "结果很好。[secret: huggingface]。"),
        ("run r-abc123 has reached validation_loss=0.31 and goes on ", None),
        ("以下是结果：准确率很高。", None),
    ],
)
def test_words_are_shown_once_they_are_whole(text: str, shown: str | None, size: int) -> None:
    assert "".join(growing(text, size)) == (text if shown is None else shown)


@pytest.mark.parametrize("size", [1, 5, 30])
def test_a_private_key_is_kept_back_to_its_end(size: int) -> None:
    shown = growing(f"It is {KEY} and that was it, ", size)
    assert "".join(shown).endswith(" and that was it, ")
    assert not [line for line in KEY.splitlines()[1:3] if line[:6] in "".join(shown)]
    assert "MIIE" not in "".join(growing(f"It is {KEY[:60]} and goes on ", size))


def test_what_is_shown_of_a_word_comes_with_the_next_sign_behind_it() -> None:
    assert growing("one two", 1) == ["", "", "", "one ", "", "", ""]


async def test_no_secret_of_an_answer_stands_in_the_thread_or_the_database(harness: Harness) -> None:
    asks = {"question": f"use {TOKEN}?", "choices": [TOKEN, "no"]}
    harness.model = InPieces(f"the token is {TOKEN} ok", 5, ToolCall("c1", "ask_user", json.dumps(asks)))
    async with harness.open() as brain:
        await brain.router.accept(said("hello"))
        await Stage(harness, brain).settled()
        seen = repr([harness.adapter.messages, harness.adapter.whispers])
    kept = b"".join(path.read_bytes() for path in harness.folder.glob("test.db*")).decode(errors="replace")
    assert "the token is [secret: huggingface] ok" in seen
    assert "use [secret: huggingface]?" in seen
    assert {button.label for content in harness.adapter.shown if content.card for button in content.card.buttons} == {
        "[secret: huggingface]",
        "no",
    }
    assert [place for place in (seen, kept) if TOKEN[:9] in place] == []


async def test_a_call_is_made_as_it_is_stored(harness: Harness) -> None:
    call = ToolCall("c1", "look_up", json.dumps({"question": f"whose is {TOKEN}?"}))
    harness.model = model = ScriptedModel(ModelReply("", (call,), "m"), ModelReply("Nobody's.", (), "m"))
    async with harness.open() as brain:
        await Stage(harness, brain).tells("hello")
    (made,) = model.asked[1][2].calls
    assert json.loads(made.arguments) == {"question": "whose is [secret: huggingface]?"}


@pytest.mark.parametrize(("said_by_then", "left"), [(f"It is {TOKEN[:12]}", "It is"), ("It is goo", "It is goo")])
async def test_an_answer_that_was_cut_off_keeps_no_part_of_a_secret(
    harness: Harness, said_by_then: str, left: str
) -> None:
    harness.model = model = InPieces(said_by_then, 4, ends=False)
    async with harness.open() as brain:
        await brain.router.accept(said("hello"))
        await harness.until(lambda: model.said * 4 >= len(said_by_then))
        await brain.router.accept(said("stop", person=BOB, mentions_bot=False))
        await harness.until(lambda: harness.adapter.texts()[-1:] == [f"{left}\n\n_Stopped by bob._"])
