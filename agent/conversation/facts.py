"""The present facts of a thread (runs, files, open questions), read anew at each step and never stored."""

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from agent.domain.datasets import DatasetRef
from agent.domain.inbound import one_line
from agent.domain.policy import may_read
from agent.domain.runs import Run
from agent.ports import Clock, RunNow
from agent.stores import ThreadFacts, Turn

MOST_FILES, MOST_RUNS = 30, 8


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

    async def read(self, turn: Turn, files: Sequence[DatasetRef]) -> Facts:
        """The facts; what people chose as a name stands in quotes."""
        now = await self._store.now(turn.session_id, turn.thread, most_runs=MOST_RUNS)
        lines = [f"It is {self._clock.now():%A, %Y-%m-%d %H:%M} UTC."]
        if files:
            lines.append(f"Files in this thread, newest first: {_quoted(file.name for file in files[:MOST_FILES])}.")
        runs = [run for run, home in now.runs if may_read(turn.person, here=turn.thread, home=home, workspace=False)]
        lines += map(_run_words, runs)
        lines += [f"Approval {approval.id} of {approval.tool} waits for people." for approval in now.approvals]
        lines += [f"This question waits: {_quoted([of.text])}." for of in now.questions]
        return Facts(" ".join(lines), tuple(RunNow(run.id, run.state) for run in runs))


def _run_words(run: Run) -> str:
    why = f" ({run.outcome.exit_class.value})" if run.outcome and run.outcome.exit_class else ""
    return f"Run {run.id} for {_quoted([run.spec.subject])} is {run.state.value}{why}."


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(json.dumps(one_line(name), ensure_ascii=False) for name in names)
