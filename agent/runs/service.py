"""Runs from request to end. The database is the truth; what is sent to a host is a hint that may be repeated.

Knows nothing of Celery or chat. Called by the tools (create, stop), the relay (`take`) and its own clock (`tick`).
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from agent.domain.errors import Conflict, TransientError
from agent.domain.events import WorkerEvent
from agent.domain.ids import new_run_id
from agent.domain.orders import LaunchOrder, StopOrder
from agent.domain.rooms import Room
from agent.domain.runs import ENDED, LIVE, ExitClass, Outcome, Run, RunSpec, RunState
from agent.ports import Clock, Fleet
from agent.stores import Runs

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Timings:
    """How long silence is borne. Source of the defaults: the protocol in ARCHITECTURE.md."""

    resend_after_s: float = 20.0
    hints: int = 3
    unreachable_after_s: float = 60.0
    lost_after_s: float = 900.0
    order_lives_s: float = 120.0


class RunService:
    """The life of runs. `changed` is told the id of every run whose row, metrics or log changed."""

    def __init__(
        self, runs: Runs, fleet: Fleet, clock: Clock, *, changed: Callable[[str], None], timings: Timings | None = None
    ) -> None:
        """`fleet` signs what it sends."""
        self._runs = runs
        self._fleet = fleet
        self._clock = clock
        self._changed = changed
        self._timings = timings or Timings()
        self._ticked_at = self._listening_since = clock.now()
        self._stop_sent: dict[str, datetime] = {}

    async def create(self, spec: RunSpec, *, session_id: str, requester: str, room: Room, token: str) -> Run:
        """Store an approved run and send it off; a second call with the same token gives the first run."""
        run = Run(
            id=new_run_id(),
            session_id=session_id,
            requester=requester,
            state=RunState.QUEUED,
            spec=spec,
            created_at=self._clock.now(),
        )
        run = await self._runs.create(run, room, client_token=token)
        self._changed(run.id)
        await self._advance(run)
        return run

    async def stop(self, run_id: str) -> str:
        """Stop a run; a sentence that says what happens now.

        Raises:
            NotFound, Conflict: there is nothing to stop.
        """
        while True:  # a state that changes under us is looked at again
            run = await self._runs.get(run_id)
            if run.state in ENDED:
                raise Conflict(f"Run `{run.id}` is {run.state.value} already; there is nothing to stop.")
            if run.state is RunState.QUEUED:
                if await self._end(run, RunState.STOPPED, "Stopped before it started."):
                    return f"Run `{run.id}` was waiting and is stopped."
            elif run.state is RunState.STOPPING or await self._runs.move(
                run.id, expect=run.state, to=RunState.STOPPING
            ):
                self._changed(run.id)
                await self._send_stop(run)
                return f"Run `{run.id}` is stopping: it saves a checkpoint first."

    async def take(self, events: Sequence[WorkerEvent]) -> None:
        """Store what hosts said; repeated events change nothing."""
        for run_id in await self._runs.apply(events, at=self._clock.now()):
            self._changed(run_id)

    async def tick(self) -> None:
        """Send, re-send and give up, by what the database says. One run's trouble harms no other."""
        waiting = await self._runs.in_state([RunState.QUEUED, *sorted(LIVE)])
        self._listen()
        stopping = {run.id for run in waiting if run.state is RunState.STOPPING}
        self._stop_sent = {run_id: at for run_id, at in self._stop_sent.items() if run_id in stopping}
        for run in waiting:
            try:
                await self._advance(run)
            except TransientError as error:
                log.warning("run waits", extra={"run": run.id, "cause": str(error)})
            except Exception:
                log.exception("run was not advanced", extra={"run": run.id})

    def _listen(self) -> None:
        """After a pause of ours (asleep, no database) silence counts anew: what hosts said is still to come."""
        now = self._clock.now()
        if (now - self._ticked_at).total_seconds() >= self._timings.unreachable_after_s:
            self._listening_since = now
        self._ticked_at = now

    def _since(self, moment: datetime) -> float:
        """Seconds from `moment` to now, as far as we listened."""
        return (self._clock.now() - max(moment, self._listening_since)).total_seconds()

    async def _advance(self, run: Run) -> None:
        match run.state:
            case RunState.QUEUED:
                await self._start(run)
            case RunState.STARTING:
                await self._hint_again(run)
            case RunState.STOPPING:
                await self._stop_again(run)
            case _:
                await self._watch(run)

    async def _start(self, run: Run) -> None:
        now = self._clock.now()
        attempt = await self._runs.dispatch(run.id, host=run.spec.host, at=now)
        if attempt is None:
            return
        self._changed(run.id)
        await self._send(run, attempt, now)

    async def _send(self, run: Run, attempt: int, now: datetime) -> int:
        sent = await self._runs.resend(run.id, attempt, at=now)
        order = LaunchOrder(
            run=run.id,
            attempt=attempt,
            host=run.spec.host,
            spec=run.spec,
            expires_at=now + timedelta(seconds=self._timings.order_lives_s),
        )
        try:
            await self._fleet.launch(order)
        except TransientError as error:
            log.warning("launch was not sent", extra={"run": run.id, "attempt": attempt, "cause": str(error)})
        return sent

    async def _hint_again(self, run: Run) -> None:
        heard = await self._runs.heard(run.id)
        if heard.heard_at is not None:
            await self._watch(run)
        elif self._since(heard.sent_at) >= self._timings.resend_after_s:
            if heard.sent < self._timings.hints:
                await self._send(run, heard.attempt, self._clock.now())
            else:
                await self._give_up(
                    run, f"Host {heard.host} did not take the run: is `trainyard worker` running there?"
                )

    async def _stop_again(self, run: Run) -> None:
        heard = await self._runs.heard(run.id)
        silent_s = self._since(heard.heard_at or heard.sent_at)
        sent_at = self._stop_sent.get(run.id)
        if silent_s >= self._timings.lost_after_s:
            await self._give_up(run, f"Host {heard.host} has been silent for {silent_s / 60:.0f} min.")
        elif heard.heard_at is None and silent_s >= self._timings.order_lives_s + self._timings.resend_after_s:
            await self._end(run, RunState.STOPPED, "Stopped before its host took it.")  # nor can it any more
        elif sent_at is None or self._since(sent_at) >= self._timings.resend_after_s:
            await self._send_stop(run)

    async def _send_stop(self, run: Run) -> None:
        """Send it again and again until the run ends: a host that lives may still have missed it."""
        self._stop_sent[run.id] = self._clock.now()
        try:
            await self._fleet.stop(StopOrder(run=run.id, attempt=run.attempt), host=run.spec.host)
        except TransientError as error:
            log.warning("stop was not sent", extra={"run": run.id, "cause": str(error)})

    async def _watch(self, run: Run) -> None:
        heard = await self._runs.heard(run.id)
        silent_s = self._since(heard.heard_at or heard.sent_at)
        if silent_s >= self._timings.lost_after_s:
            await self._give_up(run, f"Host {heard.host} has been silent for {silent_s / 60:.0f} min.")
        elif (
            silent_s >= self._timings.unreachable_after_s
            and run.state is not RunState.UNREACHABLE
            and await self._runs.move(run.id, expect=run.state, to=RunState.UNREACHABLE)
        ):
            self._changed(run.id)

    async def _give_up(self, run: Run, reason: str) -> None:
        await self._end(run, RunState.LOST, reason, ExitClass.LOST)

    async def _end(self, run: Run, state: RunState, reason: str, exit_class: ExitClass | None = None) -> bool:
        outcome = Outcome(state=state, exit_class=exit_class, reason=reason)
        ended = await self._runs.end(run.id, expect=run.state, outcome=outcome, at=self._clock.now())
        if ended:
            self._changed(run.id)
        return ended
