"""Tools that change what a run does, within the hours that were approved: pause, resume, stop, kill, retry, priority.

A kill is asked about first, and so is a stop of somebody else's run, or of one that nobody named.
The run service decides what a state allows and answers with a sentence; names, arguments and rights are here. Models,
commands and buttons all call these tools through the dispatcher.
"""

import contextlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Any, Literal

from pydantic import Field, JsonValue

from agent.domain.content import Card, Fact
from agent.domain.errors import AppError, Conflict, NotAllowed
from agent.domain.policy import Effect, Right, may_control
from agent.domain.runs import LIVE, PRIORITIES, JobKind, Run, RunState
from agent.ports import ReadsActs
from agent.runs.affording import Affording
from agent.runs.life.service import RunService
from agent.stores import Runs
from agent.tools.finding import named_or_only
from agent.tools.members import Members
from agent.tools.tool import Arguments, Caller, Plan, Result, Tool

_S = RunState
GOING = frozenset({_S.STARTING, _S.RUNNING, _S.UNREACHABLE})
# Which runs are meant by somebody who names none.
MEANT: dict[str, frozenset[RunState]] = {
    "pause": GOING | {_S.QUEUED},
    "resume": frozenset({_S.PAUSED, _S.PAUSING}),
    "stop": LIVE | {_S.QUEUED, _S.PAUSED},
    "kill": LIVE,
    "retry": frozenset({_S.FAILED, _S.LOST, _S.STOPPED}),
    "prioritise": frozenset({_S.QUEUED}),
}
VERBS = {
    "pause_run": "pause",
    "resume_run": "resume",
    "stop_run": "stop",
    "retry_run": "retry",
    "set_priority": "prioritise",
}


class ControlArguments(Arguments):
    """One run."""

    run: str | None = Field(
        None, description="Run id; may be left out where only one run of this thread fits.", examples=["r-abc123"]
    )


class PriorityArguments(ControlArguments):
    """A place in the queue."""

    priority: Literal["high", "normal", "low"] = Field(description="How soon it should start.")


class Control:
    """The tools of this family."""

    def __init__(
        self, runs: Runs, service: RunService, members: Members, acts: ReadsActs, affording: Affording
    ) -> None:
        """Approvers among the `members` count as the owners of every run; `acts` reads what people ask for."""
        self._affording = affording
        self._runs = runs
        self._service = service
        self._members = members
        self._acts = acts

    def tools(self) -> Sequence[Tool]:
        """Their declarations."""

        def tool(name: str, does: str, run: Callable[[Caller, Any], Awaitable[Result]], **more: Any) -> Tool:
            own, exact = partial(self._own, name), partial(self._exact, VERBS[name])
            arguments = more.pop("arguments", ControlArguments)
            return Tool(name, does, arguments, Effect.WRITE, run=run, own=own, exact=exact, quotes=False, **more)

        return (
            tool("pause_run", "Pause a run: it saves a checkpoint and frees its GPUs.", self.pause),
            tool("resume_run", "Go on with a paused run from its checkpoint.", self.resume),
            Tool(
                "stop_run",
                "Stop a run gracefully: it saves a checkpoint first. Without an id, or for somebody else's, it asks.",
                ControlArguments,
                Effect.WRITE,
                plan=self.plan_stop,
                execute=self.stop,
                quotes=False,
            ),
            Tool(
                "kill_run",
                "Ask to end a run at once, without a checkpoint. Only when stopping does not work.",
                ControlArguments,
                Effect.DESTROY,
                plan=self.plan_kill,
                execute=self.kill,
                quotes=False,
            ),
            tool(
                "retry_run",
                "Try a failed, lost or stopped run again, from its last checkpoint.",
                self.retry,
                spends_again=True,
            ),
            tool(
                "set_priority",
                "Move a run in the queue: high, normal or low.",
                self.prioritise,
                arguments=PriorityArguments,
            ),
        )

    async def pause(self, caller: Caller, asked: ControlArguments) -> Result:
        """Save a checkpoint and free the GPUs."""
        run = await self._meant(caller, asked, "pause")
        return await self._done(run, await self._service.pause(run.id, by=caller.person.shown))

    async def resume(self, caller: Caller, asked: ControlArguments) -> Result:
        """Go on from the checkpoint."""
        run = await self._meant(caller, asked, "resume")
        return await self._done(run, await self._service.resume(run.id))

    async def plan_stop(self, caller: Caller, asked: ControlArguments) -> Plan | Result:
        """Stop it where its owner, or an approver, named it in their own words; ask about any other."""
        run = await self._meant(caller, asked, "stop")
        owns = await self._owns(caller, run)
        named = asked.run and (not caller.shared or await self._own("stop_run", caller, asked))
        if run.state not in MEANT["stop"] or (owns and named):
            return await self._done(run, await self._service.stop(run.id, by=caller.person.shown))
        ends = "Its address stops answering; `serve` starts another one."
        trains = "It saves a checkpoint first, and `retry` goes on from that."
        return _question(run, "Stop", ends if run.spec.job is JobKind.SERVING else trains, owns=owns)

    async def stop(self, caller: Caller, exact: dict[str, JsonValue], _token: str) -> Result:
        """End the run with a checkpoint; a second call says that it is stopping. Raises `Conflict`."""
        run = await self._as_asked(exact)
        return await self._done(run, await self._service.stop(run.id, by=caller.person.shown))

    async def plan_kill(self, caller: Caller, asked: ControlArguments) -> Plan | Result:
        """Ask whether to end the run; of a run that is over, say so."""
        run = await self._meant(caller, asked, "kill")
        if run.state not in MEANT["stop"]:
            return await self._done(run, await self._service.kill(run.id, by=caller.person.shown))
        lost = "It ends at once: what it learned since its last checkpoint is lost. `stop` saves one first."
        return _question(run, "Kill", lost, owns=await self._owns(caller, run))

    async def kill(self, caller: Caller, exact: dict[str, JsonValue], _token: str) -> Result:
        """End the run at once; a second call says that it is being killed. Raises `Conflict`."""
        run = await self._as_asked(exact)
        return await self._done(run, await self._service.kill(run.id, by=caller.person.shown))

    async def _as_asked(self, exact: dict[str, JsonValue]) -> Run:
        """The run of a question, unless it has gone on since: then nobody was asked about what runs now."""
        run = await self._runs.get(str(exact["run"]))
        if run.attempt != exact.get("attempt", run.attempt):
            raise Conflict(
                f"Nothing was done: run `{run.id}` has gone on since that was asked, as attempt {run.attempt}. "
                f"Say `stop {run.id}` once more to end that."
            )
        return run

    async def retry(self, caller: Caller, asked: ControlArguments) -> Result:
        """Begin another attempt of a run that ended badly."""
        run = await self._meant(caller, asked, "retry")
        if Right.LAUNCH not in await self._members.rights(caller.person, caller.thread):
            who = self._members.who(Right.LAUNCH)
            raise NotAllowed(f"Trying `{run.id}` again costs, and you may only ask. Who may launch: {who}.")
        async with self._affording.again(run):
            return await self._done(run, await self._service.retry(run.id))

    async def prioritise(self, caller: Caller, asked: PriorityArguments) -> Result:
        """Change the run's place in the queue."""
        run = await self._meant(caller, asked, "prioritise")
        return await self._done(run, await self._service.prioritise(run.id, PRIORITIES[asked.priority]))

    async def owned(self, caller: Caller, run: Run, doing: str) -> None:
        """Raises `NotAllowed` unless this person started the run or is an approver."""
        if not await self._owns(caller, run):
            raise NotAllowed(
                f"Run `{run.id}` is somebody else's: only the person who started it, or an approver, may {doing}."
            )

    async def _owns(self, caller: Caller, run: Run) -> bool:
        rights = await self._members.rights(caller.person, await self._runs.thread(run.id))
        return may_control(caller.person, requester=run.requester, rights=rights)

    async def _own(self, tool: str, caller: Caller, asked: ControlArguments) -> bool:
        """Whether the person's own words ask for just this act on this run."""
        run = await self._meant(caller, asked, VERBS[tool])
        for act in map(self._acts, caller.words):
            same = act and (not isinstance(asked, PriorityArguments) or asked.priority == act.priority)
            if act and same and act.tool == tool and await self._is_meant(caller, act.run, VERBS[tool], run):
                return True
        return False

    async def _is_meant(self, caller: Caller, named: str, verb: str, run: Run) -> bool:
        with contextlib.suppress(AppError):  # words that fit several runs, or none
            return (await self._meant(caller, ControlArguments(run=named or None), verb)).id == run.id
        return False

    async def _exact(self, verb: str, caller: Caller, asked: ControlArguments) -> ControlArguments:
        """The arguments with the run that is meant. Raises as `named_or_only` does."""
        return asked.model_copy(update={"run": (await self._meant(caller, asked, verb)).id})

    async def _meant(self, caller: Caller, asked: ControlArguments, verb: str) -> Run:
        states: Collection[RunState] = MEANT[verb]
        return await named_or_only(self._runs, caller, asked.run, states=states, doing=verb)

    async def _done(self, run: Run, text: str) -> Result:
        after = await self._runs.get(run.id)
        return Result(text, {"run": run.id, "state": after.state.value})


def _question(run: Run, verb: str, what: str, *, owns: bool) -> Plan:
    steps = f"{run.step:,} of {run.total_steps:,}" if run.total_steps else f"{run.step:,}"
    facts = (
        Fact(name="Run", value=f"{run.id}, a model for {run.spec.subject}"),
        Fact(name="State", value=run.state.value),
        Fact(name="Step", value=steps),
    )
    whose = "" if owns else " It is somebody else's run: the person who started it, or an approver, decides."
    card = Card(kind="approval", title=f"{verb} {run.id}?", tone="warn", body=f"{what}{whose}", facts=facts)
    return Plan({"run": run.id, "attempt": run.attempt}, card, owner=run.requester)
