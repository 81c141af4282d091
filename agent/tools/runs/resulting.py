"""The tool that shows pictures of a run: of its result, measured on sealed rows, and those that its training logged.

Also how that is said in the words of a command, or in a button's subject (`r-abc123.confusion`,
`r-abc123.reported.residuals`). Reads only.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import Field, JsonValue

from agent.cards import counted
from agent.domain.content import Card
from agent.domain.errors import BadRequest
from agent.domain.ids import is_run_id
from agent.domain.policy import Effect
from agent.domain.results import ResultView
from agent.domain.runs import Run, RunPicture
from agent.ports import Blobs
from agent.runs.cards.run_cards import state_words
from agent.runs.pictures.artifacts import ArtifactWriter
from agent.runs.pictures.measured import facts_of
from agent.runs.pictures.reported import (
    REPORTED,
    earlier_attempts,
    label_of,
    on_a_sheet,
    read_reported,
    reported_buttons,
    sheet_of,
    words_of_reported,
)
from agent.runs.pictures.results import LABELS, data_of, picture_of, result_buttons, views_of, words_of
from agent.stores import Runs
from agent.tools.charts.chart_words import RESULT_WORDS
from agent.tools.finding import named_or_newest
from agent.tools.runs.watching import RunArguments
from agent.tools.tool import Caller, Result, Tool

MOST_NAME = 40  # characters; those of a script have at most 32
_WHOLE = frozenset({"results", "result", "all", "of", "the"})
_REPORTED = frozenset({REPORTED, "told"})  # the second in buttons of before 2026-11-24
_REPORTED_WORDS = _REPORTED | {"pictures", "picture", "logged"}
_FILLERS = frozenset({"matrix", "curve", "feature", "features"})


class ResultArguments(RunArguments):
    """Which picture."""

    picture: str | None = Field(
        None,
        max_length=MOST_NAME,
        description="One measured on the sealed rows (confusion, roc, mistakes, importance, …), or by name one that "
        "the training logged; the overview if unsaid.",
    )
    reported: bool = Field(False, description="Only what the training logged itself, while it runs too.")


class Resulting:
    """The tool of this family."""

    def __init__(self, runs: Runs, files: ArtifactWriter, blobs: Blobs) -> None:
        """`files` draws, `blobs` has the facts."""
        self._runs = runs
        self._files = files
        self._blobs = blobs

    def tools(self) -> Sequence[Tool]:
        """Its declaration."""
        said = (
            "Pictures of a run's result on sealed rows, or that its training logged, also while it runs: residuals, "
            "forecasts, clusters, images, samples, whatever it named."
        )
        return (Tool("run_results", said, ResultArguments, Effect.READ, run=self.show),)

    async def show(self, caller: Caller, asked: ResultArguments) -> Result:
        """The one that is named; else what was measured, else what was reported."""
        run = await named_or_newest(self._runs, caller, asked.run)
        pictures = await self._runs.pictures(run.id)
        view = RESULT_WORDS.get(asked.picture or "overview")
        named = [one for one in pictures if one.name == asked.picture] or [
            one for one in pictures if asked.picture and asked.picture in one.name
        ]
        every = asked.picture is None or (asked.reported and asked.picture in _REPORTED_WORDS | _WHOLE)
        measured = bool(run.outcome and run.outcome.results)
        if view is not None and measured and not asked.reported:
            return await self.measured(run, view, pictures)
        if named or (pictures and every):
            return await self._reported(run, pictures, on_a_sheet(named or pictures))
        if view is not None and (not asked.reported or (measured and asked.picture in RESULT_WORDS)):
            return await self.measured(run, view, pictures)
        facts = await facts_of(run, self._blobs) if measured else None
        there = views_of(facts.found) if facts else ()
        return Result(_no_such(run, asked.picture, pictures, there), {"run": run.id, **_names(pictures)})

    async def measured(self, run: Run, view: ResultView, pictures: Sequence[RunPicture] | None = None) -> Result:
        """A picture of what was measured on the sealed test rows, or why there is none."""
        pictures = await self._runs.pictures(run.id) if pictures is None else pictures
        facts = await facts_of(run, self._blobs)
        spec = picture_of(run, facts.found, view) if facts else None
        if facts is None or spec is None:
            said = _without(run, view, has_facts=facts is not None)
            if pictures:
                said += f" `results {run.id} pictures` shows what its training logged."
            return Result(said, {"run": run.id, **_names(pictures)})
        there = views_of(facts.found)
        picture = await self._files.draw(spec, about=f"chart/{run.id}")
        said = words_of(run, facts.found, view)
        card = Card(
            kind="notice",
            title=f"{LABELS[view]} of {run.id}",
            body=said,
            picture=picture,
            buttons=result_buttons(run.id, there, shown=view, reported=bool(pictures)),
            footer="" if picture else "The picture could not be drawn",
        )
        data: dict[str, JsonValue] = {"run": run.id, "said": said, **data_of(facts.found, there), **_names(pictures)}
        return Result(f"{LABELS[view]} of `{run.id}`.", data, card)

    async def _reported(self, run: Run, pictures: Sequence[RunPicture], wanted: Sequence[RunPicture]) -> Result:
        """A sheet of what the training reported."""
        found = [(one, facts) for one in wanted if (facts := await read_reported(one, self._blobs)) is not None]
        if not found:
            names = ", ".join(f"`{one.name}`" for one in wanted)
            said = f"Run `{run.id}` logged {names}, but it is no longer in the store of files."
            return Result(said, {"run": run.id, **_names(pictures)})
        shown, reported = [one for one, _ in found], [one for _, one in found]
        picture = await self._files.draw(
            sheet_of(run, reported, earlier=earlier_attempts(run, shown)), about=f"chart/{run.id}"
        )
        said = words_of_reported(run, pictures, shown, reported)
        card = Card(
            kind="notice",
            title=f"{label_of(shown[0].name) if len(shown) == 1 else 'Pictures'} of {run.id}",
            body=said,
            picture=picture,
            buttons=reported_buttons(run, pictures, shown=[one.name for one in shown]),
            footer="Logged by train.py" if picture else "The picture could not be drawn",
        )
        data: dict[str, JsonValue] = {
            "run": run.id,
            "said": said,
            "reported_by": "train.py",
            "steps": {one.name: one.step for one in shown},
            "shows": picture.alt if picture else "",
            **_names(pictures),
        }
        return Result(f"Pictures that the training of `{run.id}` logged.", data, card)


def results_arguments(words: Sequence[str]) -> dict[str, Any]:
    """The arguments of `run_results` from the words of a command; a button's subject may stand for all of them.

    What follows `reported` is a name as it stands, since a script may call a picture `all`, or like a run.

    Raises:
        BadRequest: two pictures, or two runs.
    """
    parts = [part for word in words for part in word.strip(",").lower().split(".") if part]
    head = parts[:1] if parts and is_run_id(parts[0]) else []
    if len(parts) == len(head) + 2 and parts[-2] in _REPORTED and len(parts[-1]) <= MOST_NAME:
        return ({"run": head[0]} if head else {}) | {"picture": parts[-1], "reported": True}
    runs = [part for part in parts if is_run_id(part)]
    reported = not _REPORTED_WORDS.isdisjoint(parts)
    rest = [part for part in parts if part not in {*runs, *_WHOLE, *_REPORTED_WORDS}]
    names = [part for part in rest if part not in _FILLERS] or rest
    if _is_no_run(words):
        raise BadRequest(f"`{words[0][:100]}` is not a run id; one looks like `r-abc123`.")
    if len(runs) > 1 or len(names) > 1 or any(len(name) > MOST_NAME for name in names):
        raise BadRequest(
            f"`{' '.join(words)[:100]}` is more than one picture of one run. Write `results r-abc123 confusion`, or "
            "the name of a picture that its training logged."
        )
    found = {"run": runs[0] if runs else None, "picture": names[0] if names else None}
    return {key: value for key, value in found.items() if value} | ({"reported": True} if reported else {})


def _is_no_run(words: Sequence[str]) -> bool:
    """Whether the first word looks like a run and is none."""
    return bool(words) and words[0].lower().startswith("r-") and not is_run_id(words[0].lower().partition(".")[0])


def _names(pictures: Sequence[RunPicture]) -> dict[str, JsonValue]:
    return {"logged_pictures": [one.name for one in pictures]} if pictures else {}


def _no_such(run: Run, name: str | None, pictures: Sequence[RunPicture], there: Sequence[ResultView]) -> str:
    """Why a named picture is not there, and which ones are; `there` are those that were measured."""
    none = f"The training of run `{run.id}` has logged no pictures."
    if not pictures and (name is None or not there):
        shows = f"`results {run.id}` shows its result" if there else f"`chart {run.id}` shows its curves"
        return f"{none} {shows}."
    plain = (name or "").replace("`", "'")
    said = f"Run `{run.id}` has no picture `{plain}`."
    said += f" It logged {', '.join(f'`{one.name}`' for one in pictures)}." if pictures else ""
    return said + (f" Of its result there are {', '.join(f'`{view}`' for view in there)}." if there else "")


def _without(run: Run, view: ResultView, *, has_facts: bool) -> str:
    """Why there is no such picture of what was measured."""
    score = run.outcome.scorecard if run.outcome else None
    if view == "mistakes" and score is not None and score.all_metrics.get("accuracy") == 1.0:
        return f"The model of run `{run.id}` made no mistake on its {counted(score.test_rows, 'sealed test row')}."
    if has_facts:
        return f"The result of run `{run.id}` has no such picture as {LABELS[view].lower()}."
    if score is not None:
        return (
            f"Run `{run.id}` has a result but no pictures of it: it was measured before there were any, or their "
            f"facts are no longer in the store of files. `status {run.id}` shows its scores."
        )
    return f"Run `{run.id}` is {state_words(run)} and has no result. `chart {run.id}` shows its curves."
