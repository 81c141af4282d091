"""Sends orders to the engines of runs and counts them. What cannot be sent is sent at a later tick; one refusal ends
the trials of a tick with that engine, because each of them may take seconds.

Called by the run service, its reconciler and its scheduler.
"""

import logging
from datetime import datetime, timedelta
from typing import Literal

from agent.domain.errors import AppError, BadRequest, TransientError
from agent.domain.orders import AttemptLabel, LaunchOrder, StopOrder
from agent.domain.runs import Attempt, Run
from agent.ports import Clock
from agent.run_store import Runs, Stale
from agent.runs.engines import Engines
from agent.runs.life.ending import hours_left_s
from agent.runs.life.timings import Timings

log = logging.getLogger(__name__)


class Sending:
    """Sends launches and stops to engines."""

    def __init__(self, runs: Runs, engines: Engines, clock: Clock, timings: Timings) -> None:
        """`engines` sign the orders."""
        self._runs = runs
        self._engines = engines
        self._clock = clock
        self._timings = timings
        self._mute: set[str] = set()  # engines that did not answer in this tick
        self._killed: dict[tuple[str, int], datetime] = {}

    def begin(self) -> None:
        """A new tick: try again what could not be sent."""
        self._mute.clear()
        oldest = self._clock.now() - timedelta(seconds=self._timings.lost_after_s)
        self._killed = {key: at for key, at in self._killed.items() if at > oldest}

    async def launch(self, run: Run, attempt: Attempt) -> None:
        """Send one more hint to start an attempt, with the time that is left of its approval."""
        if run.spec.engine in self._mute:
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
            await self._engines.submit(order)
        except (TransientError, BadRequest) as error:
            self._refused("launch", run, error)
        else:
            await self._runs.sent(run.id, attempt.number, at=now)

    async def began(self, run: Run, attempt: Attempt) -> bool:
        """Whether its engine has the attempt, although nothing was heard of it."""
        if run.spec.engine in self._mute:
            return False
        label = AttemptLabel(run=run.id, attempt=attempt.number, host=attempt.host)
        try:
            return await self._engines.status(run.spec, label) is not None
        except (TransientError, BadRequest) as error:
            self._refused("status", run, error)
            return False

    async def stop(self, run: Run, attempt: Attempt, how: Literal["stop", "pause", "kill"]) -> None:
        """Send one more hint to end an attempt."""
        if await self._stop(run, attempt.number, attempt.host, how):
            await self._runs.stop_sent(run.id, attempt.number, at=self._clock.now())

    async def kill(self, stale: Stale) -> None:
        """End an attempt that should not live; not more often than hints are repeated."""
        now, key = self._clock.now(), (stale.run, stale.attempt)
        killed_at = self._killed.get(key)
        if killed_at is not None and (now - killed_at).total_seconds() < self._timings.resend_after_s:
            return
        log.warning("a late attempt is told to end", extra={"run": stale.run, "attempt": stale.attempt})
        if await self._stop(await self._runs.get(stale.run), stale.attempt, stale.host, "kill"):
            self._killed[key] = now

    async def _stop(self, run: Run, attempt: int, host: str, how: Literal["stop", "pause", "kill"]) -> bool:
        if run.spec.engine in self._mute:
            return False
        try:
            await self._engines.cancel(run.spec, StopOrder(run=run.id, attempt=attempt, how=how), host=host)
        except (TransientError, BadRequest) as error:
            self._refused(how, run, error)
            return False
        return True

    def _refused(self, what: str, run: Run, error: AppError) -> None:
        self._mute.add(run.spec.engine)
        log.warning("%s was not sent", what, extra={"run": run.id, "cause": str(error)})
