"""Runs from request to end. The database is authoritative; what is sent to a host is a hint that may be repeated.

Knows nothing of Celery or chat. Called by the tools (what people want), the relay (`take`) and its own clock (`tick`).
Every request is a compare-and-set on the state it was made for; a state that changes under us is looked at again.
"""

import logging
import random
from collections.abc import Callable, Sequence

from agent.cards import priority_words
from agent.domain.errors import Conflict, TransientError
from agent.domain.events import WorkerEvent, storable
from agent.domain.ids import new_run_id
from agent.domain.inbound import Thread
from agent.domain.orders import HostInfo
from agent.domain.runs import ENDED, LIVE, Attempt, JobKind, Outcome, Run, RunSpec, RunState
from agent.ports import Clock
from agent.run_store import Runs, Verdict
from agent.runs.engines import Engines
from agent.runs.life.ending import Settling, hours_left_s, settle
from agent.runs.life.reconcile import Listening, Reconciler
from agent.runs.life.refusals import (
    MAY_PAUSE,
    MAY_RETRY,
    cannot_pause,
    no_hours_left,
    overtaken,
    refused,
    serves,
    with_new_program,
)
from agent.runs.life.sending import Sending
from agent.runs.life.timings import Timings
from agent.runs.queue.scheduling import Scheduler, Waiting

__all__ = ["RunService", "Timings", "Waiting"]

log = logging.getLogger(__name__)
_S = RunState


class RunService:
    """The life of runs. `changed` is told the id of every run whose row, metrics or log changed."""

    def __init__(
        self,
        runs: Runs,
        engines: Engines,
        clock: Clock,
        *,
        changed: Callable[[str], None],
        timings: Timings | None = None,
        listening: Callable[[], bool] = lambda: True,
        dice: Callable[[], float] = random.random,
    ) -> None:
        """`listening` is false while events of hosts cannot reach us; `dice` is 0..1."""
        self._runs = runs
        self._engines = engines
        self._clock = clock
        self._changed = changed
        self._timings = timings or Timings()
        self._dice = dice
        self._sending = Sending(runs, engines, clock, self._timings)
        self._scheduler = Scheduler(runs, engines, clock, self._sending, self._timings, changed=changed)
        self._listening = Listening(clock, listening, pause_s=self._timings.unreachable_after_s)
        self._reconciler = Reconciler(
            runs, clock, self._listening, self._sending, self._scheduler, self._timings, ending=self._ending
        )

    async def create(
        self, spec: RunSpec, *, session_id: str, requester: str, thread: Thread, token: str, priority: int = 0
    ) -> Run:
        """Store an approved run and send it off; the run after that. The same token again gives the first run.

        Raises:
            Conflict: this person has too many runs waiting.
        """
        run = Run(
            id=new_run_id(),
            session_id=session_id,
            requester=requester,
            state=_S.QUEUED,
            spec=spec,
            created_at=self._clock.now(),
            priority=priority,
        )
        most = self._timings.limits.queued_per_user
        run = await self._runs.create(run, thread, client_token=token, most_queued=most)
        self._changed(run.id)
        await self._schedule()
        return await self._runs.get(run.id)

    async def pause(self, run_id: str, *, by: str = "") -> str:
        """Save a checkpoint, end the attempt and give its GPUs back. Raises `NotFound`, `Conflict`."""
        while True:
            run = await self._runs.get(run_id)
            if run.state is _S.QUEUED:
                if await self._runs.move(run.id, expect=_S.QUEUED, to=_S.PAUSED):
                    self._changed(run.id)
                    return f"Run `{run.id}` was waiting and is paused. Resume puts it back into the queue."
            elif run.state is _S.PAUSING:
                if await self._runs.go_on(run.id, expect=_S.PAUSING, goes_on=False):
                    return f"Run `{run.id}` is pausing already: it saves a checkpoint first."
            elif run.state not in MAY_PAUSE:
                raise refused(run, "paused")
            elif run.spec.job is JobKind.SERVING:
                raise serves(run)
            elif not self._engines.named(run.spec.engine).engine.capabilities.pauses:
                raise cannot_pause(run)
            elif await self._runs.request(run.id, expect=run.state, how="pause", note=_who("Paused", by)):
                await self._tell(run)
                return f"Run `{run.id}` is pausing: it saves a checkpoint, then its GPUs are free for others."

    async def resume(self, run_id: str) -> str:
        """Go on from the checkpoint, as a new attempt. Raises `NotFound`, `Conflict`."""
        while True:
            run = await self._runs.get(run_id)
            if run.state is _S.PAUSING:
                if await self._runs.go_on(run.id, expect=_S.PAUSING, goes_on=True):
                    return f"Run `{run.id}` goes on as soon as it has paused."
            elif run.state is not _S.PAUSED:
                raise refused(run, "resumed")
            elif await self._requeue(run, "It was resumed."):
                return await self._where(run, "goes on")

    async def retry(self, run_id: str) -> str:
        """Another attempt of a run that ended badly. Raises `NotFound`, `Conflict`."""
        while True:
            run = await self._runs.get(run_id)
            if run.state not in MAY_RETRY:
                raise refused(run, "tried again")
            if await self._requeue(run, "It is tried again."):
                return await self._where(run, "is tried again")

    async def stop(self, run_id: str, *, by: str = "") -> str:
        """Stop a run gracefully; a sentence that says what happens now. Raises `NotFound`, `Conflict`."""
        while True:
            run = await self._runs.get(run_id)
            if run.state is _S.STOPPING:
                if await self._tell(run) == "kill":
                    return f"Run `{run.id}` is being killed already: it saves no checkpoint any more."
                return f"Run `{run.id}` is stopping already: it saves a checkpoint first."
            if run.state in LIVE:
                if await self._runs.request(run.id, expect=run.state, how="stop", note=_who("Stopped", by)):
                    await self._tell(run)
                    return f"Run `{run.id}` is stopping: it saves a checkpoint first."
            elif (said := await self._stop_at_rest(run, "stopped", by)) is not None:
                return said

    async def kill(self, run_id: str, *, by: str = "") -> str:
        """End a run at once, without a checkpoint. Raises `NotFound`, `Conflict`."""
        while True:
            run = await self._runs.get(run_id)
            if run.state in LIVE:
                if await self._runs.request(run.id, expect=run.state, how="kill", note=_who("Killed", by)):
                    await self._tell(run)
                    return f"Run `{run.id}` is being killed: what it learned since its last checkpoint is lost."
            elif (said := await self._stop_at_rest(run, "killed", by)) is not None:
                return said

    async def prioritise(self, run_id: str, priority: int) -> str:
        """Move a run before others (1) or behind them (-1) in the queue. Raises `NotFound`, `Conflict`."""
        run = await self._runs.get(run_id)
        if not await self._runs.prioritise(run_id, priority):
            raise refused(run, "moved in the queue")
        self._changed(run_id)
        await self._schedule()
        now = f"Run `{run_id}` has {priority_words(priority)} priority now"
        if run.state is not _S.QUEUED:
            return f"{now}; it matters when it waits in the queue."
        places = {waiting.run.id: waiting.position for waiting in await self.queue()}
        if run_id not in places:
            return f"{now}, and starts."
        return f"{now}, and is number {places[run_id]} in the queue."

    async def update_script(self, run_id: str, bundle_sha256: str, *, was: str) -> str:
        """Go on with another program than `was`, from the last checkpoint; said twice, it is done once.

        Raises:
            NotFound, Conflict: its state does not allow it, or it has another program than `was` by now.
        """
        while True:
            run = await self._runs.get(run_id)
            if run.spec.bundle_sha256 == bundle_sha256:
                return f"Run `{run.id}` has this script now: it is version {run.script} of its program."
            if run.spec.bundle_sha256 != was:
                raise overtaken(run)
            to = with_new_program(run)
            if to is _S.PAUSING and not self._engines.named(run.spec.engine).engine.capabilities.pauses:
                raise cannot_pause(run)
            version = await self._runs.replace_script(
                run.id, expect=run.state, to=to, was=was, bundle_sha256=bundle_sha256, at=self._clock.now()
            )
            if version is not None:
                break
        self._changed(run.id)
        name = f"Version {version} of the program of run `{run.id}`"
        if to is _S.PAUSING:
            if run.state is not _S.PAUSING:
                await self._tell(await self._runs.get(run.id))
            return f"{name} takes over as soon as the old one has saved a checkpoint."
        if to is _S.PAUSED:
            return f"{name} is used when it is resumed."
        await self._schedule()
        return f"{name} is used from its next attempt on, which is in the queue."

    async def queue(self) -> Sequence[Waiting]:
        """Every queued run by position, and why it waits."""
        return await self._scheduler.queue()

    async def take(self, events: Sequence[WorkerEvent]) -> None:
        """Store events of hosts; repeated events change nothing. Attempts that should be over are told to end."""
        applied = await self._runs.apply(
            [storable(event) for event in events], at=self._clock.now(), ending=self._ending
        )
        for run_id in applied.changed:
            self._changed(run_id)
        for stale in applied.stale:
            await self._sending.kill(stale)

    async def tick(self) -> None:
        """Send, re-send and give up, by what the database says. An error with one run does not stop the others."""
        self._sending.begin()
        if not self._listening.tick():
            return  # nothing is known of any host, and nothing can be sent
        live = await self._runs.live()
        hosts = await self._hosts()
        await self._reconciler.health(hosts)
        for run, attempt in live:
            try:
                if await self._reconciler.watch(run, attempt, hosts.get(attempt.host)):
                    self._changed(run.id)
            except TransientError as error:
                log.warning("run waits", extra={"run": run.id, "cause": str(error)})
            except Exception:
                log.exception("run was not advanced", extra={"run": run.id})
        await self._schedule()

    async def _hosts(self) -> dict[str, HostInfo]:
        try:
            return {info.host: info for info in await self._engines.hosts()}
        except TransientError:
            return {}

    async def _schedule(self) -> None:
        """What cannot be started now is started at a later tick."""
        try:
            await self._scheduler.start()
        except TransientError as error:
            log.warning("queue waits", extra={"cause": str(error)})

    def _ending(self, run: Run, earlier: Sequence[Attempt], attempt: Attempt, outcome: Outcome) -> Verdict:
        by = Settling(self._clock.now(), self._dice(), self._timings.restarts)
        return settle(run, earlier, attempt, outcome, by)

    async def _requeue(self, run: Run, note: str) -> bool:
        if hours_left_s(run) <= 0:
            raise no_hours_left(run)
        queued = await self._runs.requeue(run.id, expect=run.state, note=note, at=self._clock.now())
        if queued:
            self._changed(run.id)
            await self._schedule()
        return queued

    async def _where(self, run: Run, what: str) -> str:
        now = await self._runs.get(run.id)
        if now.state is _S.QUEUED:
            return f"Run `{run.id}` {what} as soon as there is room. {now.note}".strip()
        return f"Run `{run.id}` {what}, as attempt {now.attempt}."

    async def _stop_at_rest(self, run: Run, what: str, by: str) -> str | None:
        """End a run that has no attempt; None when its state changed meanwhile."""
        if run.state in ENDED:
            raise Conflict(f"Run `{run.id}` is {run.state.value} already; there is nothing to stop.")
        words = {_S.QUEUED: "waiting", _S.PAUSED: "paused"}[run.state]
        who = f" by {by}" if by else ""
        reason = f"Stopped{who} before it started." if run.attempt == 0 else f"Stopped{who} while it was {words}."
        outcome = Outcome(state=_S.STOPPED, reason=reason)
        if not await self._runs.end(run.id, expect=run.state, outcome=outcome, at=self._clock.now()):
            return None
        self._changed(run.id)
        return f"Run `{run.id}` was {words} and is {'stopped' if what == 'killed' else what}."

    async def _tell(self, run: Run) -> str:
        """Send what people asked for to the host, and which it is; it is repeated until it takes effect."""
        self._changed(run.id)
        attempts = await self._runs.attempts(run.id)
        if not attempts or not attempts[-1].stop or attempts[-1].outcome is not None:
            return ""
        await self._sending.stop(run, attempts[-1], attempts[-1].stop)
        return attempts[-1].stop


def _who(what: str, by: str) -> str:
    return f"{what} by {by}." if by else ""
