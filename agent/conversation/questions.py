"""Questions to people that a turn waits for: asked on a card, answered once, by a button or in words.

A waiting question is a row. Its answer, the end of the inbox item that gave it and the turn that goes on are one
transaction, so an answer is neither lost nor taken twice. Called by tool calls and the inbox router.
"""

import json
from collections.abc import Sequence
from datetime import timedelta

from agent.delivery.outbox import OutboxDelivery
from agent.domain.content import Button, Card, Content
from agent.domain.errors import Conflict, NotAllowed
from agent.domain.ids import new_ulid
from agent.domain.inbound import Clicked, Person, Thread
from agent.domain.questions import ANSWER, QUESTION_KEY, Question, typed
from agent.ports import AttachedFile, Clock, ModelMessage, Role, ToolCall
from agent.stores import Conversations, InboxItem, Questions, Turn
from agent.tools.tool import Result

NOBODY = "Nobody answered in time."


class QuestionService:
    """Asks, takes answers, closes what nobody answered."""

    def __init__(
        self,
        questions: Questions,
        conversations: Conversations,
        delivery: OutboxDelivery,
        clock: Clock,
        *,
        lifetime: timedelta,
    ) -> None:
        """`lifetime` is how long a question stays open."""
        self._questions = questions
        self._conversations = conversations
        self._delivery = delivery
        self._clock = clock
        self._lifetime = lifetime
        self._asked_in: set[str] = set()  # keys of threads that may have an open question: most messages need no look

    async def recover(self) -> None:
        """Know the threads in which a stopped bot had asked."""
        self._asked_in.update(await self._questions.threads())

    async def ask(self, turn: Turn, call: ToolCall, asked: Result) -> None:
        """Store the question and show its card; the turn is paused in the same transaction."""
        question = Question(
            id=f"q-{new_ulid()}",
            session_id=turn.session_id,
            turn_id=turn.id,
            call_id=call.id,
            thread=turn.thread,
            person=turn.person,
            text=asked.text,
            choices=asked.choices,
            expires_at=self._clock.now() + self._lifetime,
        )
        self._asked_in.add(turn.thread.key)
        await self._questions.ask(question, Content(card=_card(question)))
        self._delivery.wake(turn.thread.key)

    async def open_in(self, thread: Thread) -> Sequence[Question]:
        """The open questions of a thread, the oldest first."""
        return await self._questions.open_in(thread) if thread.key in self._asked_in else ()

    async def waits(self, turn: Turn) -> bool:
        """Whether people are being asked something in this turn."""
        return any(question.turn_id == turn.id for question in await self.open_in(turn.thread))

    async def open_for(self, thread: Thread, person: Person) -> Question | None:
        """The oldest open question that this person's words in a thread answer."""
        asked = await self.open_in(thread)
        return next((question for question in asked if question.person.key == person.key), None)

    async def answer(self, item: InboxItem, question: Question, words: str, files: Sequence[AttachedFile]) -> Turn:
        """Take an answer, in words or the number of a choice; the turn that goes on.

        Raises:
            Conflict: there was an answer before.
        """
        person = item.inbound.person
        words = _choice(question, words) or words
        text = json.dumps({"text": f"{person.shown} answered: {words}"}, ensure_ascii=False)
        said = ModelMessage(Role.TOOL, text, call_id=question.call_id, steers=person.key, files=tuple(files))
        turn = await self._close(question, said, f"{person.shown}: {words}", item_id=item.id)
        if turn is None:
            raise Conflict("This question was answered before, or has expired.")
        return turn

    async def click(self, item: InboxItem, click: Clicked) -> Turn:
        """Take the answer of a button.

        Raises:
            NotAllowed, NotFound, Conflict: nothing was done; the text says why.
        """
        question_id, _, number = click.subject.rpartition(".")
        question, person = await self._questions.get(question_id), item.inbound.person
        if person.external and person.key != question.person.key:
            raise NotAllowed("Guests of another organisation answer only what they were asked themselves.")
        return await self.answer(item, question, question.choices[int(number)], ())

    async def expire(self) -> list[Turn]:
        """Close what nobody answered in time; the turns that go on."""
        going_on = []
        for question in await self._questions.expired(self._clock.now()):
            said = ModelMessage(Role.TOOL, json.dumps({"text": NOBODY}), call_id=question.call_id)
            going_on.append(await self._close(question, said, NOBODY))
        return [turn for turn in going_on if turn is not None]

    async def drop(self, questions: Sequence[Question], why: str, *, ended_by: int = 0) -> None:
        """Close questions without an answer and end their turns; `ended_by` is the inbox item that says so."""
        for question in questions:
            said = ModelMessage(Role.TOOL, json.dumps({"text": why}), call_id=question.call_id)
            turn = await self._close(question, said, why)
            if turn is not None:
                last = ModelMessage(Role.ASSISTANT, why, ended_by=ended_by)
                key = QUESTION_KEY.format(question.id)
                await self._conversations.end_turn(turn, last, key=key, content=_closed(question, why))

    async def _close(
        self, question: Question, said: ModelMessage, shown: str, *, item_id: int | None = None
    ) -> Turn | None:
        """Store an answer and show it; None where there was one before."""
        if not await self._questions.close(question, said, _closed(question, shown), item_id=item_id):
            return None
        self._delivery.wake(question.thread.key)
        return await self._conversations.turn(question.turn_id)


def _choice(question: Question, words: str) -> str | None:
    """The choice that these words name, if they name one."""
    named = dict(zip(typed(question.choices), question.choices, strict=True))
    return named.get(words.strip().removesuffix("."))


def _closed(question: Question, shown: str) -> Content:
    footer = shown if len(shown) <= 300 else f"{shown[:299]}…"
    return Content(card=_card(question).model_copy(update={"buttons": (), "tone": "neutral", "footer": footer}))


def _card(question: Question) -> Card:
    buttons = tuple(
        Button(action=ANSWER, subject=f"{question.id}.{number}", label=choice)
        for number, choice in enumerate(question.choices)
    )
    until = f"{question.expires_at:%Y-%m-%d %H:%M} UTC"
    return Card(
        kind="notice",
        title=f"A question for {question.person.shown}",
        tone="warn",
        body=question.text,
        buttons=buttons,
        footer=f"Choose, or answer in your own words · until {until}",
    )
