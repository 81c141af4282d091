"""From the facts of a result to pictures and words: what there is to see, and which pictures show it. Pure.

Knows neither how facts are measured nor how pictures are drawn. Called by the live cards and the chart tool.
"""

from collections.abc import Sequence
from typing import get_args

from pydantic import JsonValue

from agent.cards import counted
from agent.domain.charts import Theme
from agent.domain.content import Button
from agent.domain.pictures import PictureSpec
from agent.domain.results import Classification, Found, ResultView
from agent.domain.runs import Run
from agent.runs.pictures.results import classification, pictured

VIEWS: tuple[ResultView, ...] = get_args(ResultView)
LABELS: dict[ResultView, str] = {view: view.capitalize() for view in VIEWS} | {
    "overview": "Results",
    "roc": "ROC",
    "pr": "Precision-recall",
}
_MOST_BUTTONS = 5  # Discord's row


def views_of(found: Found) -> tuple[ResultView, ...]:
    """What there is to see of a result, in the order in which it is offered."""
    return classification.views_of(found) if isinstance(found, Classification) else pictured.views_of(found)


def picture_of(run: Run, found: Found, view: ResultView, *, theme: Theme = "light") -> PictureSpec | None:
    """The sheet of a view, None where this result has no such picture."""
    if isinstance(found, Classification):
        pictures = classification.pictures_of(found, view)
    else:
        pictures = pictured.pictures_of(found, view)
    if not pictures:
        return None
    return PictureSpec(
        title=f"{run.spec.subject} · {run.id}",
        subtitle=f"{run.spec.data_words} · measured on {counted(found.rows, 'sealed test row')}",
        pictures=tuple(pictures),
        theme=theme,
    )


def words_of(run: Run, found: Found, view: ResultView) -> str:
    """What a view says, in a sentence or two."""
    said = classification.words_of(found, view) if isinstance(found, Classification) else found.words
    return f"`{run.id}`, {counted(found.rows, 'sealed test row')}. {said}".strip()


def data_of(found: Found, views: Sequence[ResultView]) -> dict[str, JsonValue]:
    """The numbers that the pictures of a result show, for a language model."""
    data = classification.data_of(found) if isinstance(found, Classification) else pictured.data_of(found)
    return {**data, "views": list(views)}


def result_buttons(
    run: str, there: Sequence[ResultView], *, shown: ResultView, reported: bool = False
) -> tuple[Button, ...]:
    """The buttons from a picture of a result to its others, in the order of `there`, and to the curves.

    `reported`: its training logged pictures too. Subjects are read by `agent.tools.runs.resulting`.
    """
    ways = [view for view in there if view != shown][: _MOST_BUTTONS - 1 - reported]
    others = [Button(action="results", subject=f"{run}.{view}", label=LABELS[view]) for view in ways]
    if reported:
        others.append(Button(action="results", subject=f"{run}.reported", label="Pictures"))
    return (*others, Button(action="chart", subject=run, label="Curves"))
