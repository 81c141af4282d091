"""Tools that look at runs side by side and at where they go: list, status, comparison, queue, hosts. Reads only."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from pydantic import Field, JsonValue

from agent.cards import counted, duration, number, priority_words, score_words
from agent.domain.content import Card, Table
from agent.domain.errors import BadRequest, TransientError
from agent.domain.policy import Effect
from agent.domain.runs import Run, RunState
from agent.domain.tasks import candidate_label, metric_label
from agent.ports import Clock, HostDirectory
from agent.runs.cards.host_cards import cluster_card, gone_words, queue_card
from agent.runs.cards.pace import seconds_left
from agent.runs.cards.run_cards import result_card, run_card, state_text, state_words
from agent.runs.charts.run_charts import BASELINE, NEWEST, Curves, comparison_of, last_value
from agent.runs.life.service import RunService
from agent.runs.pictures.artifacts import ArtifactWriter
from agent.runs.queue.scheduling import Waiting
from agent.stores import Runs
from agent.tools.finding import NO_RUN, named, named_or_newest, of_all, of_thread, readable
from agent.tools.runs.watching import RunArguments
from agent.tools.tool import Arguments, Caller, Result, Tool
from agent.tools.training.change_cards import differences
from agent.tools.training.placing import ledger

MOST_COMPARED = 5
METRICS_COMPARED = 8
ANOTHER = "another run"  # of a channel that this person may not read
METRICS_READ = 24  # those first that most of the runs have


class NoArguments(Arguments):
    """Takes nothing."""


class CompareArguments(Arguments):
    """Runs side by side."""

    runs: tuple[str, ...] = Field(
        (),
        max_length=MOST_COMPARED,
        description="Run ids, two to five; the newest two of this thread if unsaid.",
        examples=[["r-abc123", "r-def456"]],
    )


class Looking:
    """The tools of this family."""

    def __init__(
        self, runs: Runs, service: RunService, directory: HostDirectory, files: ArtifactWriter, clock: Clock
    ) -> None:
        """`service` knows the queue, `files` draws."""
        self._runs = runs
        self._service = service
        self._directory = directory
        self._files = files
        self._clock = clock

    def tools(self) -> Sequence[Tool]:
        """Their declarations."""
        read = Effect.READ
        return (
            Tool("list_runs", "The runs of this thread.", NoArguments, read, run=self.list_runs, polls=True),
            Tool(
                "run_status",
                "State, step, time left and result of a run.",
                RunArguments,
                read,
                run=self.status,
                polls=True,
            ),
            Tool(
                "compare_runs",
                "Two to five runs side by side: differing settings, results, metrics, one chart.",
                CompareArguments,
                read,
                run=self.compare,
            ),
            Tool("list_queue", "The runs that wait, in order, and why.", NoArguments, read, run=self.queue, polls=True),
            Tool(
                "list_hosts",
                "The cluster: hosts, GPUs and who has them, walls, disk, queue.",
                NoArguments,
                read,
                run=self.hosts,
                polls=True,
            ),
        )

    async def list_runs(self, caller: Caller, _asked: NoArguments) -> Result:
        """The runs of this thread; those of the channel where this thread has none."""
        ours = await of_thread(self._runs, caller, 15)
        found = ours or await of_all(self._runs, caller, 15)
        if not found:
            return Result(NO_RUN)
        order = "newest first" + (
            "" if ours or not caller.thread.thread_id else "; of other threads, this one has none"
        )
        names = {run.spec.data_words for run in found}
        listed: list[JsonValue] = [
            {"run": run.id, "state": run.state.value, "data": run.spec.data_words, "result": _result(run)}
            for run in found
        ]
        card = Card(
            kind="notice",
            title="Runs",
            table=Table(
                columns=("run", "state", "target", *(("data",) if len(names) > 1 else ()), "result"),
                rows=tuple(_row(run, data=len(names) > 1) for run in found),
            ),
            footer=order + (f"; all on {names.pop()}" if len(names) == 1 else ""),
        )
        return Result(f"{counted(len(found), 'run')}, {order}.", {"runs": listed}, card)

    async def status(self, caller: Caller, asked: RunArguments) -> Result:
        """Where a run stands."""
        run = await named_or_newest(self._runs, caller, asked.run)
        rows = await self._runs.newest_metrics(run.id, NEWEST)
        text = state_text(run, why=False)
        if run.state is RunState.SUCCEEDED:
            earlier = await self._runs.measured_before(run)
            card = result_card(run, rows=rows, earlier=earlier)
            return Result(text, {"run": run.id, "state": run.state.value, "measured_before": earlier}, card)
        left_s = seconds_left(run, rows)
        if left_s is not None:
            text += f" About {duration(left_s)} are left."
        log, attempts = await self._runs.log(run.id, 6), await self._runs.attempts(run.id)
        card = run_card(run, rows, log, None, now=self._clock.now(), attempts=attempts)
        last: dict[str, JsonValue] = {name: number(value) for name, value in rows[-1].values.items()} if rows else {}
        data: dict[str, JsonValue] = {"run": run.id, "state": run.state.value, "last": last, "why": card.body}
        if run.outcome is not None and run.outcome.exit_class is not None:
            data["exit_class"] = run.outcome.exit_class.value
        return Result(text, data, card)

    async def compare(self, caller: Caller, asked: CompareArguments) -> Result:
        """Settings that differ, results, last metrics, and the curves of metrics that they share."""
        runs = await self._compared(caller, asked.runs)
        curves = await self._curves(runs)
        spec = comparison_of(curves)
        about = "-".join(run.id for run in runs)
        picture = await self._files.draw(spec, about=f"compare/{about}") if spec else None
        footer = "" if picture else "The chart could not be drawn" if spec else "They share no metric to draw"
        rows = comparison_rows(runs, curves)
        card = Card(
            kind="notice",
            title="Comparison of " + ", ".join(run.id for run in runs),
            body=_better_words(runs),
            table=Table(columns=("", *(run.id for run in runs)), rows=rows),
            picture=picture,
            footer=footer,
        )
        cells: list[JsonValue] = [list(row) for row in rows]
        data: dict[str, JsonValue] = {"said": card.body, "columns": ["", *(run.id for run in runs)], "rows": cells}
        return Result(f"{len(runs)} runs side by side.", data, card)

    async def _curves(self, runs: Sequence[Run]) -> dict[str, Curves]:
        """What is compared of their metrics, by run id."""
        names = {run.id: await self._runs.metric_names(run.id) for run in runs}
        wanted = [name for name in _shared_first(names.values()) if not name.startswith(BASELINE)][:METRICS_READ]
        curves: dict[str, Curves] = {}
        for run_id, own in names.items():
            found = await self._runs.windows(run_id, [name for name in wanted if name in own])
            curves[run_id] = {one.name: one for one in found}
        return curves

    async def _compared(self, caller: Caller, ids: Sequence[str]) -> list[Run]:
        ids = list(dict.fromkeys(ids))
        if not ids:
            runs = list(await of_thread(self._runs, caller, 2))
        else:
            runs = [await named(self._runs, caller, run_id) for run_id in ids]
        if len(runs) < 2:
            raise BadRequest("Name two runs to compare, such as `compare r-abc123 r-def456`. `runs` lists them.")
        return runs

    async def queue(self, caller: Caller, _asked: NoArguments) -> Result:
        """Who waits and why."""
        waiting = await self._readable(caller, await self._service.queue())
        if not waiting:
            return Result("The queue is empty: nothing waits for a place.", {"queue": []})
        listed: list[JsonValue] = [
            {"run": one.run.id, "position": one.position, "priority": priority_words(one.run.priority), "why": one.why}
            for one in waiting
        ]
        count = f"{len(waiting)} run{' waits' if len(waiting) == 1 else 's wait'}"
        data: dict[str, JsonValue] = {"state": RunState.QUEUED.value, "queue": listed}
        return Result(f"{count} in the queue.", data, queue_card(waiting))

    async def _readable(self, caller: Caller, waiting: Sequence[Waiting]) -> Sequence[Waiting]:
        """The waiting runs that this person may read."""
        seen = {run.id for run in await readable(self._runs, caller, [one.run for one in waiting])}
        return [one for one in waiting if one.run.id in seen]

    async def hosts(self, caller: Caller, _asked: NoArguments) -> Result:
        """What each connected host has, who uses it, and who waits."""
        found, gone = await self._directory.hosts(), await self._directory.gone()
        if not found and not gone:
            return Result(self._directory.nobody())
        known, live = await ledger(self._runs), await self._runs.live()
        try:
            queue = await self._readable(caller, await self._service.queue())
        except TransientError:
            queue = ()  # the hosts were known a moment ago; a queue that cannot be planned now is left out
        hidden = {run.id for run, _ in live} - {
            run.id for run in await readable(self._runs, caller, [run for run, _ in live])
        }
        live = [(run.model_copy(update={"id": ANOTHER}) if run.id in hidden else run, attempt) for run, attempt in live]
        held = {uuid: ANOTHER if run_id in hidden else run_id for uuid, run_id in known.held.items()}
        missing = [gone_words(host, self._clock.now()) for host in gone]
        if not found:
            missing.insert(0, self._directory.nobody())
        card = cluster_card(found, live, held=held, cordoned=known.cordoned, queue=queue, gone=missing)
        listed: list[JsonValue] = [
            {
                "host": host.host,
                "cpus": host.cpus,
                "gpus": [
                    {"index": gpu.index, "name": gpu.name, "run": held.get(gpu.uuid), "sick": gpu.sick}
                    for gpu in host.gpus
                ],
                "sandbox": host.sandbox,
                "networks": list(host.networks),
                "secrets": list(host.secrets or ()),
            }
            for host in found
        ]
        count = "1 host is" if len(found) == 1 else f"{len(found)} hosts are"
        away: list[JsonValue] = [{"host": host.host, "last_seen": host.at.isoformat()} for host in gone]
        return Result(f"{count} connected.", {"hosts": listed, "queue": len(queue), "gone": away}, card)


def comparison_rows(runs: Sequence[Run], curves: dict[str, Curves]) -> tuple[tuple[str, ...], ...]:
    """What differs first, then how each ended, then the last value of the metrics."""
    rows: list[tuple[str, ...]] = [("state", *(state_words(run) for run in runs))]
    rows += _spec_rows(runs)
    if any(run.outcome and run.outcome.scorecard for run in runs):
        rows.append(("result (sealed test)", *(_result(run) for run in runs)))
        rows += [("95 % interval", *cells)] if any(cells := [_interval(run) for run in runs]) else []
        rows += [("kept", *cells)] if any(cells := [_kept(run) for run in runs]) else []
        rows.append(("best baseline", *(_baseline(run) for run in runs)))
    rows.append(("step", *(f"{run.step:,}" for run in runs)))
    for name in _shared_first(curves[run.id] for run in runs)[:METRICS_COMPARED]:
        rows.append((f"last {name}", *(_last(curves[run.id], name) for run in runs)))
    return tuple(rows)


def _shared_first(names: Iterable[Collection[str]]) -> list[str]:
    """All names, those first that most runs have, else in the order of the runs."""
    having = Counter(name for of in names for name in of)
    return sorted(having, key=lambda name: -having[name])


def _spec_rows(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """A row for everything in which a run differs from the first."""
    values: dict[str, dict[str, str]] = {}
    for run in runs[1:]:
        for name, first, other in differences(runs[0].spec, run.spec):
            values.setdefault(name, {runs[0].id: first})[run.id] = other
    return [(name, *(of.get(run.id, of[runs[0].id]) for run in runs)) for name, of in values.items()]


def _better_words(runs: Sequence[Run]) -> str:
    """Which has the best result, where they were measured alike."""
    scored = [(run, run.outcome.scorecard) for run in runs if run.outcome and run.outcome.scorecard]
    scored = [(run, score) for run, score in scored if not math.isnan(score.model.value)]
    if len(scored) < 2 or len({score.metric for _, score in scored}) > 1:
        return ""
    pick = max if scored[0][1].higher_is_better else min
    best, score = pick(scored, key=lambda pair: pair[1].model.value)
    same = len({run.spec.sealed_rows for run, _ in scored}) == 1
    near = [f"`{run.id}`" for run, other in scored if run is not best and _overlap(score.interval, other.interval)]
    if not same:
        note = " They were not measured on the same test rows, so this says little."
    elif near:
        note = f" The 95 % interval of {' and '.join(near)} overlaps with its own: on other rows the order may differ."
    else:
        note = ""
    return f"Best {metric_label(score.metric)}: `{best.id}` with {score_words(score.model.value)}.{note}"


def _overlap(one: tuple[float, float] | None, other: tuple[float, float] | None) -> bool:
    return one is not None and other is not None and one[0] <= other[1] and other[0] <= one[1]


def _result(run: Run) -> str:
    score = run.outcome.scorecard if run.outcome else None
    return f"{metric_label(score.metric)} {score_words(score.model.value)}" if score else "–"


def _interval(run: Run) -> str:
    score = run.outcome.scorecard if run.outcome else None
    return " to ".join(map(score_words, score.interval)) if score and score.interval else ""


def _kept(run: Run) -> str:
    return candidate_label(run.outcome.chosen) if run.outcome and run.outcome.chosen else ""


def _baseline(run: Run) -> str:
    """The best baseline that is not itself the model."""
    score = run.outcome.scorecard if run.outcome else None
    others = [one for one in score.baselines if run.outcome and one.name != run.outcome.chosen] if score else []
    if score is None or not others:
        return "–"
    best = score.model_copy(update={"baselines": tuple(others)}).best_baseline
    return f"{candidate_label(best.name)} {score_words(best.value)}"


def _last(curves: Curves, name: str) -> str:
    return number(last_value(curves[name])) if name in curves else "–"


def _row(run: Run, *, data: bool) -> tuple[str, ...]:
    named = (run.spec.data_words,) if data else ()
    return run.id, state_words(run), run.spec.subject, *named, _result(run)
