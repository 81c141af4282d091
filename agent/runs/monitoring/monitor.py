"""Watches every live run by rules, and speaks when something new shows: at most three times a run.

Owns what is remembered of live runs between looks, and the keys `advice:<run>:<n>` of the outbox, which are also the
count that survives a restart. Knows no platform. It is told of changes (`changed`), looks a few times a minute, and
does nothing while nothing is new. What the rules found is posted as a card (but not a failure, of which the thread has
read already); where there is a language model, the same event starts a turn in the run's thread, in which the model may
look and propose: what changes anything waits for people.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from agent.delivery.outbox import OutboxDelivery
from agent.domain.content import Card, Content
from agent.domain.errors import AppError, NotFound
from agent.domain.events import MetricRow
from agent.domain.inbound import Inbound, Noticed, Thread
from agent.domain.runs import Attempt, Run, RunState
from agent.ports import Clock, HostDirectory
from agent.run_store import START, Place, Runs
from agent.runs.monitoring.advice import LOG_LINES, ROWS, Advice, advice_card, advice_in, model_words, person_of
from agent.runs.monitoring.findings import Finding, Kind, Thresholds
from agent.runs.monitoring.rules import RunRules
from agent.stores import Outbox

MOST = 3  # pieces of advice a run
_CONFIRM = 2  # looks in a row that have to find it, unless it cannot pass by itself
_AT_ONCE = frozenset({Kind.NON_FINITE})
_HEARD_S = 60.0  # a host that was not heard for longer may be cut off: no word about a stall
_RECENT = timedelta(minutes=15)  # a failure that a stopped bot has not spoken of
_SLICE = 200  # rows that are taken in one go: a hundredth of a second with ten metrics
_READ = 20_000  # rows that are in memory at once
_GPUS_EVERY_S = 600.0

log = logging.getLogger(__name__)

Notice = Callable[[Inbound], Awaitable[bool]]


@dataclass(slots=True)
class _Watched:
    """What is remembered of one run."""

    rules: RunRules
    attempt: int = 0
    place: Place = START
    heard_at: datetime | None = None
    newest: deque[MetricRow] = field(default_factory=lambda: deque(maxlen=ROWS))
    standing: dict[Kind, int] = field(default_factory=dict)  # looks in a row
    advised: list[Advice] | None = None  # None: the outbox was not asked yet

    def begin(self, attempt: int) -> None:
        """Begin with a new attempt: pauses, NaN and silence of the one before do not count."""
        if attempt > self.attempt:
            self.attempt = attempt
            self.standing.clear()
            self.rules.new_attempt()


class Monitor:
    """One for all runs. `notice` starts a model's turn; None where no model is set up."""

    def __init__(  # noqa: PLR0913 - what it watches, what it says it with, and how often
        self,
        runs: Runs,
        outbox: Outbox,
        delivery: OutboxDelivery,
        directory: HostDirectory,
        clock: Clock,
        *,
        notice: Notice | None,
        every_s: float = 30.0,
        thresholds: Thresholds | None = None,
    ) -> None:
        """`every_s` is how often all live runs are looked at; changed ones are looked at six times as often."""
        self._runs, self._outbox, self._delivery = runs, outbox, delivery
        self._directory, self._clock, self._notice = directory, clock, notice
        self._every_s = every_s
        self._thresholds = thresholds
        self._watched: dict[str, _Watched] = {}
        self._changed: set[str] = set()
        self._unasked: set[str] = set()  # runs with advice that no turn could begin for
        self._gpu_bytes: dict[str, int] = {}
        self._gpus_at = float("-inf")

    def changed(self, run_id: str) -> None:
        """This run has something new."""
        self._changed.add(run_id)

    async def recover(self) -> None:
        """After a start: failures that nobody was told of, and advice whose turn was never begun."""
        now = self._clock.now()
        failed = [
            run
            for run in await self._runs.recent(50)
            if run.state is RunState.FAILED and run.ended_at is not None and now - run.ended_at < _RECENT
        ]
        self._changed |= {run.id for run in failed}
        if self._notice is None:
            return
        for run in (*(run for run, _ in await self._runs.live()), *failed):
            await self._ask(run)

    async def run(self) -> None:
        """Look until cancelled."""
        looked_at = float("-inf")
        while True:
            due = self._clock.monotonic() - looked_at >= self._every_s
            if due:
                looked_at = self._clock.monotonic()
            if due or self._changed:
                try:
                    await self.look(everything=due)
                except AppError as error:
                    log.warning("monitor waits", extra={"cause": error.text})
            await asyncio.sleep(self._every_s / 6)

    async def look(self, *, everything: bool = True) -> None:
        """Look once: at all live runs, or at those that changed. An error with one run does not stop the others."""
        changed, self._changed = self._changed, set()
        try:
            await self._look(changed, everything=everything)
        except AppError:
            self._changed |= changed  # to look again at what was looked at already tells nobody twice
            raise

    async def _look(self, changed: set[str], *, everything: bool) -> None:
        live = await self._runs.live()
        ids = {run.id for run, _ in live}
        for run_id in self._watched.keys() - ids - changed:
            del self._watched[run_id]
        for run, attempt in live:
            if everything or run.id in changed:
                await self._carefully(run, attempt)
        for run_id in changed - ids:
            with contextlib.suppress(NotFound):
                await self._carefully(await self._runs.get(run_id), None)
                self._watched.pop(run_id, None)

    async def _carefully(self, run: Run, attempt: Attempt | None) -> None:
        try:
            await self._look_at(run, attempt)
        except AppError as error:
            self._changed.add(run.id)
            log.warning("run is looked at later", extra={"run": run.id, "cause": error.text})
        except Exception:
            log.exception("run was not looked at", extra={"run": run.id})

    async def _look_at(self, run: Run, attempt: Attempt | None) -> None:
        if run.id in self._unasked:
            await self._ask(run)
            self._unasked.discard(run.id)
        if attempt is None and run.state is not RunState.FAILED:
            return
        watched = self._watched.setdefault(run.id, _Watched(RunRules(self._thresholds)))
        await self._read(run, watched)
        watched.begin(run.attempt)
        now_s = self._clock.monotonic()
        if attempt is not None and attempt.heard_at != watched.heard_at:
            watched.heard_at = attempt.heard_at
            watched.rules.used(run.usage, now_s=now_s)
        found = watched.rules.judge(run, now_s=now_s, gpu_bytes=await self._sizes(run))
        if attempt is None:
            await self._think_about_failure(run, watched, found)
            return
        if not self._is_heard(attempt):
            found = [finding for finding in found if finding.kind is not Kind.STALL]
        watched.standing = {finding.kind: watched.standing.get(finding.kind, 0) + 1 for finding in found}
        aside = [finding for finding in found if finding.severity == "info"]
        ready = [
            finding
            for finding in found
            if finding not in aside and (finding.kind in _AT_ONCE or watched.standing[finding.kind] >= _CONFIRM)
        ]
        if ready:
            await self._advise(run, watched, ready, aside)

    async def _think_about_failure(self, run: Run, watched: _Watched, found: Sequence[Finding]) -> None:
        """Begin a model's turn about a failure, once for each attempt; the thread shows the failure already."""
        if found:
            card = advice_card(run, found, count=1, most=1)
            await self._begin_turn(run, f"advice:{run.id}:failed:{run.attempt}", card, (), watched.newest)

    async def _read(self, run: Run, watched: _Watched) -> None:
        """Take in what is new of the metrics, in slices, so that a long history does not hold up everybody."""
        while True:
            rows, watched.place = await self._runs.metrics_after(run.id, watched.place, most=_READ)
            watched.begin(watched.place[0])
            watched.newest.extend(rows[-ROWS:])
            for first in range(0, len(rows), _SLICE):
                watched.rules.add(rows[first : first + _SLICE], now_s=self._clock.monotonic())
                await asyncio.sleep(0)
            if not rows or (len(rows) < _READ and watched.place[0] >= run.attempt):
                return

    def _is_heard(self, attempt: Attempt | None) -> bool:
        if attempt is None or attempt.heard_at is None:
            return False
        return (self._clock.now() - attempt.heard_at).total_seconds() < _HEARD_S

    async def _sizes(self, run: Run) -> dict[str, int]:
        """The sizes of GPUs, asked of the hosts now and then, and only for runs that use one."""
        now = self._clock.monotonic()
        if run.usage is not None and run.usage.gpus and now - self._gpus_at > _GPUS_EVERY_S:
            self._gpus_at = now
            with contextlib.suppress(AppError):
                self._gpu_bytes |= {
                    gpu.uuid: gpu.memory_bytes for host in await self._directory.hosts() for gpu in host.gpus
                }
        return self._gpu_bytes

    async def _advise(self, run: Run, watched: _Watched, found: Sequence[Finding], aside: Sequence[Finding]) -> None:
        if watched.advised is None:
            cards = await self._cards(run.id)
            watched.advised = [advice for _, card in cards if (advice := advice_in(card)) is not None]
        known = {kind for advice in watched.advised if advice.attempt == run.attempt for kind in advice.kinds}
        new = [finding for finding in found if finding.kind not in known]
        count = len(watched.advised) + 1
        if not new or count > MOST:
            return
        card = advice_card(run, new, count=count, most=MOST)
        key = f"advice:{run.id}:{count}"
        thread = await self._runs.thread(run.id)
        await self._delivery.put(key, thread, Content(card=card), urgent=True)
        watched.advised.append(Advice(run.attempt, frozenset(finding.kind for finding in new)))
        log.info("advice", extra={"run": run.id, "kinds": [finding.kind.value for finding in new], "count": count})
        try:
            await self._begin_turn(run, key, card, aside, watched.newest, thread=thread)
        except AppError:
            self._unasked.add(run.id)
            raise

    async def _ask(self, run: Run) -> None:
        """Begin the turns of its advice that were never begun."""
        for key, card in await self._cards(run.id):
            await self._begin_turn(run, key, card, (), ())

    async def _cards(self, run_id: str) -> list[tuple[str, Card]]:
        """The advice that was given about a run."""
        found: list[tuple[str, Card]] = []
        for count in range(1, MOST + 1):
            key = f"advice:{run_id}:{count}"
            post = await self._outbox.get(key)
            if post is None or post.content.card is None:
                break
            found.append((key, post.content.card))
        return found

    async def _begin_turn(
        self,
        run: Run,
        key: str,
        card: Card,
        aside: Sequence[Finding],
        rows: Sequence[MetricRow],
        *,
        thread: Thread | None = None,
    ) -> None:
        """Begin a model's turn about advice; the same key never begins a second turn."""
        person = person_of(run.requester)
        if self._notice is None or person is None:
            return
        lines = await self._runs.log(run.id, LOG_LINES)
        advice = advice_in(card)
        kinds = ", ".join(sorted(advice.kinds)) if advice else ""
        act = Noticed(run=run.id, finding=kinds, text=model_words(run.id, card, aside, list(rows), lines))
        thread = thread or await self._runs.thread(run.id)
        await self._notice(Inbound(event_id=key, thread=thread, person=person, act=act, at=self._clock.now()))
