"""Tools over a whole conversation, for commands alone: a fresh start, undo, compact, export, continuing, forgetting."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import JsonValue

from agent.cards import counted
from agent.conversation.compaction import Compactor
from agent.conversation.context import Conversation
from agent.conversation.exported import as_markdown, said_in
from agent.conversation.questions import QuestionService
from agent.delivery.outbox import OutboxDelivery
from agent.domain.content import Card
from agent.domain.errors import Conflict, NotFound
from agent.domain.policy import Effect
from agent.domain.session_events import quoted
from agent.ports import ModelMessage
from agent.runs.pictures.artifacts import ArtifactWriter
from agent.stores import Compaction, Conversations, Sessions, Turn
from agent.tools.dispatch import OUTCOME_UNKNOWN, Dispatcher
from agent.tools.tool import Arguments, Caller, Plan, Result, Tool

EMPTY = "Nothing was said in this conversation yet."
FRESH = "_A fresh start: of what was said so far I read nothing any more. `resume {}` brings it back._"
AT_WORK = "An answer is being given here. Say `stop`, or wait for its end, and then begin anew."
BEGUN_ANEW = "A fresh start was made before anybody answered."
BACK = "_I read this conversation from its beginning again._"
MOVED = "This thread goes on with the conversation `{}`"
KEPT = "; what was said here before is kept as `{}`"
EXPORTS = "sessions"  # the folder of all exports
NO_SESSION = "I find no conversation there that you may read here."
FORGET = (
    "Your words, and your name with them, are deleted from every conversation that I stored, from its summaries, "
    "from cards, from what `undo` said, from errors and from what I was sent; so is what I would read of them, and "
    "every `export` that I keep. What else stands in the chat (answers that repeat them, exports that I posted), "
    "files, runs, and who approved what stay."
)


class NoArguments(Arguments):
    """Takes nothing."""


class AddressArguments(Arguments):
    address: str


class ForgetArguments(Arguments):
    me: bool = True


class SessionTools:
    """The tools of this family."""

    def __init__(
        self,
        sessions: Sessions,
        conversations: Conversations,
        compactor: Compactor,
        questions: QuestionService,
        artifacts: ArtifactWriter,
        delivery: OutboxDelivery,
        dispatcher: Dispatcher,
    ) -> None:
        """The `dispatcher` knows the effects of the tools, which `undo` names."""
        self._sessions = sessions
        self._conversations = conversations
        self._compactor = compactor
        self._questions = questions
        self._artifacts = artifacts
        self._delivery = delivery
        self._exporting = asyncio.Lock()  # no export is made of what is being deleted
        self._dispatcher = dispatcher

    def tools(self) -> Sequence[Tool]:
        """Their declarations; a model is offered none of them."""

        def tool(name: str, does: str, arguments: type[Arguments], **more: Any) -> Tool:
            return Tool(name, does, arguments, Effect.WRITE, offered=False, quotes=False, **more)

        return (
            tool("new_session", "Read nothing any more of what was said so far.", NoArguments, run=self.new),
            tool("compact_session", "Summarise what was said.", NoArguments, run=self.compact, limit_s=120.0),
            tool("undo_turn", "Take the last turn back.", NoArguments, run=self.undo),
            tool("export_session", "Everything that was said, as files.", NoArguments, run=self.export),
            tool("resume_session", "Go on with another conversation.", AddressArguments, run=self.resume),
            Tool(
                "forget_person",
                "Delete what a person said.",
                ForgetArguments,
                Effect.DESTROY,
                plan=self.plan_forget,
                execute=self.forget,
                offered=False,
                quotes=False,
            ),
        )

    async def new(self, caller: Caller, _asked: NoArguments) -> Result:
        """Go on without what was said, and without what was asked."""
        if any(turn.session_id == caller.session_id for turn in await self._conversations.running_turns()):
            raise Conflict(AT_WORK)
        await self._questions.drop(await self._questions.open_in(caller.thread), BEGUN_ANEW)
        _, newest = await self._newest(caller)
        await self._compact(caller, Compaction(newest, newest, newest), FRESH.format(caller.session_id))
        return Result("")

    async def compact(self, caller: Caller, _asked: NoArguments) -> Result:
        """Summarise it, at whatever length; who asks for that is billed for it."""
        newest, _ = await self._newest(caller)
        turn = replace(newest, person=caller.person, thread=caller.thread)
        talk = Conversation.of(await self._conversations.context(caller.session_id))
        return Result(await self._compactor.compact(turn, talk, key=caller.act))

    async def undo(self, caller: Caller, _asked: NoArguments) -> Result:
        """Take the last turn out of what models read, and name what it did and the files that came with it."""
        turn, _ = await self._newest(caller)
        await self._sessions.undo(turn.id, thread=caller.thread, key=caller.act, notice=self._undone)
        self._delivery.wake(caller.thread.key)
        return Result("")

    def _undone(self, turn: Sequence[ModelMessage]) -> str:
        text = f"I forgot the last turn: {quoted(turn[0].text)}, with all that was said in it."
        files = dict.fromkeys(file.name for said in turn for file in said.files)
        done = self._changes(turn)
        stays = ("What was done in it stays done:", *done) if done else ()
        return "\n".join((text, *(f"`{name}` stays attached." for name in files), *stays))

    async def export(self, caller: Caller, _asked: NoArguments) -> Result:
        """As jsonl for programs and as markdown for people."""
        async with self._exporting:
            return await self._export(caller)

    async def _export(self, caller: Caller) -> Result:
        recording = await self._sessions.recording(caller.session_id)
        if not recording.events:
            raise NotFound(EMPTY)
        about = f"{EXPORTS}/{caller.session_id}"
        lines = "".join(f"{line}\n" for line in recording.lines())
        jsonl = await self._artifacts.document(lines, name="conversation.jsonl", about=about)
        markdown = await self._artifacts.document(as_markdown(recording), name="conversation.md", about=about)
        text = f"The conversation `{caller.session_id}`: {counted(said_in(recording), 'message')}."
        return Result(text, files=(jsonl, markdown))

    async def resume(self, caller: Caller, asked: AddressArguments) -> Result:
        """Bind this thread to another conversation, or read its own from the beginning again."""
        address = asked.address.strip("<>`")
        session_id = address if address.startswith("s-") else await self._sessions.at(address, caller.thread)
        homes = await self._sessions.threads(session_id or "")
        here = replace(caller, workspace=False)  # what opens runs to a workspace opens no conversation
        if session_id is None or not any(here.may_read(home) for home in homes):
            raise NotFound(NO_SESSION)
        if session_id == caller.session_id:
            _, newest = await self._newest(caller)
            await self._compact(caller, Compaction(made_after=newest), BACK)
            return Result("")
        left = KEPT.format(caller.session_id) if await self._sessions.newest(caller.session_id) else ""
        text = f"{MOVED.format(session_id)}{left}."
        await self._sessions.bind(caller.thread, session_id, key=caller.act, text=text)
        self._delivery.wake(caller.thread.key)
        return Result("")

    async def plan_forget(self, caller: Caller, _asked: ForgetArguments) -> Plan:
        """Ask the person once more."""
        card = Card(kind="approval", title="Delete what you said?", tone="warn", body=FORGET)
        return Plan({"person": caller.person.key}, card)

    async def forget(self, caller: Caller, _exact: dict[str, JsonValue], _token: str) -> Result:
        """Delete it; done twice, there is nothing left to delete."""
        async with self._exporting:
            await self._artifacts.delete(about=EXPORTS)
            forgotten = await self._sessions.forget(caller.person)
        for thread_key in forgotten.threads:
            self._delivery.wake(thread_key)
        return Result(f"I deleted {counted(forgotten.messages, 'message')} of yours.")

    async def _newest(self, caller: Caller) -> tuple[Turn, int]:
        found = await self._sessions.newest(caller.session_id)
        if found is None:
            raise NotFound(EMPTY)
        return found

    async def _compact(self, caller: Caller, made: Compaction, notice: str) -> None:
        await self._compactor.store(caller.session_id, caller.thread, made, notice, key=caller.act)

    def _changes(self, turn: Sequence[ModelMessage]) -> list[str]:
        """What calls of a turn did, or may have done, that is not undone with it."""
        tools = {call.id: call.name for said in turn for call in said.calls}
        lines = []
        for said in turn:
            name = tools.get(said.call_id, "")
            answer = json.loads(said.text) if name and said.text.startswith("{") else {}
            reads = self._dispatcher.knows(name) and self._dispatcher.effect(name) is Effect.READ
            if not answer or reads or "approval" in answer:
                continue
            if "error" not in answer:
                lines.append(f"- `{name}`: {str(answer.get('text', ''))[:200]}")
            elif answer.items() >= OUTCOME_UNKNOWN.items():
                lines.append(f"- `{name}` may have been done: {str(answer['error'])[:200]}")
        return lines
