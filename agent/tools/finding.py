"""Which runs a person means, and which of them this person may read. Shared by every family of tools about runs.

Every tool finds runs through here: a run of another channel is treated as if there were none.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from agent.domain.errors import BadRequest, NotFound
from agent.domain.runs import Run, RunState
from agent.run_store import no_run
from agent.stores import Runs
from agent.tools.tool import Caller

Before = Literal["previous", "yesterday"]
LOOKED_AT = 50  # newest runs of a thread
NO_RUN = (
    "This thread has no run yet; a plan becomes one when it is approved, and its card says how long it takes. Attach a "
    "csv file and say what to predict, or name a run of this channel, such as `status r-abc123`; `runs` lists them."
)


async def named(runs: Runs, caller: Caller, run_id: str) -> Run:
    """A run by id. Raises `NotFound`, in the same words for one that is not and one that this person may not read."""
    run = await runs.get(run_id)
    if not caller.may_read(await runs.thread(run.id)):
        raise no_run(run_id)
    return run


async def of_thread(runs: Runs, caller: Caller, limit: int) -> Sequence[Run]:
    """The runs of this thread, newest first."""
    return await readable(runs, caller, await runs.of_session(caller.session_id, limit))


async def of_all(runs: Runs, caller: Caller, limit: int) -> Sequence[Run]:
    """The runs of this channel, or of the workspace where they are open to it; newest first."""
    found = await runs.recent(limit, channel_of=None if caller.workspace else caller.thread)
    return await readable(runs, caller, found)


async def readable(runs: Runs, caller: Caller, found: Sequence[Run]) -> Sequence[Run]:
    """The runs among these that this person may read."""
    homes = await runs.threads([run.id for run in found]) if found else {}
    return [run for run in found if caller.may_read(homes[run.id])]


async def named_or_newest(runs: Runs, caller: Caller, run_id: str | None) -> Run:
    """A run by id; when no id is given the newest of this thread, or of the channel for who speaks outside of threads.

    Raises:
        NotFound: there is no such run.
    """
    if run_id is not None:
        return await named(runs, caller, run_id)
    found = await of_thread(runs, caller, 1)
    if not found and not caller.thread.thread_id:
        found = await of_all(runs, caller, 1)
    if not found:
        raise NotFound(NO_RUN)
    return found[0]


async def one_before(runs: Runs, caller: Caller, run: Run, when: Before, *, now: datetime) -> Run:
    """The run of this thread that another is held against: the newest other one that began, or ended yesterday (UTC).

    Raises:
        BadRequest: there is none.
    """
    others = [one for one in await of_thread(runs, caller, LOOKED_AT) if one.id != run.id and one.started_at]
    if when == "yesterday":
        day = (now.astimezone(UTC) - timedelta(days=1)).date()
        ended = [one for one in others if one.ended_at and one.ended_at.astimezone(UTC).date() == day]
        if not ended:
            raise BadRequest(
                f"No other run of this thread ended yesterday ({day.isoformat()}, UTC). `runs` lists them; name the "
                f"one you mean, such as `chart {run.id} vs r-abc123`."
            )
        return max(ended, key=lambda one: one.ended_at or now)
    if not others:
        raise BadRequest(f"This thread has no other run that began, so there is none to lay over `{run.id}`.")
    return others[0]


async def named_or_only(
    runs: Runs, caller: Caller, run_id: str | None, *, states: Collection[RunState], doing: str
) -> Run:
    """A run by id, whatever its state; without an id the one run of this thread in one of `states`.

    Where more than one fits, nothing is guessed.

    Raises:
        BadRequest: none fits, or several; the text names them. `doing` is a phrase such as `pause`.
        NotFound: there is no run with this id.
    """
    if run_id is not None:
        return await named(runs, caller, run_id)
    there = await of_thread(runs, caller, LOOKED_AT)
    found = [run for run in there if run.state in states]
    if not found:
        newest = f" The newest, `{there[0].id}`, is {there[0].state.value}." if there else ""
        raise BadRequest(f"This thread has no run to {doing}.{newest} `runs` lists them.")
    if len(found) > 1:
        names = ", ".join(f"`{run.id}` ({run.state.value})" for run in reversed(found))  # “the first one” is the oldest
        raise BadRequest(f"More than one run of this thread fits: {names}. Say which one to {doing}.")
    return found[0]
