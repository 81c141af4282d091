"""Redraws the live card of each run when the run changes; the newest state wins.

A run that ends also gets its result card, once for each attempt that ended it.
"""

import asyncio
import hashlib
import logging
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.delivery.outbox import OutboxDelivery
from agent.domain.charts import ChartSpec
from agent.domain.content import Button, Card, Content, Document, Picture
from agent.domain.errors import AppError, TransientError
from agent.domain.events import MetricRow
from agent.domain.inbound import Thread
from agent.domain.restarts import HELPED
from agent.domain.runs import ENDED, Attempt, JobKind, Run, RunState
from agent.ports import Blobs, Clock
from agent.run_store import Steps
from agent.runs.cards.card_view import CardView, card_view_of, view_buttons
from agent.runs.cards.run_cards import result_card, run_card
from agent.runs.charts.run_charts import (
    BASELINE,
    MAX_PANELS,
    MOST_PANELS,
    NEWEST,
    Curves,
    Look,
    chart_of,
    curves_chart,
    drawn,
    held_out,
    panel_names,
    restarts,
)
from agent.runs.charts.usage import usage_button
from agent.runs.monitoring.findings import AFTER
from agent.runs.pictures.artifacts import ArtifactWriter
from agent.runs.pictures.downloads import handed_over
from agent.runs.pictures.measured import facts_of
from agent.runs.pictures.reported import reported_button
from agent.runs.pictures.results import picture_of, result_buttons, views_of
from agent.stores import Runs

log = logging.getLogger(__name__)
LOG_LINES = 6
_LOOKED_AT = 10  # newest runs of a thread, for one to lay over
_REMEMBERED = 1000  # runs, the newest drawn
_GATHER_S = 0.15  # news come in bunches: a start is queued, sent, accepted and begun within this
_BY = ("Stopped by ", "Killed by ")
_SOON_S = 1.0  # a picture takes a fiftieth of this once its process is warm


@dataclass(frozen=True, slots=True)
class _Found:
    """What the card of a run is made from, read in one go. `spec` is None where the run has no curves."""

    run: Run
    thread: Thread
    newest: Sequence[MetricRow]
    lines: Sequence[str]
    attempts: Sequence[Attempt]
    spec: ChartSpec | None
    reported: bool  # whether its training logged pictures
    buttons: Sequence[Button]


class _OutdatedError(Exception):
    """The state of the run has changed since its card was begun."""


class LiveCards:
    """Redraws run cards. `pace_s` is the shortest time between two drawings of the same run."""

    def __init__(
        self, runs: Runs, files: ArtifactWriter, delivery: OutboxDelivery, clock: Clock, *, blobs: Blobs, pace_s: float
    ) -> None:
        """`files` draws the charts, `blobs` has the facts of results."""
        self._runs = runs
        self._files = files
        self._delivery = delivery
        self._clock = clock
        self._blobs = blobs
        self._pace_s = pace_s
        self._changed: dict[str, None] = {}
        self._drawn: dict[str, tuple[str, Picture]] = {}
        self._news = asyncio.Event()

    def changed(self, run_id: str) -> None:
        """Have the card of this run redrawn."""
        self._changed[run_id] = None
        self._news.set()

    async def recover(self) -> None:
        """After a start, redraw the card of every recent run, except of those whose end the thread has been told."""
        for run in await self._runs.recent(200):
            if run.state not in ENDED or not await self._delivery.has(_result_key(run)):
                self.changed(run.id)

    async def run(self) -> None:
        """Redraw until cancelled."""
        while True:
            await self._news.wait()
            await asyncio.sleep(min(_GATHER_S, self._pace_s))
            self._news.clear()
            waiting, self._changed = list(self._changed), {}
            for run_id in waiting:
                try:
                    await self.refresh(run_id)
                except TransientError as error:
                    log.warning("card waits", extra={"run": run_id, "cause": str(error)})
                    self.changed(run_id)  # nothing else may ever change in a run that is over
                except Exception:
                    log.exception("card was not redrawn", extra={"run": run_id})
            await asyncio.sleep(self._pace_s)

    async def refresh(self, run_id: str) -> None:
        """Bring one run's card (and, at its end, its result card) up to date in the outbox."""
        found = await self._read(run_id)
        try:
            picture = await self._picture(found)
        except _OutdatedError:
            return  # the run is among those that changed, so its card is refreshed once more
        await self._tell_of_restart(found.run, found.attempts, found.thread)
        missed = found.spec is not None and picture is None
        await self._show(found, picture, footer=" · its chart could not be drawn" if missed else "")
        await self._tell_of_end(found)

    async def _read(self, run_id: str) -> _Found:
        """Everything that the card of a run is made from."""
        run = await self._runs.get(run_id)
        view = card_view_of(await self._runs.card_view(run_id)) or CardView()
        names = await self._runs.metric_names(run_id)
        spec = await self._chart(run, view, names)
        reported = bool(await self._runs.pictures(run_id))
        return _Found(
            run=run,
            thread=await self._runs.thread(run_id),
            newest=await self._runs.newest_metrics(run_id, NEWEST),
            lines=await self._runs.log(run_id, LOG_LINES),
            attempts=await self._runs.attempts(run_id) if run.attempt else (),
            spec=spec,
            reported=reported,
            buttons=await self._buttons(run, view, names, curves=spec is not None, reported=reported),
        )

    async def _buttons(
        self, run: Run, view: CardView, names: Sequence[str], *, curves: bool, reported: bool
    ) -> Sequence[Button]:
        """The card's buttons: to change the view, and to other pictures. A view without curves can be changed back."""
        found: list[Button] = []
        if curves or view != CardView():
            found += view_buttons(run.id, view, panels=panel_names(names), beside=await self._beside(run))
        found += [reported_button(run.id)] if reported else []
        return found + ([usage_button(run)] if curves or run.usage else [])

    async def _picture(self, found: _Found) -> Picture | None:
        """The curves: drawn anew where they changed since the last time; None where there are none, or drawing fails.

        Raises:
            _OutdatedError: the state of the run changed while they were drawn.
        """
        run_id = found.run.id
        digest = await asyncio.to_thread(_digest, found.spec)
        before, picture = await self._newest(run_id)
        if found.spec is None:
            picture = None
        elif picture is None or digest != before:
            picture = await self._draw(found, found.spec, picture)
        self._remember(run_id, digest, picture)
        return picture

    async def _draw(self, found: _Found, spec: ChartSpec, earlier: Picture | None) -> Picture | None:
        """Draw, and while that takes long show the card with its earlier picture. Raises as `_picture`."""
        drawing = asyncio.ensure_future(self._files.draw(spec, about=found.run.id))
        try:
            while not (await asyncio.wait({drawing}, timeout=_SOON_S))[0]:
                await self._show(found, earlier)
                if await self._is_outdated(found.run):
                    raise _OutdatedError
            return await drawing
        finally:
            drawing.cancel()

    async def _is_outdated(self, run: Run) -> bool:
        """Whether the run's state has changed since it was read."""
        return run.id in self._changed and (await self._runs.get(run.id)).state is not run.state

    async def _show(self, found: _Found, picture: Picture | None, *, footer: str = "") -> None:
        """Put the card into the outbox; `footer` is added to its own."""
        run, now = found.run, self._clock.now()
        card = run_card(run, found.newest, found.lines, picture, now=now, attempts=found.attempts, ways=found.buttons)
        card = _said_once(card, run, found.lines)
        card = card.model_copy(update={"footer": card.footer + footer})
        urgent = run.state in ENDED or run.step == 0
        await self._delivery.put(f"run:{run.id}", found.thread, Content(card=card), urgent=urgent)

    async def _tell_of_end(self, found: _Found) -> None:
        """How a run ended, in a message of its own: the result card of one that succeeded, words for others."""
        run = found.run
        if run.state not in ENDED:
            return
        if run.state is RunState.SUCCEEDED:
            card = await self._result(run, found.newest, reported=found.reported)
            content = Content(card=card, files=await self._files_of(run))
        else:
            content = Content(text=_ending(run))
        await self._delivery.put(_result_key(run), found.thread, content, urgent=True)

    async def _tell_of_restart(self, run: Run, attempts: Sequence[Attempt], thread: Thread) -> None:
        """Post why an attempt ended that is tried again by itself; the card shows the next attempt soon."""
        ended = [attempt for attempt in attempts if attempt.outcome is not None]
        outcome = ended[-1].outcome if ended and run.spec.auto_resume and run.state not in ENDED else None
        if outcome is None or outcome.exit_class not in HELPED:
            return
        number = ended[-1].number
        key = f"attempt:{run.id}:{number}"
        if await self._delivery.has(key) or await self._delivery.has(
            _result_key(run.model_copy(update={"attempt": number}))
        ):
            return  # the second: it was the end, and somebody had it tried again
        text = f"Attempt {number} of run `{run.id}` ended. {outcome.reason} It is tried again by itself."
        await self._delivery.put(key, thread, Content(text=text), urgent=True)

    async def _newest(self, run_id: str) -> tuple[str, Picture | None]:
        """Digest and picture of the last drawing; no picture where its file is gone."""
        digest, picture = self._drawn.get(run_id, ("", None))
        return digest, picture if picture and await self._files.has(picture) else None

    def _remember(self, run_id: str, digest: str, picture: Picture | None) -> None:
        """Keep the newest picture of a run, for a card with the same curves, or while the next one is drawn."""
        self._drawn.pop(run_id, None)
        if picture is not None:
            self._drawn[run_id] = digest, picture
        while len(self._drawn) > _REMEMBERED:
            del self._drawn[next(iter(self._drawn))]

    async def _result(self, run: Run, newest: Sequence[MetricRow], *, reported: bool) -> Card:
        """The result card; without its picture while the store of files cannot be reached."""
        try:
            facts = await facts_of(run, self._blobs)
        except TransientError as error:
            log.warning("result without its picture", extra={"run": run.id, "cause": str(error)})
            facts = None
        spec = picture_of(run, facts.found, "overview") if facts else None
        if facts is None or spec is None:
            return result_card(run, rows=newest, earlier=await self._runs.measured_before(run))
        once = run.outcome.results[:16] if run.outcome else ""
        picture = await self._files.draw(spec, about=f"result/{run.id}", once=once)
        ways = result_buttons(run.id, views_of(facts.found), shown="overview", reported=reported)
        return result_card(run, picture, ways, earlier=await self._runs.measured_before(run))

    async def _files_of(self, run: Run) -> tuple[Document, ...]:
        """The file that a prediction made; none while the store of files is away (`download` sends it later)."""
        if run.spec.job is not JobKind.PREDICTION:
            return ()
        try:
            return (await handed_over(run, self._blobs, self._files),)
        except AppError as error:
            log.warning("result without its file", extra={"run": run.id, "cause": str(error)})
            return ()

    async def _beside(self, run: Run) -> str:
        """The newest other run of its thread that began; empty where there is none."""
        others = await self._runs.of_session(run.session_id, _LOOKED_AT)
        return next((other.id for other in others if other.id != run.id and other.started_at), "")

    async def _chart(self, run: Run, view: CardView, names: Sequence[str]) -> ChartSpec | None:
        """The curves as people want to see them; None where there are none."""
        most = MOST_PANELS if view.every else MAX_PANELS
        wanted = drawn(names, view.shown(panel_names(names)))
        other = await self._runs.get(view.other) if view.other else None
        if other is not None:
            theirs = frozenset(await self._runs.metric_names(other.id))
            to_beat = [name for name in wanted if name.startswith(BASELINE)]
            shared = held_out(wanted, theirs)
            if theirs.isdisjoint(shared):
                other = None  # there is nothing of it to lay over, or not yet
            else:
                wanted = [*shared, *to_beat]
        curves = await self._curves(run, wanted, view.steps(run.step))
        marks = restarts(await self._runs.attempts(run.id)) if run.attempt > 1 else ()
        anew = {run.id: tuple(int(mark.x) for mark in marks)}
        look = Look(log_scale=view.log, marks=marks, smooth=view.smooth / 1000, anew=anew, panels=most)
        if other is None or not any(len(found.spans) for found in curves.values()):
            return chart_of(run, curves, look)
        low, high = view.steps(run.step)
        beside = await self._curves(other, wanted, (low, run.step if view.newest else high))
        began = [one.first_step for one in (await self._runs.attempts(other.id))[1:]]
        look = replace(look, marks=(), anew=anew | {other.id: tuple(began)})
        return curves_chart((run, other), {run.id: curves, other.id: beside}, look)[0]

    async def _curves(self, run: Run, names: Sequence[str], steps: Steps) -> Curves:
        """The curves of these metrics between the steps; baselines at whatever steps they were logged."""
        to_beat = [name for name in names if name.startswith(BASELINE)]
        found = [*await self._runs.windows(run.id, [name for name in names if name not in to_beat], steps)]
        found += await self._runs.windows(run.id, to_beat) if to_beat else []
        return {one.name: one for one in found if len(one.spans)}


def _result_key(run: Run) -> str:
    """The key of the message that says how a run ended, which is the last one of its attempt."""
    return f"result:{run.id}" + (f":{run.attempt}" if run.attempt > 1 else "")


def _digest(spec: ChartSpec | None) -> str:
    """A digest of the chart. Equal charts may rarely differ in it, which costs one more drawing."""
    return hashlib.sha256(pickle.dumps(spec)).hexdigest()


def _said_once(card: Card, run: Run, lines: Sequence[str]) -> Card:
    """The card; of a failed run without the reason, since the message beside it gives the reason."""
    failed = run.state in {RunState.FAILED, RunState.LOST}
    return card.model_copy(update={"body": "", "log": tuple(lines)}) if failed else card


def _ending(run: Run) -> str:
    """How it ended and why, and after a crash what may help."""
    outcome = run.outcome
    words = {RunState.FAILED: "failed", RunState.STOPPED: "was stopped", RunState.LOST: "is lost"}
    at = f" at step {run.step:,}" if run.step else ""
    text = f"Run `{run.id}` {words.get(run.state, run.state.value)}{at}."
    if outcome is None:
        return text
    if run.state is RunState.STOPPED and outcome.reason.startswith(_BY):
        text = f"Run `{run.id}` was {outcome.reason[0].lower()}{outcome.reason[1:-1]}{at}."
    elif outcome.reason:
        text += f" {outcome.reason}"
    if run.state is RunState.FAILED and outcome.traceback:
        tail = "\n".join(outcome.traceback[-8:])
        text += f"\n```\n{tail}\n```"
    if run.state is not RunState.STOPPED and outcome.exit_class is not None and not outcome.refused:
        text += f"\n**What may help:** {AFTER[outcome.exit_class]}"
    return text
