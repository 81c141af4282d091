"""From the queue to hosts: asks `agent.runs.queue.fair` for a plan and carries it out, one transaction for each run.

Knows which hosts are left out for a while because they took no order. Called by the run service, after each change of
the queue and at every tick.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from agent.domain.errors import TransientError
from agent.domain.orders import HostInfo
from agent.domain.runs import Attempt, Run, RunState
from agent.ports import Clock, HostDirectory
from agent.run_store import Cordon, Home, Runs
from agent.runs.life.ending import hours_left_s
from agent.runs.life.sending import Sending
from agent.runs.life.timings import Timings
from agent.runs.queue.fair import Capacity, Holding, Plan, Request, capacity_of, plan

log = logging.getLogger(__name__)
_NUMBERED = 10  # places in line that cards show


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run in the queue; `position` 1 is next. `why` is a sentence."""

    run: Run
    position: int
    why: str


class Scheduler:
    """Starts what can start."""

    def __init__(
        self,
        runs: Runs,
        directory: HostDirectory,
        clock: Clock,
        sending: Sending,
        timings: Timings,
        *,
        changed: Callable[[str], None],
    ) -> None:
        """`changed` is told of each run that starts or whose reason to wait is new."""
        self._runs = runs
        self._directory = directory
        self._clock = clock
        self._sending = sending
        self._timings = timings
        self._changed = changed
        self._avoided: dict[str, datetime] = {}
        self._one = asyncio.Lock()

    def avoid(self, host: str) -> None:
        """Leave a host out for a while, since it took no order."""
        self._avoided[host] = self._clock.now() + timedelta(seconds=self._timings.avoid_s)

    async def start(self) -> None:
        """Dispatch what the plan places, and store why the others wait."""
        async with self._one:
            queued = await self._runs.in_state([RunState.QUEUED])
            if not queued:
                return
            made, blind = await self._plan(queued)
            by_id = {run.id: run for run in queued}
            for placed in made.placements:
                now = self._clock.now()
                started = await self._runs.dispatch(placed.run, host=placed.host, gpus=placed.gpus, at=now)
                if started is not None:
                    self._changed(placed.run)
                    await self._sending.launch(*started)
            for run_id, why in made.why.items():
                said = f"{_place(made.positions[run_id])} {self._say(why, blind)}"
                if not self._held(by_id[run_id]) and await self._runs.note(run_id, said):
                    self._changed(run_id)

    async def queue(self) -> Sequence[Waiting]:
        """Every queued run by position, and why it waits."""
        queued = await self._runs.in_state([RunState.QUEUED])
        made, blind = await self._plan(queued)
        by_id = {run.id: run for run in queued}
        next_ = [Waiting(by_id[placed.run], n, "It starts now.") for n, placed in enumerate(made.placements, start=1)]
        left = sorted(made.positions.items(), key=lambda entry: entry[1])
        for run_id, position in left:
            run = by_id[run_id]
            why = run.note if self._held(run) and run.note else self._say(made.why[run_id], blind)
            next_.append(Waiting(run, len(made.placements) + position, why))
        return next_

    def _held(self, run: Run) -> bool:
        return run.not_before is not None and run.not_before > self._clock.now()

    def _say(self, why: str, blind: str) -> str:
        """The plan's reason why a run waits, with what is known of hosts that the plan does not have."""
        now = self._clock.now()
        left_out = sorted(host for host, until in self._avoided.items() if until > now)
        if blind:
            return f"It waits: {blind}"
        if left_out:
            until = max(self._avoided[host] for host in left_out)
            return f"{why} {', '.join(left_out)} took no order and is left out until {until:%H:%M:%S} UTC."
        return why

    async def _plan(self, queued: Sequence[Run]) -> tuple[Plan, str]:
        """The plan, and why the hosts cannot be asked (empty when they can)."""
        now = self._clock.now()
        since = now - timedelta(seconds=self._timings.fair_window_s)
        (hosts, blind), taken = await asyncio.gather(
            self._hosts(), self._runs.occupancy([run.id for run in queued if run.attempt], since)
        )
        connected = {info.host for info in hosts}
        waiting = [_neglected(request_of(run, taken.homes.get(run.id), connected), taken.starts) for run in queued]
        capacities = self._capacities(hosts, taken.cordons, now)
        running = [holding_of(run, attempt) for run, attempt in taken.live]
        shut = {info.host: info.shut for info in hosts if info.shut}
        limits = self._timings.limits
        return plan(waiting, running, capacities, now=now, limits=limits, recent=taken.spent, shut=shut), blind

    async def _hosts(self) -> tuple[Sequence[HostInfo], str]:
        """The hosts; or none, and why they cannot be asked."""
        try:
            return await self._directory.hosts(), ""
        except TransientError as error:
            return (), str(error)

    def _capacities(self, hosts: Sequence[HostInfo], cordons: Sequence[Cordon], now: datetime) -> list[Capacity]:
        cordoned = {(cordon.host, cordon.uuid) for cordon in cordons}
        found: list[Capacity] = []
        for info in hosts:
            capacity = capacity_of(info)
            avoided = self._avoided.get(info.host)
            if capacity is not None and (avoided is None or avoided <= now):
                well = tuple(uuid for uuid in capacity.gpus if (info.host, uuid) not in cordoned)
                found.append(replace(capacity, gpus=well))
        return found


def request_of(run: Run, home: Home | None, connected: set[str]) -> Request:
    """What a queued run asks for. It goes where its checkpoints are, unless that host was lost and is not back."""
    must = home is not None and (not home.lost or home.host in connected)
    return Request(
        run=run.id,
        user=run.requester,
        asked_at=run.queued_at or run.created_at,
        longest_s=hours_left_s(run),
        priority=run.priority,
        gpus=run.spec.gpus,
        host=home.host if home is not None and must else run.spec.host,
        must=must,
        tier=run.spec.sandbox,
        network=run.spec.network,
        secrets=run.spec.secrets,
        not_before=run.not_before,
        engine=run.spec.engine,
    )


def _neglected(request: Request, starts: Sequence[tuple[str, datetime, datetime]]) -> Request:
    """With the time from which waiting counts: runs of the same user that were asked for before are no neglect."""
    served = [at for user, asked_at, at in starts if user == request.user and asked_at <= request.asked_at]
    return replace(request, since=max([request.asked_at, *served]))


def holding_of(run: Run, attempt: Attempt) -> Holding:
    """What a live run holds, at the longest until its approved time is over."""
    since = attempt.dispatched_at or attempt.sent_at
    ends_at = since + timedelta(seconds=max(0.0, hours_left_s(run)))
    return Holding(run.id, run.requester, attempt.host, attempt.gpus, ends_at, run.queued_at or run.created_at)


def _place(position: int) -> str:
    """Where a run waits, for its card; far back without a number, or each start would change every card."""
    return f"It is number {position} in line." if position <= _NUMBERED else f"More than {_NUMBERED} are before it."
