"""The pictures and words of a result whose recipe drew them itself. Pure. Called by `agent.runs.pictures.results`."""

from pydantic import JsonValue

from agent.domain.pictures import WHOLE_SHEET, ResultPicture
from agent.domain.results import Pictured, ResultView

_SHEET = 4


def views_of(found: Pictured) -> tuple[ResultView, ...]:
    """What there is to see, in the order in which it is offered."""
    return tuple(dict.fromkeys(("overview", *(shown.view for shown in found.pictures))))


def pictures_of(found: Pictured, view: ResultView) -> list[ResultPicture]:
    """The pictures of a view; the overview has the first four that fit on one sheet."""
    if view != "overview":
        chosen = [shown for shown in found.pictures if shown.view == view]
    else:
        chosen = [shown for shown in found.pictures if shown.picture.kind not in WHOLE_SHEET][:_SHEET]
        chosen = chosen or list(found.pictures[:1])
    return [shown.picture for shown in chosen]


def data_of(found: Pictured) -> dict[str, JsonValue]:
    """The words, and of each picture its title."""
    titles: dict[str, JsonValue] = {shown.view: shown.picture.title for shown in found.pictures}
    return {"rows": found.rows, "beaten": found.beaten, "words": found.words, "pictures": titles}
