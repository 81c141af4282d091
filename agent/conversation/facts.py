"""The present facts of a thread (runs, files, questions, rejections), read anew at each step and never stored."""

import json
from collections.abc import Iterable
from typing import NamedTuple

from agent.conversation.context import Conversation
from agent.conversation.taint import quotes_others, told_runs
from agent.domain.approvals import ApprovalState
from agent.domain.inbound import one_line
from agent.domain.runs import Run
from agent.ports import Clock, RunNow
from agent.stores import Refused, ThreadFacts, Turn

MOST_FILES = 30


class Facts(NamedTuple):
    """The facts in sentences, for language models, and the runs among them, for the rules."""

    words: str
    runs: tuple[RunNow, ...]


class FactsInWords:
    """Reads the facts and puts them into sentences."""

    def __init__(self, store: ThreadFacts, clock: Clock) -> None:
        """The clock says what time it is."""
        self._store = store
        self._clock = clock

    async def read(self, turn: Turn, talk: Conversation) -> Facts:
        """The facts; what people chose as a name or gave as a reason stands in quotes."""
        now, files = talk.now or await self._store.now(turn.session_id, turn.thread), talk.files
        talk.now, talk.told_of_others = None, bool(talk.told_of_others) or quotes_others(now, turn)
        lines = [f"It is {self._clock.now():%A, %Y-%m-%d %H:%M} UTC."]
        if files:
            lines.append(f"Files in this thread, newest first: {_quoted(file.name for file in files[:MOST_FILES])}.")
        runs = told_runs(now, turn)
        lines += map(_run_words, runs)
        lines += [f"Approval {approval.id} of {approval.tool} waits for people." for approval in now.approvals]
        lines += [f"This question waits: {_quoted([of.text])}." for of in now.questions]
        lines += map(_refused_words, now.refused)
        return Facts(" ".join(lines), tuple(RunNow(run.id, run.state) for run in runs))


def _run_words(run: Run) -> str:
    why = f" ({run.outcome.exit_class.value})" if run.outcome and run.outcome.exit_class else ""
    return f"Run {run.id} for {_quoted([run.spec.subject])} is {run.state.value}{why}."


def _refused_words(refused: Refused) -> str:
    if refused.state is ApprovalState.EXPIRED:
        return f"{refused.tool} expired: nobody decided in time."
    by = f" by {_quoted([refused.by])}" if refused.by else ""
    reason = f": {_quoted([refused.reason])}" if refused.reason else ""
    return f"{refused.tool} was rejected{by}{reason}."


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(json.dumps(one_line(name), ensure_ascii=False) for name in names)
