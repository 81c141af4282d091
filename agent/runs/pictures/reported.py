"""From pictures that a training logged to sheets, words and buttons; and their facts from the store of files.

What a training reports is shown beside what an evaluation measured, and never as if it were that: every sheet says who
reported it, and at which step. Knows neither drawing nor how the files came. Called by the live cards and the result
tool.
"""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from agent.domain.charts import Theme
from agent.domain.content import Button
from agent.domain.errors import UserError
from agent.domain.pictures import LIMIT_BYTES, WHOLE_SHEET, PictureSpec, Reported
from agent.domain.runs import Run, RunPicture
from agent.ports import Blobs
from agent.wire import Malformed, decode

REPORTED = "reported"  # in a button's subject and in words: those of the training, not the measured ones
_MOST_BUTTONS = 8  # to other pictures; with the two ways back these are two of Discord's rows
_SHEET = 4

log = logging.getLogger(__name__)


async def read_reported(picture: RunPicture, blobs: Blobs) -> Reported | None:
    """A logged picture, None where its file is gone. Raises `TransientError` while the store does not answer."""
    try:
        return await asyncio.to_thread(_read, await blobs.get(picture.sha256))
    except (Malformed, UserError, OSError) as error:
        log.warning("no reported picture", extra={"picture": picture.name, "cause": str(error)})
        return None


def _read(path: Path) -> Reported:
    with path.open("rb") as file:
        return decode(Reported, file.read(2 * LIMIT_BYTES))


def on_a_sheet(pictures: Sequence[RunPicture]) -> Sequence[RunPicture]:
    """The pictures that are shown together where none is named: up to four that fit on one sheet."""
    return [one for one in pictures if one.form not in WHOLE_SHEET][:_SHEET] or pictures[:1]


def sheet_of(
    run: Run, shown: Sequence[Reported], *, earlier: Sequence[int] = (), theme: Theme = "light"
) -> PictureSpec:
    """Pictures that were reported, on a sheet that says so; `earlier` attempts reported some of them."""
    return PictureSpec(
        title=f"{run.spec.subject} · {run.id}",
        subtitle=f"{run.spec.data_words} · {when_reported(shown, earlier)}",
        pictures=tuple(reported.picture for reported in shown),
        theme=theme,
    )


def when_reported(shown: Sequence[Reported], earlier: Sequence[int] = ()) -> str:
    """Who says so: `reported by train.py at step 1,200`; and in which attempt, if there was another since."""
    steps = sorted({reported.step for reported in shown})
    at = f"at step {steps[0]:,}" if len(steps) == 1 else f"at steps {steps[0]:,} to {steps[-1]:,}" if steps else ""
    of = f"in attempt {' and '.join(map(str, earlier))}" if earlier else ""
    return " ".join(part for part in ("reported by train.py", at, of) if part)


def earlier_attempts(run: Run, shown: Sequence[RunPicture]) -> Sequence[int]:
    """The attempts before the present one, each once, that reported some of these."""
    return sorted({one.attempt for one in shown if one.attempt < run.attempt})


def label_of(name: str) -> str:
    """A name as people read it: `residuals-test` becomes `Residuals test`."""
    return name.replace("-", " ").replace("_", " ").strip().capitalize() or name


def reported_button(run: str, name: str = "") -> Button:
    """The button to one reported picture, or to all of them."""
    subject = f"{run}.{REPORTED}.{name}" if name else f"{run}.{REPORTED}"
    return Button(action="results", subject=subject, label=label_of(name) if name else "Pictures")


def reported_buttons(run: Run, pictures: Sequence[RunPicture], *, shown: Sequence[str]) -> tuple[Button, ...]:
    """The buttons below reported pictures: to those that follow, to what was measured, and back."""
    names = [one.name for one in pictures]
    after = names.index(shown[0]) + 1 if len(shown) == 1 and shown[0] in names else 0
    others = [name for name in names[after:] + names[:after] if list(shown) != [name]][:_MOST_BUTTONS]
    measured = bool(run.outcome and run.outcome.results)
    ways = [reported_button(run.id, name) for name in others]
    if measured:
        ways.append(Button(action="results", subject=run.id, label="Results"))
    return (*ways, Button(action="chart", subject=run.id, label="Curves"))


def words_of_reported(
    run: Run, pictures: Sequence[RunPicture], shown: Sequence[RunPicture], reported: Sequence[Reported]
) -> str:
    """What is shown, who says so, and what else there is. Of the training's own words it has names alone, made safe."""
    names = ", ".join(f"`{one.name}`" for one in shown)
    when = when_reported(reported, earlier_attempts(run, shown))
    said = f"`{run.id}`: {names}, {when}; not measured on sealed test rows."
    rest = [one.name for one in pictures if one not in shown]
    if len(rest) > _MOST_BUTTONS:
        said += f" Also: {', '.join(f'`{name}`' for name in rest)}; `results {run.id} NAME` shows one."
    return said
