"""The sentences say what the picture says."""

import math

import pytest
from hypothesis import given

from agent.domain.charts import Baseline, ChartSpec, Panel, Series
from agent.domain.pictures import (
    BarGroup,
    Bars,
    Histogram,
    Images,
    Line,
    Lines,
    Matrix,
    Passage,
    PictureSpec,
    Points,
    Progress,
    ResultPicture,
    Scatter,
    Span,
    Table,
    Texts,
    Tile,
    Tree,
    Trial,
)
from charts_render.alt_text import describe
from charts_render.gallery import examples
from tests.charts.picture_cases import chart, curve
from tests.charts.test_render import _specs


def test_first_last_best_and_baseline_are_said() -> None:
    spec = chart(curve(2, 0.5, 1), unit="nats", better="lower", baselines=(Baseline("majority", 0.7),))
    assert describe(spec) == (
        "Chart: Ticket classifier. loss: goes from 2 to 1 nats at step 2, best 0.5 (lower is better) at step 1; "
        "baseline majority 0.7."
    )


def test_empty_single_and_infinite() -> None:
    assert "loss: no values yet." in describe(chart(curve(math.nan)))
    assert "loss: is 3 at step 0." in describe(chart(curve(3)))
    assert "goes from 1 to ∞ at step 1, 1 infinite" in describe(chart(curve(1, math.inf)))
    assert describe(ChartSpec("", ())) == "Chart. It has no panels yet."


def test_times_are_said_as_people_do() -> None:
    (panel,) = chart(curve(1, 3)).panels
    for unit in ("seconds", "minutes", "hours", "days"):
        assert f"to 3 at 1 {unit.removesuffix('s')}." in describe(ChartSpec("t", (panel,), x_label=unit))
    (panel,) = chart(Series("a", (0, 2.5), (2, 1)), better="lower").panels
    assert "goes from 2 to 1 at 2.5 hours, best 1 (lower" in describe(ChartSpec("t", (panel,), x_label="hours"))


def test_one_is_one() -> None:
    pictures = (
        Images("i", (Tile(b""),)),
        Table("t", ("a",), (("x",),)),
        Scatter("c", (Points("p", (1,), (1,)),), "", ""),
        Bars("b", ("n",), (BarGroup("g", (1,)),)),
    )
    said = describe(PictureSpec("", pictures))
    assert all(words in said for words in ("i: 1 image.", "1 row of a", "1 point (", "of 1 entry."))


def test_long_charts_stay_short() -> None:
    many = Panel("m" * 900, tuple(Series("s" * 900, (1,), (2,)) for _ in range(50)))
    assert len(describe(ChartSpec("t", (many,) * 9))) <= 1500
    assert "7 more series" in describe(examples("light")["overlay-eight"])


@given(_specs)
def test_no_data_raises(spec: ChartSpec) -> None:
    assert describe(spec).startswith("Chart")


@pytest.mark.parametrize(
    ("picture", "sentence"),
    [
        (
            Matrix("Confusion matrix", ("numpy", "scipy"), ("numpy", "scipy"), ((80, 12), (7, 101))),
            "Confusion matrix of 2 classes: 90 % right; most often mistaken: numpy as scipy (12).",
        ),
        (Matrix("m", ("a",), ("a",), ((0,),)), "m: no counts yet."),
        (Lines("ROC", (Line("", (0, 1), (0, 1), "AUC 0.91"),), "", ""), "ROC: AUC 0.91."),
        (
            Lines("Forecast", (Line("actual", (0, 1, 2), (3, math.nan, 5)),), "hour", "MW"),
            "Forecast, MW over hour: actual goes from 3 to 5.",
        ),
        (
            Bars("Importance", ("a", "b", "c"), (BarGroup("model", (0.1, math.nan, 0.3)),), "loss"),
            "Importance (loss) of 3 entries. model: highest c 0.3, a 0.1, 1 without a value.",
        ),
        (
            Histogram("Length", (0, 10, 20), (BarGroup("train", (3, 9)), BarGroup("test", (0, 0))), "tokens"),
            "Length: train: 12, most between 10 and 20; test: none.",
        ),
        (Scatter("Map", (Points("a", (1, 2), (3, 4)),), "x", "y"), "Map, y over x: 2 points (a 2); the median is 3.5."),
        (
            Table("Samples", ("text", "said"), (("hello", "hi"), ("a", "b")), ("good", "bad")),
            "Samples: 2 rows of text, said; 1 good; 1 bad; first: hello | hi.",
        ),
        (
            Images("Mistakes", (Tile(b"", "a cat", False), Tile(b"", "", True))),
            "Mistakes: 2 images, 1 right, 1 wrong, first: a cat.",
        ),
        (
            Texts("Entities", (Passage("Ada in Rome", (Span(0, 3, "who"), Span(0, 3, "who", True), Span(7, 11))),)),
            "Entities: 1 text, 1 of 1 span found, 1 found that are not there, first: Ada in Rome.",
        ),
        (
            Progress("Search", (Trial(1, 0.5, "kept", "wider"), Trial(2, math.nan, "crashed")), "lower", "loss"),
            "Search: 2 experiments, 1 kept, 1 crashed; best loss 0.5 (lower is better) in 1 (wider).",
        ),
        (Tree("Tree", (), "lower"), "Tree: no experiments yet."),
    ],
)
def test_every_kind_says_what_a_look_would_tell(picture: ResultPicture, sentence: str) -> None:
    assert describe(PictureSpec("Run 7F3K", (picture,))) == f"Run 7F3K. {sentence}"
    assert describe(PictureSpec("", ())) == "There are no pictures yet."
