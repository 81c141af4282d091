"""Sends hints to hosts and counts them. A hint that cannot be sent is sent at a later tick; one refusal ends the trials
of a tick, because each of them may take seconds. Called by the run service, its reconciler and its scheduler.
"""

import logging
from datetime import datetime, timedelta
from typing import Literal

from agent.domain.errors import TransientError
from agent.domain.orders import LaunchOrder, StopOrder
from agent.domain.runs import Attempt, Run
from agent.ports import Clock, Engine
from agent.run_store import Runs, Stale
from agent.runs.life.ending import hours_left_s
from agent.runs.life.timings import Timings

log = logging.getLogger(__name__)


class Sending:
    """The way to the hosts."""

    def __init__(self, runs: Runs, engine: Engine, clock: Clock, timings: Timings) -> None:
        """`engine` signs what it sends."""
        self._runs = runs
        self._engine = engine
        self._clock = clock
        self._timings = timings
        self._mute = False
        self._killed: dict[tuple[str, int], datetime] = {}

    def begin(self) -> None:
        """A new tick: try again what could not be sent."""
        self._mute = False
        oldest = self._clock.now() - timedelta(seconds=self._timings.lost_after_s)
        self._killed = {key: at for key, at in self._killed.items() if at > oldest}

    async def launch(self, run: Run, attempt: Attempt) -> None:
        """One more hint to start it; it carries the time that is left of its approval."""
        if self._mute:
            return
        now = self._clock.now()
        order = LaunchOrder(
            run=run.id,
            attempt=attempt.number,
            host=attempt.host,
            spec=run.spec,
            gpu_uuids=attempt.gpus,
            budget_s=hours_left_s(run),
            expires_at=now + timedelta(seconds=self._timings.order_lives_s),
        )
        try:
            await self._engine.launch(order)
        except TransientError as error:
            self._refused("launch", run.id, error)
        else:
            await self._runs.sent(run.id, attempt.number, at=now)

    async def stop(self, run: Run, attempt: Attempt, how: Literal["stop", "pause", "kill"]) -> None:
        """One more hint to end it."""
        if await self._stop(run.id, attempt.number, attempt.host, how):
            await self._runs.stop_sent(run.id, attempt.number, at=self._clock.now())

    async def kill(self, stale: Stale) -> None:
        """End an attempt that should not live; not more often than hints are repeated."""
        now, key = self._clock.now(), (stale.run, stale.attempt)
        told = self._killed.get(key)
        if told is not None and (now - told).total_seconds() < self._timings.resend_after_s:
            return
        log.warning("a late attempt is told to end", extra={"run": stale.run, "attempt": stale.attempt})
        if await self._stop(stale.run, stale.attempt, stale.host, "kill"):
            self._killed[key] = now

    async def _stop(self, run_id: str, attempt: int, host: str, how: Literal["stop", "pause", "kill"]) -> bool:
        if self._mute:
            return False
        try:
            await self._engine.stop(StopOrder(run=run_id, attempt=attempt, how=how), host=host)
        except TransientError as error:
            self._refused(how, run_id, error)
            return False
        return True

    def _refused(self, what: str, run_id: str, error: TransientError) -> None:
        self._mute = True
        log.warning("%s was not sent", what, extra={"run": run_id, "cause": str(error)})
