"""What pictures of results show, read off the sheet; and data that nobody would measure."""

import math

import numpy as np
import pytest

from agent.domain.pictures import (
    BarGroup,
    Bars,
    Histogram,
    Line,
    Lines,
    Matrix,
    Passage,
    PictureSpec,
    Points,
    Progress,
    Scatter,
    Span,
    Table,
    Texts,
    Tree,
    Trial,
)
from charts_render.alt_text import describe
from charts_render.canvas import Sheet
from charts_render.render import compose, render
from charts_render.results.values import branches, fold, most_telling, steps_of
from charts_render.samples import results
from charts_render.scene import Area, Dots
from charts_render.scene import Line as Stroke
from charts_render.theme import PALETTES, readable
from tests.charts.picture_cases import collisions, drawn, notes, said, shape, texts
from tests.charts.test_geometry import _linear

# Every kind


_SHEETS = {
    f"{name}-{theme}-{width}": spec
    for theme, width in (("light", 1200), ("dark", 400))
    for name, spec in results(theme, width).items()  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", _SHEETS)
def test_no_two_texts_meet_and_no_letter_is_too_small_for_a_phone(name: str) -> None:
    sheet = compose(_SHEETS[name])
    assert collisions(sheet) == []
    small = {w.gid for w in texts(sheet) if w.ink.letters.size_px * 400 / 1200 < 8}
    assert all(gid.startswith("count:") for gid in small), small  # of a matrix of more than twelve classes


def test_same_spec_gives_same_bytes() -> None:
    for name in ("classifier", "images", "tree"):
        spec = results("light")[name]
        assert render(spec) == render(spec)


def test_two_stand_side_by_side_and_below_each_other_where_it_is_narrow() -> None:
    pair = results("light")["importance-scores"].pictures
    wide, narrow = (compose(PictureSpec("t", pair, width_px=width)) for width in (1200, 400))
    tops = [[w.base for w in texts(sheet, "heading")] for sheet in (wide, narrow)]
    assert tops[0][0] == tops[0][1]
    assert tops[1][0] > tops[1][1] + 100


def test_a_fifth_picture_is_left_out_and_said() -> None:
    spec = PictureSpec("t", (Bars("a", (), ()),) * 6)
    assert texts(compose(spec), "subtitle")[0].text == "+2 more pictures"
    assert "2 more pictures are not shown" in describe(spec)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_counts_can_be_read_on_every_shade(theme: str) -> None:
    look = PALETTES[theme]  # type: ignore[index]
    from charts_render.theme import blend

    for line in (*look.lines[:2], look.muted):
        for step in range(1, 10):
            ground = blend(line, look.ground, step / 9)
            pair = [float(_linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (ground, readable(ground, look))]
            assert (max(pair) + 0.05) / (min(pair) + 0.05) >= 4.0, (line, step)


# Matrix


def test_a_matrix_says_counts_shares_and_what_is_right() -> None:
    matrix = Matrix("m", ("no", "yes"), ("no", "yes"), ((90, 10), (0, 100)))
    sheet = drawn(matrix)
    assert said(sheet, "count") == ["90", "10", "0", "100"]
    assert said(sheet, "share") == ["90 %", "10 %", "100 %"]
    assert said(sheet, "recall") == ["90 %", "100 %"]
    assert said(sheet, "precision") == ["100 %", "91 %"]
    assert "95 % of 200 right" in notes(matrix)


def test_right_and_wrong_cells_have_different_colours() -> None:
    sheet = drawn(Matrix("m", ("a", "b"), ("a", "b"), ((50, 50), (0, 9))))
    cells = {f"{r}-{c}": shape(sheet, f"cell:0:{r}-{c}") for r in (0, 1) for c in (0, 1)}
    colours = {place: cell.colour for place, cell in cells.items() if isinstance(cell, Area)}
    assert len(set(colours.values())) == 4  # half right, half wrong, all right, none


def test_many_classes_are_folded_and_said() -> None:
    names = tuple(f"class {i}" for i in range(51))
    counts = tuple(tuple(float(i + 1 if i == j else (j == (i + 1) % 51)) for j in range(51)) for i in range(51))
    matrix = Matrix("m", names, names, counts)
    folded = fold(matrix)
    assert folded.rows[-1] == "31 others"
    assert folded.counts.sum() == sum(map(sum, counts))
    assert folded.right == pytest.approx(sum(range(1, 52)) / (sum(range(1, 52)) + 51))
    assert "20 most frequent of 51 classes" in notes(matrix)
    assert collisions(drawn(matrix)) == []


def test_one_long_count_does_not_silence_the_others() -> None:
    names = tuple(f"class {i}" for i in range(20))
    counts = [[float(7 * (i == j)) for j in range(20)] for i in range(20)]
    counts[3][4] = 123_456.0
    matrix = Matrix("m", names, names, tuple(tuple(row) for row in counts))
    assert said(drawn(matrix), "count") == ["7"] * 20
    assert "1 too long to write" in notes(matrix)


def test_a_class_of_others_counts_neither_right_nor_wrong() -> None:
    counts = ((6, 1, 3), (0, 8, 2), (1, 2, 77))
    names = ("a", "b", "(others)")
    matrix = Matrix("m", names, names, counts, others=True)
    assert "at least 14 % of 100 right" in notes(matrix)
    assert describe(PictureSpec("", (matrix,))) == (
        "m of many classes: at least 14 % right; most often mistaken: a as (others) (3)."
    )
    assert said(drawn(matrix), "recall") == ["60 %", "80 %"]
    folded = fold(matrix, most=1)
    assert folded.rows == ("b", "others")
    assert folded.right == pytest.approx(0.14)
    assert folded.folded.tolist() == [[False, False], [False, True]]


def test_a_long_heading_takes_two_lines_and_keeps_its_unit() -> None:
    title = "F1 of each class, the sixteen most frequent ones of sixty classes that there are in all"
    sheet = drawn(Bars(title, ("a",), (BarGroup("g", (1,)),), "share of the gain of all inputs together"))
    assert len(texts(sheet, "heading")) == 2
    assert "share of the gain of all inputs together" in " ".join(w.text for w in texts(sheet))


def test_a_missing_count_is_no_zero() -> None:
    matrix = Matrix("m", ("a", "b"), ("a", "b"), ((3, math.nan), (-1, math.nan)))
    assert said(drawn(matrix), "count") == ["3", "?", "?", "?"]
    assert "3 without a count" in notes(matrix)


def test_different_classes_on_both_sides_have_no_recall() -> None:
    sheet = drawn(Matrix("m", ("a", "b"), ("x", "y", "z"), ((1, 2, 3), (4, 5, 6))))
    assert said(sheet, "recall") == []
    assert said(sheet, "count") == ["1", "2", "3", "4", "5", "6"]


# Bars


def bar(sheet: Sheet, item: str) -> tuple[float, float]:
    found = shape(sheet, f"bar:0:{item}")
    assert isinstance(found, Area)
    return float(found.edges[0]), float(found.edges[1])


def test_bars_start_at_zero_and_negative_ones_go_left() -> None:
    sheet = drawn(Bars("b", ("p", "n", "z"), (BarGroup("g", (2.0, -1.0, 0.0)),)))
    zero = shape(sheet, "zero:0")
    assert isinstance(zero, Stroke)
    (left, right), negative, none = bar(sheet, "0-0"), bar(sheet, "0-1"), bar(sheet, "0-2")
    assert left == pytest.approx(zero.xs[0])
    assert negative[1] == pytest.approx(zero.xs[0])
    assert (right - left) == pytest.approx(2 * (negative[1] - negative[0]))
    assert none[0] == none[1]


def test_a_missing_bar_is_said_and_not_drawn() -> None:
    sheet = drawn(Bars("b", ("p", "n"), (BarGroup("g", (2.0, math.nan)),)))
    assert said(sheet, "missing") == ["no value"]
    assert shape(sheet, "bar:0:0-1") is None


def test_an_infinite_bar_reaches_the_edge() -> None:
    sheet = drawn(Bars("b", ("p", "n"), (BarGroup("g", (2.0, math.inf)),)))
    assert isinstance(shape(sheet, "beyond:0:0-1"), Dots)
    assert "∞" in said(sheet, "value")


def test_a_known_end_is_kept_and_what_lies_above_it_is_said() -> None:
    half = bar(drawn(Bars("b", ("p",), (BarGroup("g", (0.5,)),), most=1.0)), "0-0")
    full = bar(drawn(Bars("b", ("p",), (BarGroup("g", (1.0,)),), most=1.0)), "0-0")
    assert (half[1] - half[0]) * 2 == pytest.approx(full[1] - full[0], rel=0.05)
    assert "some above 1" in notes(Bars("b", ("p",), (BarGroup("g", (7.0,)),), most=1.0))


def test_more_bars_than_can_be_read_are_counted() -> None:
    many = Bars("b", tuple(str(i) for i in range(60)), (BarGroup("g", tuple(range(60))),) * 6)
    assert "+51 more" in notes(many)
    assert "+2 more groups" in notes(many)
    assert "the longest first" in notes(many)
    shown = [text.text for text in texts(compose(PictureSpec("t", (many,))), "name")]
    assert shown == [str(n) for n in range(59, 50, -1)]


def test_groups_of_different_sizes_are_held_against_each_other_by_share() -> None:
    small = Histogram("h", (0, 1, 2, 3), (BarGroup("a", (9000, 900, 100)), BarGroup("b", (1, 1, 8))), "x")
    assert "% of each group" in notes(small)
    sheet = compose(PictureSpec("t", (small,)))
    highest = {s.gid: float(np.nanmax(s.ys)) for s in sheet.shapes if s.gid.startswith("outline")}
    assert len(highest) == 2
    floor, tall, less = (
        min(s.ys.min() for s in sheet.shapes if s.gid in highest),
        *sorted(highest.values(), reverse=True),
    )
    assert (less - floor) / (tall - floor) == pytest.approx(80 / 90, abs=0.01)
    alike = Histogram("h", (0, 1, 2), (BarGroup("a", (9, 1)), BarGroup("b", (5, 6))), "x")
    assert "% of each group" not in notes(alike)


# Lines


def test_a_single_point_is_a_dot() -> None:
    sheet = drawn(Lines("p", (Line("a", (0.5,), (0.5,)),), "x", "y"))
    assert isinstance(shape(sheet, "lone:0:0"), Dots)


def test_an_axis_without_values_has_no_ticks() -> None:
    nothing = (math.nan, math.inf)
    for picture in (
        Lines("p", (Line("a", (0, 1), nothing),), "x", "y"),
        Scatter("c", (), "x", "y"),
        Progress("p", (Trial(1, math.nan, "running"),), "lower"),
    ):
        sheet = drawn(picture)
        assert said(sheet, "y-tick") == []
        assert texts(sheet, "empty")


def test_a_gap_breaks_the_line_and_its_interval() -> None:
    y = (1.0, 2.0, math.nan, 2.0, 1.0)
    low, high = tuple(v - 1 for v in y), tuple(v + 1 for v in y)
    sheet = drawn(Lines("p", (Line("a", range(5), y, "", low, high),), "x", "y"))
    drawn_line = shape(sheet, "line:0:0")
    assert isinstance(drawn_line, Stroke)
    assert np.isnan(drawn_line.ys).tolist() == [False, False, True, False, False]
    assert [s.gid for s in sheet.shapes if s.gid.startswith("band")] == ["band:0:0-0", "band:0:0-3"]


def test_named_moments_stand_in_place_of_numbers_and_within_the_picture() -> None:
    months = [f"20{year:02}-{month:02}" for year in range(10, 22) for month in range(1, 13)]
    line = Line("a", range(-120, 24), [float(value % 12) for value in range(144)])
    shown = said(drawn(Lines("p", (line,), "", "y", since=0.5, first=-120, moments=months)), "x-tick")
    assert len(shown) > 3
    assert shown == sorted(shown)
    assert set(shown) <= set(months)


def test_what_lies_beyond_is_marked_and_said() -> None:
    plane = Lines("p", (Line("a", range(4), (1.0, 5.0, math.inf, 1.0)),), "x", "y", y_range=(0.0, 2.0))
    assert isinstance(shape(drawn(plane), "beyond:0:0^"), Dots)
    assert "1 off scale" in notes(plane)
    assert "1 infinite" in notes(plane)


# Histogram, scatter, table


def test_columns_stand_on_zero_and_an_empty_group_is_said() -> None:
    sheet = drawn(Histogram("h", (0, 1, 2), (BarGroup("a", (2, 4)),), "x"))
    one, two, axis = shape(sheet, "bar:0:0"), shape(sheet, "bar:0:1"), shape(sheet, "axis:0")
    assert isinstance(one, Area)
    assert isinstance(two, Area)
    assert isinstance(axis, Stroke)
    assert one.low[0] == two.low[0] == axis.ys[0]
    assert (two.high[0] - two.low[0]) == pytest.approx(2 * (one.high[0] - one.low[0]))
    empty = Histogram("h", (0, 1, 3), (BarGroup("a", (2, 4)), BarGroup("b", (math.nan, -1))), "x")
    assert "b: none" in notes(empty)
    assert "bins of unequal width" in notes(empty)
    assert "2 counts missing" in notes(empty)


def test_one_wild_point_is_marked_and_does_not_flatten_the_rest() -> None:
    y = [*(math.sin(i) for i in range(100)), 1e9]
    cloud = Scatter("c", (Points("a", range(101), y),), "x", "y", "zero")
    sheet = drawn(cloud)
    points = shape(sheet, "points:0:0")
    assert isinstance(points, Dots)
    assert np.ptp(points.ys) > 250
    assert isinstance(shape(sheet, "beyond:0:0^"), Dots)
    assert "1 off scale" in notes(cloud)


def test_a_crowd_is_thinned_to_spots() -> None:
    rng = np.random.default_rng(1)
    cloud = Scatter("c", (Points("a", rng.normal(size=2_000).tolist(), rng.normal(size=2_000).tolist()),), "x", "y")
    points = shape(drawn(cloud), "points:0:0")
    assert isinstance(points, Dots)
    assert len(points.xs) < 1_900
    assert len(render(PictureSpec("t", (cloud,)))) < 80_000


def test_a_name_hides_no_group() -> None:
    one = drawn(Scatter("c", (Points("cats", (0, 1), (0, 1)), Points("dogs", (5,), (4,))), "", ""))
    assert said(one, "group-name") == []
    assert said(one, "legend") == ["cats", "dogs"]


def test_groups_that_lie_apart_are_named_in_place() -> None:
    apart = drawn(Scatter("c", (Points("a", (0, 1), (0, 1)), Points("b", (9, 8), (9, 8))), "", ""))
    assert said(apart, "group-name") == ["a", "b"]
    assert said(apart, "legend") == []
    same = drawn(Scatter("c", (Points("a", (0, 1), (0, 1)), Points("b", (0, 1), (0, 1))), "", ""))
    assert said(same, "group-name") == []
    assert said(same, "legend") == ["a", "b"]


def test_a_table_wraps_long_cells_and_counts_what_it_leaves_out() -> None:
    rows = (("word " * 60, "12"), ("x" * 400, "7")) + (("a", "1"),) * 30
    table = Table("t", ("text", "n"), rows, ("good", "bad", *[""] * 30))
    sheet = drawn(table)
    assert len(texts(sheet, "cell:0:0-0-")) > 1
    assert len(texts(sheet, "cell:0:1-0-")) > 1
    assert said(sheet, "mark") == ["✓", "✗"]
    assert "+20 more rows" in notes(table)
    assert collisions(sheet) == []


def test_texts_that_do_not_fit_side_by_side_stand_below_each_other() -> None:
    row = ("word " * 60, "said " * 40, "short")
    names = ("text", "this model", "reference")
    sheet = drawn(Table("t", names, (row,) * 7, ("good", "bad", *[""] * 5)))
    assert said(sheet, "column")[:3] == list(names)
    assert len(said(sheet, "column")) == 3 * 5
    assert len(texts(sheet, "cell:0:0-1-")) == 3
    assert {words.x for words in texts(sheet, "cell:0:0-")} == {texts(sheet, "cell:0:0-0-0")[0].x}
    assert "+2 more rows" in notes(Table("t", names, (row,) * 7))
    one_long = drawn(Table("t", names, (("word " * 60, "a", "b"),)))
    assert said(one_long, "column") == list(names)
    assert len({words.base for words in texts(one_long, "column")}) == 1


# Marked texts


def test_what_was_found_is_shaded_and_what_was_missed_is_dashed() -> None:
    spans = (Span(0, 3, "person"), Span(0, 3, "person", True), Span(7, 13, "work"), Span(7, 13, "place", True))
    sheet = drawn(Texts("e", (Passage("Ada in London, 1843", spans),)))
    right, wrong, missed = shape(sheet, "found:0:0-0-0"), shape(sheet, "found:0:0-0-2"), shape(sheet, "missed:0:0-0-1")
    assert isinstance(right, Area)
    assert isinstance(wrong, Area)
    assert isinstance(missed, Stroke)
    assert right.colour != wrong.colour
    assert missed.pen.dash
    assert (said(sheet, "name-above"), said(sheet, "name-below")) == (["person", "work"], ["place"])
    assert said(sheet, "legend") == ["found", "found, not there", "there, not found"]
    words = {text.text: text.x for text in texts(sheet, "word")}
    assert list(words) == ["Ada", "in", "London", ",", "1843"]
    assert wrong.edges[0] < words["London"] < wrong.edges[1] < words["1843"]


def test_a_span_goes_on_over_lines_and_its_name_is_said_once() -> None:
    text = "word " * 40
    sheet = drawn(Texts("e", (Passage(text, (Span(10, 190, "thing"),)),)))
    assert len([one for one in sheet.shapes if one.gid.startswith("found:")]) == 3
    assert said(sheet, "name-above") == ["thing"]
    assert said(sheet, "legend") == []  # nothing says what is there


def test_a_span_beyond_its_text_is_not_drawn() -> None:
    sheet = drawn(Texts("e", (Passage("short", (Span(2, 400, "a"), Span(5, 9, "b"))),)))
    assert said(sheet, "name-above") == ["a"]
    assert said(sheet, "word") == ["sh", "ort"]


# Experiments


def trial(number: int, value: float, state: str = "discarded", parent: int | None = None) -> Trial:
    return Trial(number, value, state, f"idea {number}", parent)  # type: ignore[arg-type]


def test_steps_are_the_best_of_what_was_kept() -> None:
    trials = [
        trial(1, 0.5, "kept"),
        trial(2, 0.9),
        trial(3, 0.6, "kept"),
        trial(4, 0.55, "kept"),
        trial(5, 0.99, "crashed"),
    ]
    assert [t.number for t in steps_of(trials, "higher")] == [1, 3]
    assert [t.number for t in steps_of(trials[1:2], "higher")] == [2]


@pytest.mark.parametrize("state", ["crashed", "pruned"])
def test_what_did_not_end_stands_on_the_axis_and_not_at_a_value(state: str) -> None:
    sheet = drawn(Progress("p", (trial(1, 0.5, "kept"), trial(2, 0.7, state)), "higher"))
    crash, axis = shape(sheet, f"absent:0:{state}"), shape(sheet, "axis:0")
    assert isinstance(crash, Dots)
    assert isinstance(axis, Stroke)
    assert crash.ys[0] == axis.ys[0]
    assert shape(sheet, f"trials:0:{state}") is None


def test_a_tree_keeps_the_way_to_the_best_straight() -> None:
    trials = (trial(1, 0.5, "kept"), trial(2, 0.6, "kept", 1), trial(3, 0.4, "discarded", 1), trial(4, 0.9, "kept", 2))
    rows = branches(trials, {0, 1, 2, 3}, "higher")
    assert [(row.trial.number, row.lane) for row in rows] == [(1, 0), (3, 1), (2, 0), (4, 0)]
    assert [row.parent for row in rows] == [-1, 0, 0, 2]


def test_circles_and_lost_parents_are_no_parents() -> None:
    trials = (trial(1, 1, "kept", 2), trial(2, 1, "kept", 1), trial(3, 1, "kept", 3), trial(4, 1, "kept", 99))
    rows = branches(trials, {0, 1, 2, 3}, "lower")
    assert sorted(row.trial.number for row in rows) == [1, 2, 3, 4]


def test_two_hundred_trials_show_the_way_to_the_best() -> None:
    trials = tuple(
        trial(i, i if i == 7 else 0.0, "discarded", 3 if i == 7 else 1 if i > 1 else None) for i in range(1, 201)
    )
    kept = most_telling(trials, "higher", most=10)
    assert {0, 2, 6} <= kept
    assert len(kept) == 10
    tree = Tree("t", trials, "higher")
    assert "+168 more" in notes(tree)
    assert len(said(drawn(tree), "number")) == 32
