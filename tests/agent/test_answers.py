"""Answers that are texts: shown in the thread as they are, whatever stands in them."""

import base64

from agent.domain.datasets import DatasetRef
from agent.domain.orders import LabelPrediction, Predictions, StepPrediction, TextPrediction
from agent.domain.pictures import Images, Lines
from agent.domain.runs import Run, RunState
from agent.tools.answers import answer_words, predictions_card, predictions_picture, quoted
from tests.agent.engine import SPEC
from tests.fakes import START

RUN = Run(id="r-abc123", session_id="s", requester="u", state=RunState.SUCCEEDED, spec=SPEC, created_at=START)
FILE = DatasetRef(sha256="0" * 64, name="prompts.txt", size_bytes=1)


def texts(*said: str) -> Predictions:
    return Predictions(rows=tuple(TextPrediction(text=text) for text in said), total=len(said))


def test_one_text_is_quoted_and_its_marks_are_no_markup() -> None:
    card = predictions_card(RUN, texts("*Once*\n# upon"), None)
    assert card.body.splitlines() == ["> \\*Once\\*  ", "> \\# upon  "]
    assert "“*Once* # upon”" in answer_words(RUN, texts("*Once*\n# upon"))


def test_several_texts_are_rows_of_a_table_and_cut() -> None:
    card = predictions_card(RUN, texts("one\ntwo", "x" * 1000, ""), FILE)
    assert card.table is not None
    assert [row[1][:8] for row in card.table.rows] == ["one two", "x" * 8, "–"]
    assert all(len(row[1]) <= 180 for row in card.table.rows)
    assert card.facts == ()


def test_a_forecast_is_drawn_over_its_moments_each_series_a_line() -> None:
    steps = [
        StepPrediction(series=name, moment=moment, value=value, low=value - 1, high=value + 2)
        for name, value in (("north", 5.0), ("south", 7.0))
        for moment in ("2026-01", "2026-02", "2026-03")
    ]
    spec = predictions_picture(RUN, Predictions(rows=tuple(steps), total=6))
    assert spec is not None
    (drawn,) = spec.pictures
    assert isinstance(drawn, Lines)
    assert drawn.moments == ("2026-01", "2026-02", "2026-03")
    assert [(line.name, line.x, line.low, line.high) for line in drawn.lines] == [
        ("north", (0.0, 1.0, 2.0), (4.0,) * 3, (7.0,) * 3),
        ("south", (0.0, 1.0, 2.0), (6.0,) * 3, (9.0,) * 3),
    ]
    assert predictions_picture(RUN, Predictions(rows=tuple(steps[:1]), total=1)) is None


def test_images_are_shown_with_what_they_are_and_called_by_their_names() -> None:
    image = base64.b64encode(b"a jpeg").decode()
    rows = [
        LabelPrediction(label=label, probabilities=((label, 0.914),), name=f"{label}/1.png", thumbnail=image)
        for label in ("rose", "tulip")
    ]
    answered = Predictions(rows=tuple(rows), total=40, counts=(("rose", 39), ("tulip", 1)))
    card = predictions_card(RUN, answered, FILE)
    assert card.table is not None
    assert card.table.columns[0] == "image"
    assert card.table.rows[0] == ("rose/1.png", "rose", "91%")
    assert [fact.value for fact in card.facts] == ["39 images", "1 image"]
    assert card.footer == "and 38 more images"
    spec = predictions_picture(RUN, answered)
    assert spec is not None
    (drawn,) = spec.pictures
    assert isinstance(drawn, Images)
    assert [tile.caption for tile in drawn.tiles] == ["rose · 91%", "tulip · 91%"]
    assert drawn.left_out == 38


def test_indented_lines_of_a_text_are_no_code() -> None:
    assert quoted("def a_b():\n\n    return 1\n\tend") == (
        "> def a\\_b():  \n>   \n> \u00a0\u00a0\u00a0\u00a0return 1  \n> \u00a0\u00a0\u00a0\u00a0end  "
    )
