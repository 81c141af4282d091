"""Pictures of data that nobody would measure: nothing raises, and no two texts meet."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.domain.pictures import (
    BarGroup,
    Bars,
    Box,
    Cloud,
    Histogram,
    Images,
    Line,
    Matrix,
    PictureSpec,
    Plane,
    Points,
    Progress,
    ResultPicture,
    Table,
    Tile,
    Tree,
    Trial,
)
from charts_render.alt_text import describe
from charts_render.render import compose, render
from tests.charts.pictures import BROKEN, NAMES, ODD, SCRIPTS, collisions, png

_name = st.one_of(st.sampled_from(NAMES), st.text(max_size=8))
_number = st.one_of(st.sampled_from(ODD), st.floats(), st.integers(-(10**400), 10**400))
_values = st.lists(_number, max_size=9)
_group = st.builds(BarGroup, _name, _values, _values)
_pair = st.one_of(st.none(), st.tuples(_number, _number))
_trial = st.builds(
    Trial, st.integers(-3, 12), _number, st.sampled_from(["kept", "discarded", "crashed", "running"]), _name,
    st.one_of(st.none(), st.integers(-3, 12)), st.one_of(st.none(), _number),
)  # fmt: skip
_line = st.builds(Line, _name, _values, _values, _name, _values, _values, st.booleans())
_box = st.builds(Box, _name, _number, _number, _number, _number, st.booleans(), st.one_of(st.none(), _number))
_image = st.one_of(
    st.sampled_from([*BROKEN[:5], png(1, 1), png(1, 300, "RGBA"), png(30, 2, "I;16")]), st.binary(max_size=30)
)


def _tuples(of: st.SearchStrategy, most: int = 6) -> st.SearchStrategy:
    return st.lists(of, max_size=most).map(tuple)


_mark, _right = st.sampled_from(["", "good", "bad"]), st.sampled_from([None, True, False])
_since = st.one_of(st.none(), _number)
_row = _tuples(_number)
_better = st.sampled_from(["lower", "higher"])
KINDS = {
    "matrix": st.builds(Matrix, _name, _tuples(_name), _tuples(_name), _tuples(_row), _name, _name, st.booleans()),
    "plane": st.builds(
        Plane, _name, _tuples(_line), _name, _name, _pair, _pair, st.sampled_from(["", "rising"]), _since,
    ),
    "cloud": st.builds(
        Cloud, _name, _tuples(st.builds(Points, _name, _values, _values, _tuples(_name))), _name, _name,
        st.sampled_from(["", "zero", "rising"]), _name,
    ),
    "bars": st.builds(Bars, _name, _tuples(_name), _tuples(_group), _name, st.one_of(st.none(), _number)),
    "histogram": st.builds(Histogram, _name, _tuples(_number), _tuples(_group), _name, _name),
    "table": st.builds(Table, _name, _tuples(_name), _tuples(_tuples(_name)), _tuples(_mark)),
    "images": st.builds(Images, _name, _tuples(st.builds(Tile, _image, _name, _right, _tuples(_box, 3)), 4)),
    "progress": st.builds(Progress, _name, _tuples(_trial, 12), _better, _name),
    "tree": st.builds(Tree, _name, _tuples(_trial, 12), _better, _name),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_data_raises_and_no_texts_meet(kind: str, data: st.DataObject) -> None:
    pictures = tuple(data.draw(st.lists(KINDS[kind], min_size=1, max_size=2)))
    spec = PictureSpec(data.draw(_name), pictures, data.draw(_name), "dark", data.draw(st.sampled_from([400, 1200])))
    sheet = compose(spec)
    assert collisions(sheet) == []
    assert render(spec).startswith(b"\x89PNG")
    assert 0 < len(describe(spec)) <= 1500


EDGES: tuple[ResultPicture, ...] = (
    Plane("p", (Line("", (1e300,), (math.nan,)),), "", "", (0.0, 5e-324)),
    Plane("p", (Line("a", (0, 1), (1e300, -1e300)),), "", "", None, (0.0, 1e-12), since=10**400),
    Bars("b", ("n",), (BarGroup("", (math.inf,)), BarGroup("", (2e-9,)))),
    Bars("b", ("n", "m"), (BarGroup("", (1e300, -1e300), (1e300, 1e300)),), most=1e-300),
    Histogram("h", (math.nan, -math.inf, math.inf), (BarGroup("", (math.nan, 5e-324)),), ""),
    Histogram("h", (0.0, 1e-320, 1e300), (BarGroup("", (1e300, 1.0)),), ""),
    Cloud("c", (Points("", (5e-324, 1e300), (-1e300, 5e-324)),), "", "", "rising"),
    Matrix("m", ("a",), ("a",), ((1e308,),)),
    Progress("p", (Trial(10**400, 10**400, "kept"), Trial(-(10**400), -0.0, "kept")), "lower"),
    Tree("t", (Trial(1, math.inf, "running", parent=1), Trial(1, -math.inf, "kept", parent=1)), "higher"),
)


@pytest.mark.parametrize("picture", EDGES)
def test_the_ends_of_floats_are_drawn(picture: ResultPicture) -> None:
    spec = PictureSpec("t", (picture, picture))
    assert collisions(compose(spec)) == []
    assert render(spec).startswith(b"\x89PNG")
    assert describe(spec)


def _crowds() -> dict[str, ResultPicture]:
    rng = np.random.default_rng(3)
    names = tuple(f"{'long ' * (i % 7)}name of class {i}" for i in range(300))
    x = rng.normal(size=10_000).tolist()
    states = ("kept", "discarded", "crashed", "running")
    trials = tuple(
        Trial(i, x[i], states[i % 4], "idea " * (i % 9), int(rng.integers(1, i)) if i > 1 else None)
        for i in range(1, 201)
    )
    boxes = tuple(Box(names[k], 0.05 * k, 0.1, 0.05 * k + 0.3, 0.8) for k in range(9))
    large, small = rng.integers(0, 10**6, (300, 300)).tolist(), rng.integers(0, 10**9, (10, 10)).tolist()
    tall = tuple(BarGroup(n, [abs(v) * 1e6 for v in x[:300]]) for n in names[:6])
    return {
        "matrix": Matrix("m " * 60, names, names, tuple(tuple(row) for row in large)),
        "matrix-of-ten": Matrix("m", names[:10], names[:10], tuple(tuple(row) for row in small)),
        "matrix-uneven": Matrix("m", names[:30], names[:3], ((1.0, 2.0, 3e9),) * 30),
        "plane": Plane("p", tuple(Line(n, sorted(x), x, n) for n in names[:12]), "x " * 90, "y " * 90),
        "square": Plane("p", tuple(Line(n, x, x, n) for n in names[:12]), "x", "y", (0, 1), (0, 1), "rising"),
        "ends": Plane("p", tuple(Line(f"line {i}", (0, 1), (0, 0.001 * i)) for i in range(8)), "x", "y", since=0.5),
        "scripts": Plane("p", tuple(Line(n, (0, 1), (1, 1e-4 * i)) for i, n in enumerate(SCRIPTS)), "x", "y"),
        "cloud": Cloud("c", tuple(Points(n, x, x[::-1], names) for n in names[:12]), "x", "y", "rising", names[0]),
        "clusters": Cloud("c", tuple(Points(n, [i, i + 0.1], [0, 1]) for i, n in enumerate(names[:8])), "", ""),
        "bars": Bars("b", names, tuple(BarGroup(n, x[:300], x[:300]) for n in names[:4]), "unit " * 40, 1.0),
        "bars-of-one": Bars("b", names, (BarGroup("", [1e9 * v for v in x[:300]]),)),
        "histogram": Histogram("h", tuple(range(301)), tall, "x"),
        "table": Table("t", names[:9], tuple(names[i : i + 9] for i in range(40)), ("good", "bad") * 20),
        "images": Images("i", tuple(Tile(png(70 + i, 50), names[i], i % 2 == 0, boxes) for i in range(30))),
        "progress": Progress("p", trials, "lower", "m " * 90),
        "tree": Tree("t", trials, "lower", "m " * 90),
    }


_CROWDS = _crowds()


@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("name", _CROWDS)
def test_crowds_do_not_collide(name: str, width: int) -> None:
    alone = PictureSpec("t " * 90, (_CROWDS[name],), "s " * 90, width_px=width)
    assert collisions(compose(alone)) == []
    pair = PictureSpec("t", (_CROWDS[name], _CROWDS[name]), width_px=width)
    assert collisions(compose(pair)) == []
    assert render(alone).startswith(b"\x89PNG")
    assert 0 < len(describe(alone)) <= 1500
