"""What is so in a thread now: never remembered, so that it survives every compaction and is never old."""

import asyncio
import json
from collections.abc import Iterable, Sequence

from agent.domain.approvals import ApprovalState
from agent.domain.datasets import DatasetRef
from agent.domain.inbound import one_line
from agent.domain.runs import Run
from agent.ports import Clock
from agent.stores import Approvals, Questions, Runs, Turn
from agent.tools.finding import of_thread
from agent.tools.tool import Caller

MOST_FILES, MOST_RUNS = 30, 8


class ThreadFacts:
    """Reads them from the stores at each step."""

    def __init__(self, runs: Runs, approvals: Approvals, questions: Questions, clock: Clock) -> None:
        """Everything but the clock is a store."""
        self._runs = runs
        self._approvals = approvals
        self._questions = questions
        self._clock = clock

    async def read(self, turn: Turn, files: Sequence[DatasetRef]) -> str:
        """The facts in sentences; what people chose as a name stands in quotes."""
        caller = Caller(turn.person, turn.session_id, turn.thread, turn.id)
        pending, runs, questions = await asyncio.gather(
            self._approvals.of_state(ApprovalState.PENDING),
            of_thread(self._runs, caller, MOST_RUNS),
            self._questions.open_in(turn.thread),
        )
        asked = [approval for approval in pending if approval.session_id == turn.session_id]
        told = [f"It is {self._clock.now():%A, %Y-%m-%d %H:%M} UTC."]
        if files:
            told.append(f"Files in this thread, newest first: {_quoted(file.name for file in files[:MOST_FILES])}.")
        told += [_run_words(run) for run in runs]
        told += [f"Approval {approval.id} of {approval.tool} waits for people." for approval in asked]
        told += [f"This question waits: {_quoted([of.text])}." for of in questions]
        return " ".join(told)


def _run_words(run: Run) -> str:
    why = f" ({run.outcome.exit_class.value})" if run.outcome and run.outcome.exit_class else ""
    return f"Run {run.id} for {_quoted([run.spec.subject])} is {run.state.value}{why}."


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(json.dumps(one_line(name), ensure_ascii=False) for name in names)
