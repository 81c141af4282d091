"""Whatever a training may tell is drawn: any picture within the bounds of `agent.domain.told`."""

import base64
import io
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from agent.domain.pictures import PictureSpec
from agent.domain.told import (
    MOST_BARS,
    MOST_BINS,
    MOST_CLASSES,
    MOST_COLUMNS,
    MOST_GROUPS,
    MOST_IMAGES,
    MOST_POINTS,
    MOST_ROWS,
    Told,
)
from agent.domain.told_pictures import drawn
from agent.wire import decode, encode
from charts_render.alt_text import describe
from charts_render.render import compose, render
from tests.charts.pictures import collisions

NUMBER = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -0.0, 1e300, -1e300, 5e-324, float("nan"), float("inf"), float("-inf")]),
)
TEXT = st.one_of(
    st.text(max_size=40), st.sampled_from(["", "損失", "خسارة", "🚀" * 20, "x" * 120, "a\nb\tc", "<b>&amp;</b>", "`"])
)


def _png() -> str:
    out = io.BytesIO()
    Image.new("L", (3, 2), 128).save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


def _same(size: int) -> st.SearchStrategy[list[float]]:
    return st.lists(NUMBER, min_size=size, max_size=size)


@st.composite
def _line(draw: st.DrawFn) -> dict[str, Any]:
    size = draw(st.integers(0, 12))
    found: dict[str, Any] = {"name": draw(TEXT), "x": draw(_same(size)), "y": draw(_same(size))}
    return found | ({"low": draw(_same(size)), "high": draw(_same(size))} if draw(st.booleans()) else {})


@st.composite
def _bars(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(TEXT, max_size=8))
    group = st.fixed_dictionaries({"name": TEXT, "values": _same(len(names)), "errors": _same(len(names))})
    most = draw(st.none() | NUMBER)
    return {
        "form": "bars",
        "title": draw(TEXT),
        "names": names,
        "groups": draw(st.lists(group, max_size=3)),
        "most": most,
    }


@st.composite
def _histogram(draw: st.DrawFn) -> dict[str, Any]:
    edges = sorted(draw(st.sets(st.floats(allow_nan=False), min_size=2, max_size=6)))
    group = st.fixed_dictionaries({"name": TEXT, "values": _same(len(edges) - 1)})
    return {"form": "histogram", "title": draw(TEXT), "edges": edges, "groups": draw(st.lists(group, max_size=3))}


@st.composite
def _matrix(draw: st.DrawFn) -> dict[str, Any]:
    rows, columns = draw(st.lists(TEXT, min_size=1, max_size=5)), draw(st.lists(TEXT, min_size=1, max_size=5))
    counts = [draw(_same(len(columns))) for _ in rows]
    return {"form": "matrix", "title": draw(TEXT), "rows": rows, "columns": columns, "counts": counts}


@st.composite
def _table(draw: st.DrawFn) -> dict[str, Any]:
    columns = draw(st.lists(TEXT, min_size=1, max_size=4))
    rows = draw(st.lists(st.lists(TEXT, min_size=len(columns), max_size=len(columns)), max_size=5))
    return {"form": "table", "title": draw(TEXT), "columns": columns, "rows": rows}


BOX = st.fixed_dictionaries(
    dict.fromkeys(("left", "top", "right", "bottom"), NUMBER)
    | {"name": TEXT, "score": st.none() | NUMBER, "truth": st.booleans()}
)
TILE = st.fixed_dictionaries(
    {
        "image": st.sampled_from([_png(), "", base64.b64encode(b"\x89PNG\r\n\x1a\nno").decode()]),
        "caption": TEXT,
        "right": st.none() | st.booleans(),
        "boxes": st.lists(BOX, max_size=3),
    }
)
POINTS = _line().map(lambda line: {key: line[key] for key in ("name", "x", "y")})
PICTURE = st.one_of(
    _table(),
    _bars(),
    _histogram(),
    _matrix(),
    st.fixed_dictionaries({"form": st.just("lines"), "title": TEXT, "lines": st.lists(_line(), max_size=3),
                           "x_label": TEXT, "y_label": TEXT, "since": st.none() | NUMBER}),
    st.fixed_dictionaries({"form": st.just("scatter"), "title": TEXT, "groups": st.lists(POINTS, max_size=3),
                           "x_label": TEXT, "y_label": TEXT, "guide": st.sampled_from(["", "zero", "rising"])}),
    st.fixed_dictionaries({"form": st.just("images"), "title": TEXT, "tiles": st.lists(TILE, max_size=3)}),
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(picture=PICTURE, width=st.sampled_from([400, 1200]), left_out=st.sampled_from([0, 5]))
def test_any_picture_is_drawn(picture: dict[str, Any], width: int, left_out: int) -> None:
    told = Told.model_validate({"step": 1, "picture": picture, "left_out": left_out})
    assert decode(Told, encode(told)).picture.form == told.picture.form  # as it goes through the store
    spec = PictureSpec("t", (drawn(told),), "told by train.py at step 1", width_px=width)
    assert collisions(compose(spec)) == []
    assert render(spec).startswith(b"\x89PNG")
    assert describe(spec)


FULL: dict[str, dict[str, Any]] = {
    "table": {"columns": ["c"] * MOST_COLUMNS, "rows": [["word " * 120] * MOST_COLUMNS] * MOST_ROWS},
    "scatter": {"groups": [{"name": f"group {i}", "x": list(range(150)), "y": [i] * 150} for i in range(MOST_GROUPS)]},
    "lines": {"lines": [{"name": f"line {i}", "x": list(range(160)), "y": [i] * 160} for i in range(MOST_GROUPS)]},
    "bars": {
        "names": [f"name {i} " * 10 for i in range(MOST_BARS)],
        "groups": [{"name": f"group {i}", "values": [i] * MOST_BARS} for i in range(MOST_GROUPS)],
    },
    "histogram": {
        "edges": list(range(MOST_BINS + 1)),
        "groups": [{"name": f"group {i}", "values": [i] * MOST_BINS} for i in range(MOST_GROUPS)],
    },
    "matrix": {
        "rows": [f"class {i}" for i in range(MOST_CLASSES)],
        "columns": [f"class {i}" for i in range(MOST_CLASSES)],
        "counts": [[i * j for i in range(MOST_CLASSES)] for j in range(MOST_CLASSES)],
    },
    "images": {"tiles": [{"image": _png(), "caption": "word " * 20}] * MOST_IMAGES},
}


@pytest.mark.parametrize("form", FULL)
@pytest.mark.parametrize("width", [400, 1200])
def test_what_is_as_large_as_it_may_be_is_drawn(form: str, width: int) -> None:
    told = Told.model_validate({"step": 1, "picture": {"form": form, "title": "t", **FULL[form]}})
    spec = PictureSpec("t", (drawn(told),), width_px=width)
    assert collisions(compose(spec)) == []
    assert render(spec).startswith(b"\x89PNG")
    assert MOST_POINTS >= 160 * MOST_GROUPS
