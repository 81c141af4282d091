"""Tools that look into one run: log, metrics, checkpoints, attempts, script. Reads only; called by the dispatcher."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field, JsonValue

from agent.cards import counted, duration, number, size
from agent.domain.content import Button, Card, Table
from agent.domain.errors import BadRequest
from agent.domain.policy import Effect
from agent.domain.redaction import without_secrets
from agent.domain.runs import Attempt, Run, RunState
from agent.ports import Bundles
from agent.runs.engines import Engines
from agent.runs.pictures.artifacts import ArtifactWriter
from agent.stores import LogQuery, Runs
from agent.tools.finding import named_or_newest
from agent.tools.runs.exporting import Exports, Form, packed, words
from agent.tools.runs.log_views import MOST_BEFORE, Level, LogView, buttons, shortened
from agent.tools.runs.whole_log import WholeLog
from agent.tools.tool import Arguments, Caller, Result, Tool
from agent.tools.training.scripts import SHOWN_CHARS, SHOWN_LINES

LOG_LINES = 30
LOG_CHARS = 1700  # of one card; fewer lines where they are long, so that no platform cuts them
SCRIPT_CHARS = 9_000  # of a script at once, for a model
ROWS_SHOWN = 20
METRICS_SHOWN = 60
EXPORT_S = 900.0  # seconds that writing every row, or every line, may take
LOGS_SAID = "A run's log: newest lines, search, level, pages, or all of it as a file."
METRICS_SAID = "The metrics of a run: table, csv file or parquet file."
RUN_SAID = "Run id; unsaid: the newest of this thread."


class RunArguments(Arguments):
    """One run."""

    run: str | None = Field(None, description=RUN_SAID, examples=["r-abc123"])


class LogArguments(RunArguments):
    """The log of a run."""

    lines: int = Field(LOG_LINES, ge=1, le=200, description="How many lines.")
    search: str = Field("", max_length=200, description="Only lines that contain this text.")
    level: Level | None = Field(None, description="error, or warning (which includes errors).")
    before: int | None = Field(
        None, ge=0, le=MOST_BEFORE, description="Cursor `older` of an earlier answer: the page before it."
    )
    older: bool = Field(False, description="The page before the newest one.")
    file: bool = Field(False, description="Instead: the whole log, with whole lines, as a file for people.")


class MetricArguments(RunArguments):
    """The metrics of a run."""

    csv: bool = Field(False, description="Hand over every row as a csv file.")
    parquet: bool = Field(False, description="Hand over every row as a parquet file.")
    usage: bool = Field(False, description="Instead: what it used over time (GPUs, processors, memory), as a file.")


class ScriptArguments(RunArguments):
    """The training script of a run."""

    version: int | None = Field(None, ge=1, description="An earlier version; the present one if unsaid.")
    first_line: int = Field(1, ge=1, description="Where to begin, for long scripts.")


class Watching:
    """The tools of this family."""

    def __init__(self, runs: Runs, engines: Engines, bundles: Bundles, files: ArtifactWriter) -> None:
        """`engines` have what was dropped of a log, `bundles` the scripts; `files` hands over what is long."""
        self._runs = runs
        self._bundles = bundles
        self._files = files
        self._exports = Exports(runs, files)
        self._log = WholeLog(runs, engines, files)

    def tools(self) -> Sequence[Tool]:
        """Their declarations."""
        read = Effect.READ
        return (
            Tool("run_logs", LOGS_SAID, LogArguments, read, run=self.logs, limit_s=EXPORT_S, polls=True),
            Tool("run_metrics", METRICS_SAID, MetricArguments, read, run=self.metrics, limit_s=EXPORT_S, polls=True),
            Tool("run_checkpoints", "The checkpoints of a run.", RunArguments, read, run=self.checkpoints),
            Tool("run_attempts", "A run's attempts and why each ended.", RunArguments, read, run=self.attempts),
            Tool("run_script", "The train.py of a run, or its versions.", ScriptArguments, read, run=self.script),
        )

    async def logs(self, caller: Caller, asked: LogArguments) -> Result:
        """A page of the log."""
        run = await named_or_newest(self._runs, caller, asked.run)
        if asked.file:
            return await self._whole_log(run)
        view = LogView(run.id, asked.level, asked.search, asked.before)
        page = await self._runs.log_page(run.id, _query(view, asked.lines))
        shown = page.last(_fitting(page.lines, view.search))
        if asked.older and asked.before is None and shown.older is not None:
            view = replace(view, before=shown.older)
            page = await self._runs.log_page(run.id, _query(view, asked.lines))
            shown = page.last(_fitting(page.lines, view.search))
        if not page.lines:
            return _no_lines(run, view)
        kind = {"error": " errors", "warning": " warnings and errors"}.get(view.level or "", " lines")
        words = f" with “{view.search}”" if view.search else ""
        place = "older " if view.before is not None else "newest "
        title = f"Log of {run.id}" + (f": {kind.strip()}" if view.level else "") + words
        rest = "there are older ones" if shown.older is not None else "there are no older ones"
        log = tuple(shortened(line, view.search) for line in shown.lines)
        whole = f"; `logs {run.id} file` has long lines whole" if log != shown.lines else ""
        card = Card(
            kind="notice",
            title=title,
            log=log,
            buttons=buttons(view, older=shown.older, newer=await self._newer(view)),
            footer=f"{place}{len(log)}{kind}; {rest}{whole}",
        )
        data: dict[str, JsonValue] = {"run": run.id, "lines": list(page.lines), "older": page.older}
        return Result(f"The {place}{len(page.lines)}{kind} of `{run.id}`{words}.", data, card)

    async def _newer(self, view: LogView) -> LogView | None:
        """The page that follows this one; None on the newest."""
        if view.before is None:
            return None
        page = await self._runs.log_page(view.run, replace(_query(view, LOG_LINES + 1), before=None, since=view.before))
        count = _fitting(page.lines[:LOG_LINES][::-1], view.search)
        return replace(view, before=page.ids[count] if count < len(page.ids) else None)

    async def _whole_log(self, run: Run) -> Result:
        """Every line as a file."""
        path, count = await self._log.write(run)
        if not count:
            return _no_lines(run, LogView(run.id))
        path = await asyncio.to_thread(packed, path)
        file = await self._files.keep(path, name=f"{run.id}.log{path.suffix}", about=run.id)
        said = f"The log of `{run.id}` with its {counted(count, 'line')}, as a file of {size(file.size_bytes)}."
        return Result(said, {"run": run.id, "file": file.name}, files=(file,))

    async def metrics(self, caller: Caller, asked: MetricArguments) -> Result:
        """Every metric with its first, last, lowest and highest value, or every row as a file."""
        run = await named_or_newest(self._runs, caller, asked.run)
        if asked.usage:
            return await self._used(run, "parquet" if asked.parquet else "csv")
        there = await self._runs.metric_table(run.id)
        if not there.rows:
            return Result(f"Run `{run.id}` has logged no metrics yet.", {"run": run.id})
        names = await self._runs.metric_names(run.id)
        found = await self._runs.series(run.id, names[:METRICS_SHOWN])
        last: dict[str, JsonValue] = {one.name: number(one.last_value) for one in found}
        if asked.csv or asked.parquet:
            file = await self._exports.write(run.id, there, "parquet" if asked.parquet else "csv")
            data: dict[str, JsonValue] = {"run": run.id, "file": file.name, "last": last}
            return Result(words(run.id, there, file), data, files=(file,))
        table = Table(
            columns=("metric", "first", "last", "lowest", "highest"),
            rows=tuple(
                (one.name, *(number(value) for value in (one.first_value, one.last_value, one.low, one.high)))
                for one in found
            ),
        )
        more = f"; {counted(len(names) - METRICS_SHOWN, 'more metric')}" if len(names) > METRICS_SHOWN else ""
        footer = f"{counted(there.rows, 'row')} logged{more}; `metrics {run.id} csv` or `parquet` hands them over"
        card = Card(kind="notice", title=f"Metrics of {run.id}", table=table, footer=footer)
        return Result(f"{counted(there.rows, 'row')} of metrics in `{run.id}`.", {"run": run.id, "last": last}, card)

    async def _used(self, run: Run, form: Form) -> Result:
        """What the run used, as its hosts measured it, in a file."""
        there = await self._runs.metric_table(run.id, "usage")
        if not there.rows:
            return Result(f"Nothing was measured of what run `{run.id}` uses yet.", {"run": run.id})
        file = await self._exports.write(run.id, there, form, "usage")
        said = words(run.id, there, file, "usage")
        return Result(said, {"run": run.id, "file": file.name, "columns": [*there.names]}, files=(file,))

    async def checkpoints(self, caller: Caller, asked: RunArguments) -> Result:
        """The checkpoints of a run, with the hosts that hold them."""
        run = await named_or_newest(self._runs, caller, asked.run)
        found = await self._runs.checkpoints(run.id)
        if not found:
            return Result(f"Run `{run.id}` has saved no checkpoint yet.", {"run": run.id})
        hosts = {attempt.number: attempt.host for attempt in await self._runs.attempts(run.id)}
        newest = list(reversed(found))
        table = Table(
            columns=("step", "size", "saved (UTC)", "attempt", "host"),
            rows=tuple(
                (f"{saved.step:,}", size(saved.size_bytes), f"{saved.at:%m-%d %H:%M:%S}", str(saved.attempt), host)
                for saved in newest[:ROWS_SHOWN]
                for host in (hosts.get(saved.attempt, "–"),)
            ),
        )
        more = len(found) - ROWS_SHOWN
        footer = "newest first" + (f", {more:,} older ones not shown" if more > 0 else "")
        card = Card(kind="notice", title=f"Checkpoints of {run.id}", table=table, footer=footer)
        text = f"Run `{run.id}` has saved {counted(len(found), 'checkpoint')}, the newest at step {newest[0].step:,}."
        return Result(text, {"run": run.id, "steps": [saved.step for saved in newest[:ROWS_SHOWN]]}, card)

    async def attempts(self, caller: Caller, asked: RunArguments) -> Result:
        """Each attempt: where, from which step, and why it ended."""
        run = await named_or_newest(self._runs, caller, asked.run)
        found = await self._runs.attempts(run.id)
        if not found:
            return Result(f"Run `{run.id}` has not been sent to a host yet. {run.note}".strip(), {"run": run.id})
        notes = await self._runs.notes(run.id)
        card = Card(
            kind="notice",
            title=f"Attempts of {run.id}",
            body="\n".join(f"- {note.at:%H:%M} attempt {note.attempt}: {note.text}" for note in notes[-5:]),
            table=Table(
                columns=("#", "host", "from step", "time", "ended"),
                rows=tuple(_attempt_row(attempt) for attempt in found[-ROWS_SHOWN:]),
            ),
            footer=f"{duration(run.used_s)} of {duration(run.spec.max_hours * 3600)} used",
        )
        listed: list[JsonValue] = [
            {"attempt": attempt.number, "host": attempt.host, "ended": _ended(attempt)} for attempt in found
        ]
        said: list[JsonValue] = [note.text for note in notes[-20:]]
        text = f"Run `{run.id}` has had {counted(len(found), 'attempt')}."
        return Result(text, {"run": run.id, "attempts": listed, "notes": said}, card)

    async def script(self, caller: Caller, asked: ScriptArguments) -> Result:
        """The program, as text and as a file."""
        run = await named_or_newest(self._runs, caller, asked.run)
        versions = {script.version: script.bundle_sha256 for script in await self._runs.scripts(run.id)}
        newest = max(versions, default=1)
        version = asked.version or newest
        if asked.version is not None and version not in versions:
            known = ", ".join(map(str, versions)) or "1"
            raise BadRequest(f"Run `{run.id}` has no version {version} of its script. Versions: {known}.")
        text = await self._bundles.read(versions.get(version, run.spec.bundle_sha256), run.spec.entry)
        text, _ = without_secrets(text)  # of all of it: a key goes over lines and pages
        lines = text.splitlines()
        if asked.first_line > max(1, len(lines)):
            raise BadRequest(f"The script has {counted(len(lines), 'line')}.")
        entry = run.spec.entry.rpartition("/")[2]
        name = entry if version == newest else f"{entry.removesuffix('.py')}_v{version}.py"
        file = await self._files.document(text, name=name, about=f"{run.id}-v{version}")
        shown, cut = _beginning(lines)
        of = f"version {version} of {newest}" if newest > 1 else "its only version"
        card = Card(
            kind="notice",
            title=f"Script of {run.id}: {name}",
            log=shown,
            buttons=_script_buttons(run),
            footer=f"{of}, {counted(len(lines), 'line')}" + (f"; {cut:,} more in the file" if cut else ""),
        )
        data: dict[str, JsonValue] = {"run": run.id, "version": version, "versions": newest}
        return Result(f"{name} of `{run.id}`, {of}.", data | _paged(lines, asked.first_line), card, (file,))


def _script_buttons(run: Run) -> tuple[Button, ...]:
    """The button that changes the script, while the run can take another one."""
    if run.state is RunState.SUCCEEDED:
        return ()
    return (Button(action="update", subject=run.id, label="New script"),)


def _query(view: LogView, lines: int) -> LogQuery:
    return LogQuery(limit=lines, contains=view.search, level=view.level, before=view.before)


def _no_lines(run: Run, view: LogView) -> Result:
    if view.before is not None:
        return Result(f"There are no older lines of the log of `{run.id}`.", {"run": run.id, "lines": []})
    if not view.search and view.level is None:
        return Result(f"Run `{run.id}` has written no log yet.", {"run": run.id, "lines": []})
    what = {"error": "error", "warning": "warning or error"}.get(view.level or "", "line")
    words = f" with “{view.search}”" if view.search else ""
    return Result(f"The log of `{run.id}` has no {what}{words}.", {"run": run.id, "lines": []})


def _fitting(lines: Sequence[str], search: str) -> int:
    """How many of the last lines have room on a card, long ones cut."""
    used = 0
    for count, line in enumerate(reversed(lines)):
        used += len(shortened(line, search)) + 1
        if count and used > LOG_CHARS:
            return count
    return len(lines)


def _beginning(lines: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """The first lines that have room on a card, and how many are left."""
    shown: list[str] = []
    used = 0
    for line in lines[:SHOWN_LINES]:
        short = shortened(line)
        used += len(short) + 1
        if used > SHOWN_CHARS:
            break
        shown.append(short)
    return tuple(shown), len(lines) - len(shown)


def _paged(lines: Sequence[str], first: int) -> dict[str, JsonValue]:
    """Lines from `first` on, as many as a model gets at once, and where the rest begins."""
    taken: list[str] = []
    used = 0
    for line in lines[first - 1 :]:
        used += len(line) + 1
        if taken and used > SCRIPT_CHARS:
            return {"script": "\n".join(taken), "goes_on_at_line": first + len(taken)}
        taken.append(line)
    return {"script": "\n".join(taken)}


def _attempt_row(attempt: Attempt) -> tuple[str, str, str, str, str]:
    where = attempt.host + (f" ({len(attempt.gpus)} GPU)" if attempt.gpus else "")
    took = duration(attempt.outcome.seconds) if attempt.outcome else "–"
    return str(attempt.number), where, f"{attempt.first_step:,}", took, _ended(attempt)


def _ended(attempt: Attempt) -> str:
    if attempt.outcome is None:
        return "it is the present one"
    ended = attempt.outcome
    kind = f" ({ended.exit_class.value})" if ended.exit_class else ""
    return f"{ended.state.value}{kind}" + (f": {ended.reason}" if ended.reason else "")
