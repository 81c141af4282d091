"""Keeps what hosts do equal to what the database says: sends again, notices silence and restarts of hosts, gives up.

Silence counts only while the bot listens. Called by the run service for each live run at every tick.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime

from agent.domain.orders import HostInfo
from agent.domain.runs import Attempt, ExitClass, Outcome, Run, RunState
from agent.ports import Clock
from agent.run_store import Ending, Runs, Verdict
from agent.runs.life.sending import Sending
from agent.runs.life.timings import Timings
from agent.runs.queue.scheduling import Scheduler

log = logging.getLogger(__name__)


class Listening:
    """Measures how long a host was silent while the bot was able to hear it."""

    def __init__(self, clock: Clock, listens: Callable[[], bool], *, pause_s: float) -> None:
        """`listens` is false while events cannot reach us; ticks that are `pause_s` apart mean that we slept."""
        self._clock = clock
        self._listens = listens
        self._pause_s = pause_s
        self._since = self._ticked_at = clock.now()

    def tick(self) -> bool:
        """Whether events reach us. After a pause silence is counted from zero, as earlier events may still arrive."""
        now, listens = self._clock.now(), self._listens()
        if not listens or (now - self._ticked_at).total_seconds() >= self._pause_s:
            self._since = now
        self._ticked_at = now
        return listens

    def seconds(self, moment: datetime) -> float:
        """The seconds from `moment` to now in which events reached us."""
        return (self._clock.now() - max(moment, self._since)).total_seconds()


class Reconciler:
    """Watches live attempts."""

    def __init__(
        self,
        runs: Runs,
        clock: Clock,
        listening: Listening,
        sending: Sending,
        scheduler: Scheduler,
        timings: Timings,
        *,
        ending: Ending,
    ) -> None:
        """`ending` decides what becomes of a run whose attempt is over."""
        self._runs = runs
        self._clock = clock
        self._listening = listening
        self._sending = sending
        self._scheduler = scheduler
        self._timings = timings
        self._ending = ending
        self._alerts: dict[str, str] = {}

    async def watch(self, run: Run, attempt: Attempt, host: HostInfo | None) -> bool:
        """Do what is due for one live run; whether its row changed."""
        if _started_anew(attempt, host):
            return await self._rebooted(run, attempt)
        if attempt.stop and run.state in (RunState.PAUSING, RunState.STOPPING):
            return await self._requested(run, attempt)
        if attempt.heard_at is None and run.state is RunState.STARTING:
            return await self._not_taken(run, attempt, connected=host is not None)
        silent_s = self._silent_s(attempt)
        if silent_s >= self._timings.lost_after_s:
            return await self._lost(run, attempt, f"Host {attempt.host} has been silent for {silent_s / 60:.0f} min.")
        if silent_s >= self._timings.unreachable_after_s and run.state is not RunState.UNREACHABLE:
            return await self._runs.move(run.id, expect=run.state, to=RunState.UNREACHABLE)
        return False

    async def health(self, hosts: Mapping[str, HostInfo]) -> None:
        """Remember since when a host calls a GPU sick. One that is well again gets runs, unless a person says no.

        What a host alerts people to is logged once here, and stands on the card of the hosts.
        """
        known = {(cordon.host, cordon.uuid): cordon for cordon in await self._runs.cordons()}
        for name, info in hosts.items():
            if info.alert and self._alerts.get(name) != info.alert:
                log.error("a host alerts", extra={"host": name, "cause": info.alert})
            self._alerts[name] = info.alert
            for gpu in info.gpus:
                cordon = known.get((name, gpu.uuid))
                if gpu.sick and (cordon is None or (not cordon.sticky and cordon.reason != gpu.sick)):
                    await self._runs.cordon(name, gpu.uuid, gpu.sick, at=self._clock.now(), sticky=False)
                elif not gpu.sick and cordon is not None and not cordon.sticky:
                    await self._runs.uncordon(name, gpu.uuid)

    def _silent_s(self, attempt: Attempt) -> float:
        return self._listening.seconds(attempt.heard_at or attempt.sent_at)

    async def _not_taken(self, run: Run, attempt: Attempt, *, connected: bool) -> bool:
        """Hint again; after the last hint's order is too old to be taken, put it back into the queue.

        A host that is there is asked first whether it has the attempt after all: then its events are still to come.
        """
        waited_s = self._listening.seconds(attempt.sent_at)
        if attempt.sent < self._timings.hints:
            if attempt.sent == 0 or waited_s >= self._timings.resend_after_s:
                await self._sending.launch(run, attempt)
            return False
        if waited_s < max(self._timings.resend_after_s, self._timings.order_lives_s):
            return False
        if connected and await self._sending.began(run, attempt):
            return False
        self._scheduler.avoid(attempt.host)
        reason = f"Host {attempt.host} did not take it: is `trainyard worker` running there?"
        outcome = Outcome(state=RunState.LOST, exit_class=ExitClass.LOST, reason=reason)
        note = f"{reason} It waits for another host, or for this one."
        queued = Verdict(RunState.QUEUED, outcome, note=note)
        return await self._close(run, attempt, outcome, lambda *_: queued)

    async def _requested(self, run: Run, attempt: Attempt) -> bool:
        """Repeat the request to the host, which may have missed the earlier ones."""
        silent_s = self._silent_s(attempt)
        if attempt.heard_at is None:
            too_old_s = self._timings.order_lives_s + self._timings.resend_after_s
            if attempt.sent == 0 or silent_s >= too_old_s:  # no host has it, and none can take it any more
                return await self._never_began(run, attempt)
        elif silent_s >= self._timings.lost_after_s:
            return await self._lost(run, attempt, f"Host {attempt.host} has been silent for {silent_s / 60:.0f} min.")
        sent_at = attempt.stop_sent_at
        if attempt.stop and (sent_at is None or self._listening.seconds(sent_at) >= self._timings.resend_after_s):
            await self._sending.stop(run, attempt, attempt.stop)
        return False

    async def _never_began(self, run: Run, attempt: Attempt) -> bool:
        paused = run.state is RunState.PAUSING
        word = "Paused" if paused else "Stopped"
        state = RunState.PAUSED if paused else RunState.STOPPED
        outcome = Outcome(state=state, reason=run.note or f"{word} before its host took it.")
        if paused and run.goes_on:
            state = RunState.QUEUED
        verdict = Verdict(state, outcome, note=outcome.reason if paused else "")
        return await self._close(run, attempt, outcome, lambda *_: verdict)

    async def _rebooted(self, run: Run, attempt: Attempt) -> bool:
        reason = f"Host {attempt.host} was started anew, which ended it."
        if attempt.stop:
            state = RunState.PAUSED if attempt.stop == "pause" else RunState.STOPPED
            outcome = await self._outcome(run, attempt, state, None, reason)
            return await self._close(run, attempt, outcome, self._ending)
        return await self._lost(run, attempt, reason)

    async def _lost(self, run: Run, attempt: Attempt, reason: str) -> bool:
        outcome = await self._outcome(run, attempt, RunState.LOST, ExitClass.LOST, reason)
        return await self._close(run, attempt, outcome, self._ending)

    async def _outcome(
        self, run: Run, attempt: Attempt, state: RunState, exit_class: ExitClass | None, reason: str
    ) -> Outcome:
        """The outcome of an attempt that sent none: it counts as training until it was last heard."""
        saved = await self._runs.checkpoints(run.id)
        return Outcome(
            state=state,
            exit_class=exit_class,
            reason=reason,
            seconds=attempt.heard_s,
            checkpoint_step=saved[-1].step if saved else None,
        )

    async def _close(self, run: Run, attempt: Attempt, outcome: Outcome, ending: Ending) -> bool:
        now = self._clock.now()
        after = await self._runs.close(run.id, attempt.number, expect=run.state, outcome=outcome, at=now, ending=ending)
        return after is not None


def _started_anew(attempt: Attempt, host: HostInfo | None) -> bool:
    """Whether the machine was started anew since it took the attempt; both times are that machine's."""
    if host is None or not host.boot_id or not attempt.boot_id or host.boot_id == attempt.boot_id:
        return False
    return attempt.accepted_at is None or host.at > attempt.accepted_at
