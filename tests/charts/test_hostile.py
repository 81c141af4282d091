"""Any picture within the bounds of `agent.domain.pictures` is drawn: nothing raises, and no two texts meet."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.domain.pictures import (
    MOST_BARS,
    MOST_BINS,
    MOST_BOXES,
    MOST_CELL,
    MOST_CLASSES,
    MOST_COLUMNS,
    MOST_GROUPS,
    MOST_IMAGES,
    MOST_NAME,
    MOST_POINTS,
    MOST_ROWS,
    MOST_SPANS,
    MOST_TEXTS,
    MOST_TITLE,
    MOST_TRIALS,
    BarGroup,
    Bars,
    Box,
    Histogram,
    Images,
    Line,
    Lines,
    Matrix,
    Passage,
    PictureSpec,
    Points,
    Progress,
    Reported,
    ResultPicture,
    Scatter,
    Span,
    Table,
    Texts,
    Tile,
    Tree,
    Trial,
)
from agent.wire import decode, encode
from charts_render.alt_text import describe
from charts_render.render import compose, render
from tests.charts.picture_cases import BROKEN, NAMES, ODD, SCRIPTS, collisions, png

_name = st.one_of(
    st.sampled_from([name for name in NAMES if name.isprintable() and len(name) <= MOST_NAME]), st.text(max_size=8)
)
_number = st.one_of(st.sampled_from(ODD), st.floats())
_trial = st.builds(
    Trial, st.integers(-3, 12), _number, st.sampled_from(["kept", "discarded", "pruned", "crashed", "running"]), _name,
    st.one_of(st.none(), st.integers(-3, 12)), st.one_of(st.none(), _number),
)  # fmt: skip
_box = st.builds(Box, _name, _number, _number, _number, _number, st.booleans(), st.one_of(st.none(), _number))
_right = st.sampled_from([None, True, False])
_image = st.one_of(
    st.sampled_from([*BROKEN[:5], png(1, 1), png(1, 300, "RGBA"), png(30, 2, "I;16")]), st.binary(max_size=30)
)


def _tuples(of: st.SearchStrategy[Any], most: int = 6) -> st.SearchStrategy[Any]:
    return st.lists(of, max_size=most).map(tuple)


def _same(of: st.SearchStrategy[Any], size: int) -> st.SearchStrategy[Any]:
    return st.lists(of, min_size=size, max_size=size).map(tuple)


@st.composite
def _line(draw: st.DrawFn) -> Line:
    values = _same(_number, draw(st.integers(0, 9)))
    band = (draw(values), draw(values)) if draw(st.booleans()) else ((), ())
    return Line(draw(_name), draw(values), draw(values), draw(_name), *band, draw(st.booleans()))


@st.composite
def _points(draw: st.DrawFn) -> Points:
    size = draw(st.integers(0, 9))
    names = draw(_same(_name, size)) if draw(st.booleans()) else ()
    return Points(draw(_name), draw(_same(_number, size)), draw(_same(_number, size)), names)


@st.composite
def _bars(draw: st.DrawFn) -> Bars:
    names = draw(_tuples(_name, 9))
    values = _same(_number, len(names))
    groups = draw(_tuples(st.builds(BarGroup, _name, values, st.one_of(st.just(()), values))))
    return Bars(draw(_name), names, groups, draw(_name), draw(st.one_of(st.none(), _number)))


@st.composite
def _histogram(draw: st.DrawFn) -> Histogram:
    edges = sorted(draw(st.sets(_number.filter(lambda edge: edge == edge), min_size=2, max_size=9)))
    groups = draw(_tuples(st.builds(BarGroup, _name, _same(_number, len(edges) - 1))))
    return Histogram(draw(_name), tuple(edges), groups, draw(_name), draw(_name))


@st.composite
def _matrix(draw: st.DrawFn) -> Matrix:
    rows = draw(st.lists(_name, min_size=1, max_size=6).map(tuple))
    columns = rows if draw(st.booleans()) else draw(st.lists(_name, min_size=1, max_size=6).map(tuple))
    counts = draw(_same(_same(_number, len(columns)), len(rows)))
    return Matrix(draw(_name), rows, columns, counts, draw(_name), draw(_name), draw(st.booleans()))


@st.composite
def _table(draw: st.DrawFn) -> Table:
    columns = draw(st.lists(_name, min_size=1, max_size=7).map(tuple))
    rows = draw(_tuples(_same(_name, len(columns))))
    marks = draw(_same(st.sampled_from(["", "good", "bad"]), len(rows))) if draw(st.booleans()) else ()
    return Table(draw(_name), columns, rows, marks, left_out=draw(st.sampled_from([0, 5])))


@st.composite
def _passage(draw: st.DrawFn) -> Passage:
    words = st.sampled_from([name for name in NAMES if "\ud800" not in name and "\x00" not in name])
    text = " ".join(draw(st.lists(words, max_size=9)))[:MOST_CELL]
    starts = draw(st.lists(st.integers(0, 99), max_size=6))
    spans = tuple(Span(at, at + draw(st.integers(1, 30)), draw(_name), draw(st.booleans())) for at in starts)
    return Passage(text, spans, draw(_name), draw(_right))


_pair = st.one_of(st.none(), st.tuples(_number, _number))
_guide = st.sampled_from(["", "zero", "rising"])
_since = st.one_of(st.none(), _number)
_better = st.sampled_from(["lower", "higher"])
KINDS = {
    "matrix": _matrix(),
    "lines": st.builds(Lines, _name, _tuples(_line()), _name, _name, _pair, _pair, _guide, _since),
    "scatter": st.builds(Scatter, _name, _tuples(_points()), _name, _name, _guide, _name),
    "bars": _bars(),
    "histogram": _histogram(),
    "table": _table(),
    "images": st.builds(Images, _name, _tuples(st.builds(Tile, _image, _name, _right, _tuples(_box, 3)), 4)),
    "texts": st.builds(Texts, _name, _tuples(_passage(), 3)),
    "progress": st.builds(Progress, _name, _tuples(_trial, 12), _better, _name),
    "tree": st.builds(Tree, _name, _tuples(_trial, 12), _better, _name),
}


@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=list(HealthCheck), max_examples=settings.default.max_examples // 2)
@given(data=st.data())
def test_no_data_raises_and_no_texts_meet(kind: str, data: st.DataObject) -> None:
    pictures = tuple(data.draw(st.lists(KINDS[kind], min_size=1, max_size=2)))
    for picture in pictures:  # as it goes through the store
        stored = encode(Reported(step=1, picture=picture))
        assert encode(decode(Reported, stored)) == stored
    title, width = data.draw(st.sampled_from(NAMES)), data.draw(st.sampled_from([400, 1200]))
    spec = PictureSpec(title, pictures, data.draw(_name), "dark", width)
    sheet = compose(spec)
    assert collisions(sheet) == []
    assert render(spec).startswith(b"\x89PNG")
    assert 0 < len(describe(spec)) <= 1500


EDGES: tuple[ResultPicture, ...] = (
    Lines("p", (Line("", (1e300,), (math.nan,)),), "", "", (0.0, 5e-324)),
    Lines("p", (Line("a", (0, 1), (1e300, -1e300)),), "", "", None, (0.0, 1e-12), since=math.inf),
    Bars("b", ("n",), (BarGroup("", (math.inf,)), BarGroup("", (2e-9,)))),
    Bars("b", ("n", "m"), (BarGroup("", (1e300, -1e300), (1e300, 1e300)),), most=1e-300),
    Histogram("h", (-math.inf, math.inf), (BarGroup("", (5e-324,)),)),
    Histogram("h", (0.0, 1e-320, 1e300), (BarGroup("", (1e300, 1.0)),)),
    Histogram("h", (1e300, 1e301, 1e302), (BarGroup("", (1.0, 1.0)),)),
    Scatter("c", (Points("", (5e-324, 1e300), (-1e300, 5e-324)),), "", "", "rising"),
    Matrix("m", ("a",), ("a",), ((1e308,),)),
    Progress("p", (Trial(2**31 - 1, 1e308, "kept"), Trial(-(2**31), -0.0, "kept")), "lower"),
    Tree("t", (Trial(1, math.inf, "running", parent=1), Trial(1, -math.inf, "kept", parent=1)), "higher"),
)


@pytest.mark.parametrize("picture", EDGES)
def test_the_ends_of_floats_are_drawn(picture: ResultPicture) -> None:
    spec = PictureSpec("t", (picture, picture))
    assert collisions(compose(spec)) == []
    assert render(spec).startswith(b"\x89PNG")
    assert describe(spec)


def _crowds() -> dict[str, ResultPicture]:
    """Each kind as large as it may be."""
    rng = np.random.default_rng(3)
    names = tuple(f"{'long ' * (i % 7)}name of class {i}" for i in range(MOST_TRIALS))
    x = rng.normal(size=MOST_POINTS // MOST_GROUPS).tolist()
    values = rng.normal(size=MOST_TRIALS).tolist()
    states = ("kept", "discarded", "pruned", "crashed", "running")
    trials = tuple(
        Trial(i, values[i], states[i % 4], "idea " * (i % 9), int(rng.integers(1, i)) if i > 1 else None)  # type: ignore[arg-type]
        for i in range(1, MOST_TRIALS)
    )
    boxes = tuple(Box(names[k], 0.05 * k, 0.1, 0.05 * k + 0.3, 0.8) for k in range(MOST_BOXES))
    classes = names[:MOST_CLASSES]
    large = rng.integers(0, 10**6, (MOST_CLASSES, MOST_CLASSES)).tolist()
    small = rng.integers(0, 10**9, (10, 10)).tolist()
    tall = tuple(BarGroup(n, [abs(v) * 1e6 for v in values[:MOST_BINS]]) for n in names[:MOST_GROUPS])
    bars = values[:MOST_BARS]
    cell = ("word " * MOST_CELL)[:MOST_CELL]
    spans = tuple(Span(at * 5, at * 5 + 4 + at % 30, names[at % 7], at % 3 == 0) for at in range(MOST_SPANS))
    inside = tuple(Span(0, at, names[at], at % 2 == 0) for at in range(1, MOST_SPANS + 1))
    return {
        "matrix": Matrix(("m " * 80)[:MOST_TITLE], classes, classes, tuple(tuple(row) for row in large)),
        "matrix-of-ten": Matrix("m", names[:10], names[:10], tuple(tuple(row) for row in small)),
        "matrix-uneven": Matrix("m", names[:30], names[:3], ((1.0, 2.0, 3e9),) * 30),
        "lines": Lines("p", tuple(Line(n, sorted(x), x, n) for n in names[:MOST_GROUPS]), "x " * 60, "y " * 60),
        "square": Lines("p", tuple(Line(n, x, x, n) for n in names[:MOST_GROUPS]), "x", "y", (0, 1), (0, 1), "rising"),
        "ends": Lines("p", tuple(Line(f"line {i}", (0, 1), (0, 0.001 * i)) for i in range(8)), "x", "y", since=0.5),
        "moments": Lines("p", (Line("a", range(30), range(30)),), "", "y", moments=names[:30]),
        "scripts": Lines("p", tuple(Line(n, (0, 1), (1, 1e-4 * i)) for i, n in enumerate(SCRIPTS)), "x", "y"),
        "scatter": Scatter(
            "c",
            tuple(Points(n, x, x[::-1], names[: len(x)]) for n in names[:MOST_GROUPS]),
            "x",
            "y",
            "rising",
            names[0],
        ),
        "clusters": Scatter("c", tuple(Points(n, [i, i + 0.1], [0, 1]) for i, n in enumerate(names[:8]))),
        "bars": Bars("b", names[:MOST_BARS], tuple(BarGroup(n, bars, bars) for n in names[:4]), "unit " * 20, 1.0),
        "bars-of-one": Bars("b", names[:MOST_BARS], (BarGroup("", [1e9 * v for v in bars]),)),
        "histogram": Histogram("h", tuple(range(MOST_BINS + 1)), tall, "x"),
        "table": Table(
            "t", names[:MOST_COLUMNS], tuple(names[i : i + MOST_COLUMNS] for i in range(40)), ("good", "bad") * 20
        ),
        "table-of-texts": Table("t", names[:MOST_COLUMNS], ((cell,) * MOST_COLUMNS,) * MOST_ROWS),
        "texts": Texts("e", tuple(Passage(cell, (spans, inside)[i % 2], names[6], i > 3) for i in range(MOST_TEXTS))),
        "images": Images("i", tuple(Tile(png(70 + i, 50), names[i], i % 2 == 0, boxes) for i in range(MOST_IMAGES))),
        "progress": Progress("p", trials, "lower", "m " * 60),
        "tree": Tree("t", trials, "lower", "m " * 60),
    }


_CROWDS = _crowds()


ONE_NARROW, TWO_WIDE, TWO_NARROW, ONE_WIDE = ((1, 400), (2, 1200), (2, 400), (1, 1200))
SHEETS = [
    ONE_NARROW,
    TWO_WIDE,  # side by side, each in half of the width
    pytest.param(TWO_NARROW, marks=pytest.mark.faults),  # one below the other
    pytest.param(ONE_WIDE, marks=pytest.mark.faults),
]


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: "-".join(map(str, sheet)))
@pytest.mark.parametrize("name", _CROWDS)
def test_crowds_do_not_collide(name: str, sheet: tuple[int, int]) -> None:
    count, width = sheet
    spec = PictureSpec("t " * 90, (_CROWDS[name],) * count, "s " * 90, width_px=width)
    assert collisions(compose(spec)) == []
    assert 0 < len(describe(spec)) <= 1500
    if sheet != TWO_WIDE:
        assert render(spec).startswith(b"\x89PNG")
