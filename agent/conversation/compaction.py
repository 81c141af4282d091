"""Keeps a conversation within what its model can read.

First old results of tools are left out, then earlier messages are replaced by a summary that the model writes, stored
as one row. A line in the thread says so. Called by the turn loop before each step and after an overflow, and by the
command `compact`.
"""

from collections.abc import Sequence
from dataclasses import replace

from agent.cards import counted
from agent.conversation.bills import Bills
from agent.conversation.context import (
    LONGEST_SHARE,
    Conversation,
    answered_upto,
    cleared_upto,
    estimated_tokens,
    fitting,
    in_short,
    longest_chars,
    next_read,
    read_by_model,
    summarised_upto,
    task_of,
    transcript,
)
from agent.conversation.prompt import SUMMARY
from agent.delivery.outbox import OutboxDelivery
from agent.domain.content import Content
from agent.domain.errors import AppError, OverBudget, Unavailable
from agent.domain.inbound import Thread
from agent.domain.redaction import without_secrets
from agent.ports import OFFLINE, ModelMessage, ModelOf, ModelReply, Models, Role
from agent.runs.budgets import BudgetService
from agent.stores import Compaction, Conversations, Turn

FULL_SHARE = 0.8  # of the window; then something is done
ROOM_SHARE = 0.6  # with less than that used, nothing more is
SUMMARY_SHARE, SHORT_SUMMARY = 0.1, 200  # of a window, for a summary; one of so few tokens is never cut
LEAST_SHARE = 0.005  # of a window, for one message
BESIDES_TOKENS = 7_000  # the system's word and the tools
CLEARED = "_The conversation was getting long, so I put {results} of earlier steps away; I can read each again._"
SUMMARISED = (
    "_The conversation was getting long, so I summarised {messages}. Kept as they are: the request and the newest "
    "steps. Runs, files and open questions I look up each time._"
)
SHORTENED = (
    "_What came last is longer than the model can read at once, so it reads the beginning and the end of each message "
    "and result. It can read on in any of them._"
)
COMPACTED = (
    "_I summarised the {messages} so far. Runs, files and open questions I look up each time; nothing was deleted._"
)
NOTHING = "There is nothing here to summarise yet."
BY_RULES = "I go by rules here, which read all of it each time at no cost, so I leave it as it is. `new` starts afresh."


class Compactor:
    """Makes compactions and stores them."""

    def __init__(
        self,
        conversations: Conversations,
        delivery: OutboxDelivery,
        model_of: ModelOf,
        bills: Bills,
        budgets: BudgetService,
        *,
        window: int,
        models: Models | None = None,
    ) -> None:
        """`window` is in tokens, for models whose own is not known. Without `models`, tokens are estimated only."""
        self._conversations = conversations
        self._delivery = delivery
        self._model_of = model_of
        self._bills = bills
        self._budgets = budgets
        self._window = window
        self._models = models

    def window(self, talk: Conversation) -> int:
        """How many tokens the model reads that answered last."""
        return next((said.window for said in reversed(talk.history) if said.window), self._window)

    async def fit(self, turn: Turn, talk: Conversation, *, overflowed: bool = False) -> None:
        """Make room where the window is nearly full, or where the model said that it overflowed."""
        window = self.window(talk)
        if self._budgets.charged and any(longest_chars(talk, window) < len(said.text) for said in task_of(talk)):
            await self._say_shortened(turn)
        if not overflowed and await self._fits(talk, int(FULL_SHARE * window), window):
            return
        read = min(window, _read_tokens(talk, window)) if overflowed else window  # it may be smaller than we think
        keep = int(LONGEST_SHARE * read)
        cleared = cleared_upto(talk, keep_tokens=keep)
        made = replace(talk.compaction, cleared=cleared, made_after=_newest(talk))
        put_away = [said.id for said in talk.history if said.role is Role.TOOL and said.id <= cleared]
        is_new = _is_new(put_away, talk.compaction.cleared) and not overflowed
        if is_new and await self._fits(replace(talk, compaction=made), int(ROOM_SHARE * window), window):
            notice = CLEARED.format(results=counted(len(put_away), "result"))
            await self._store(turn, talk, made, notice, key=f"put-away:{turn.id}")
            return
        upto = summarised_upto(talk, keep_tokens=keep)
        old = _summed_up(talk, upto)
        if _is_new(old, talk.compaction.upto):
            notice = SUMMARISED.format(messages=counted(len(old), "message"))
            made = replace(made, upto=upto, summary=await self._summary(turn, talk, upto, read))
            await self._store(turn, talk, made, notice, key=f"summarised:{turn.id}")
        if overflowed and _read_tokens(talk, window) > ROOM_SHARE * read:
            await self._shorten(turn, talk, window, most_tokens=int(ROOM_SHARE * read))

    async def _fits(self, talk: Conversation, most: int, window: int) -> bool:
        """Whether the next call reads fewer than `most` tokens.

        What an estimate, which is rather too large, finds too much is counted by the model's own tokenizer.
        """
        known, since = next_read(talk, window=window, besides=BESIDES_TOKENS)
        if known + estimated_tokens(since) < most:
            return True
        if self._models is None or known >= most:
            return False
        try:
            return known + await self._models.tokens(talk.preference, since) < most
        except Unavailable:
            return False

    async def _shorten(self, turn: Turn, talk: Conversation, window: int, *, most_tokens: int) -> None:
        """Leave out the middle of messages that must not be summarised: the request, and results not read yet."""
        while _read_tokens(talk, window) > most_tokens and talk.longest_share > LEAST_SHARE:
            talk.longest_share /= 2
        await self._say_shortened(turn)

    async def _say_shortened(self, turn: Turn) -> None:
        await self._delivery.put(f"shortened:{turn.id}", turn.thread, Content(text=SHORTENED), urgent=True)

    async def compact(self, turn: Turn, talk: Conversation, *, key: str) -> str:
        """Summarise all of a conversation for the person of `turn`; what people are told where there is nothing.

        Raises:
            OverBudget: their budgets are used up.
        """
        if not self._budgets.charged:  # rules would miss what a summary leaves out
            return BY_RULES
        upto = answered_upto(talk)
        count = _old(talk, upto)
        if not _is_new(_summed_up(talk, upto), talk.compaction.upto):
            return NOTHING
        if why := await self._budgets.refusal(turn.person.key, turn.thread, turn.session_id):
            raise OverBudget(why)
        summary = await self._summary(turn, talk, upto, self.window(talk))
        notice = COMPACTED.format(messages=counted(count, "message"))
        await self.store(turn.session_id, turn.thread, Compaction(upto, upto, _newest(talk), summary), notice, key=key)
        return ""

    async def _summary(self, turn: Turn, talk: Conversation, upto: int, window: int) -> str:
        """The model's own summary; where none answers, people's words in short."""
        text = transcript(talk, upto=upto, most_chars=int(window * ROOM_SHARE) * 2)
        asked = [ModelMessage(Role.SYSTEM, SUMMARY), ModelMessage(Role.USER, text)]
        text, paid = "", list[ModelReply]()
        try:
            async for piece in self._model_of(talk.preference, paid.append).stream(asked, ()):
                if isinstance(piece, ModelReply):
                    paid.append(piece)
                    text = "" if piece.model == OFFLINE else without_secrets(piece.text)[0].strip()
        except AppError:
            text = ""
        finally:
            for reply in paid:
                await self._bills.add(turn, reply)
        return fitting(text or in_short(talk, upto=upto), most_tokens=max(SHORT_SUMMARY, int(window * SUMMARY_SHARE)))

    async def _store(self, turn: Turn, talk: Conversation, made: Compaction, notice: str, *, key: str) -> None:
        """A small window is full again and again: the turn's one line about it changes then."""
        await self.store(turn.session_id, turn.thread, made, notice, key=key)
        talk.compaction, talk.now = made, None

    async def store(self, session_id: str, thread: Thread, made: Compaction, notice: str, *, key: str = "") -> None:
        """Let models read this of a session from now on, and tell its thread, under `key` where it has one."""
        await self._conversations.compact(session_id, made, thread=thread, text=notice, key=key)
        self._delivery.wake(thread.key)


def _read_tokens(talk: Conversation, window: int) -> int:
    return estimated_tokens(read_by_model(talk, window=window))


def _newest(talk: Conversation) -> int:
    return max((said.id for said in talk.history), default=0)


def _old(talk: Conversation, upto: int) -> int:
    return sum(talk.compaction.upto < said.id <= upto for said in talk.history)


def _summed_up(talk: Conversation, upto: int) -> Sequence[int]:
    """The ids of the messages that a summary up to there stands for: not what people said in the present turn."""
    task = {said.id for said in task_of(talk)}
    return [said.id for said in talk.history if said.id <= upto and said.id not in task]


def _is_new(ids: Sequence[int], since: int) -> bool:
    return any(number > since for number in ids)
