"""More than four panels: small multiples that say once what holds for all, on a sheet that stays small."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.domain.charts import Baseline, ChartSpec, Mark, Panel, Series
from charts_render.alt_text import describe
from charts_render.canvas import Sheet
from charts_render.gallery import examples
from charts_render.layout import Layout, lay_out
from charts_render.plan import plan
from charts_render.render import compose, render
from charts_render.scene import Dots
from tests.charts.picture_cases import NAMES, ODD, SCRIPTS, chart, collisions, curve, line, million, shape, texts

RUNS = ("r-7f3k2m", "r-b81x0q")


def panel(*names: str, title: str = "loss", better: str = "") -> Panel:
    """A panel with a curve for each name."""
    return Panel(title, tuple(curve(3, 1 + i, 2 + i, name=name) for i, name in enumerate(names)), better=better)  # type: ignore[arg-type]


def sheet_of(*panels: Panel) -> Sheet:
    return compose(ChartSpec("t", panels))


def layout_of(*panels: Panel) -> Layout:
    return lay_out(plan(ChartSpec("t", panels)))


@pytest.mark.parametrize("count", range(5, 13))
def test_two_columns_that_each_end_with_their_axis(count: int) -> None:
    lonely = panel("value")
    layout = layout_of(*[lonely] * count)
    assert len({frame.plot.x0 for frame in layout.frames}) == 2
    assert len({frame.plot.y0 for frame in layout.frames}) == (count + 1) // 2
    assert layout.height <= 2200
    for left in {frame.plot.x0 for frame in layout.frames}:
        column = [frame for frame in layout.frames if frame.plot.x0 == left]
        assert [frame for frame in column if frame.has_x_ticks] == [min(column, key=lambda frame: frame.plot.y0)]
    ticked = {words.gid for words in texts(sheet_of(*[lonely] * count), "x-tick")}
    assert ticked == {f"x-tick:{count - 2}", f"x-tick:{count - 1}"}


def test_the_axis_is_named_below_both_columns_or_below_each() -> None:
    even, odd = layout_of(*[panel("a")] * 6), layout_of(*[panel("a")] * 7)
    assert [label.text for label in even.x_labels] == ["step"]
    assert even.frames[0].plot.x1 < even.x_labels[0].x < even.frames[1].plot.x0
    assert [label.text for label in odd.x_labels] == ["step", "step"]
    for label, frame in zip(odd.x_labels, odd.frames[-2:], strict=True):
        assert frame.plot.x0 < label.x < frame.plot.x1
        assert 0 < frame.plot.y0 - label.base < 90


def test_no_more_than_twelve_and_the_others_are_counted() -> None:
    sheet = sheet_of(*[panel("a", title=f"metric {i}") for i in range(15)])
    assert [t.text for t in texts(sheet, "heading")] == [f"metric {i}" for i in range(12)]
    assert "+3 more panels" in texts(sheet, "subtitle")[0].text
    assert "3 more panels are not shown" in describe(ChartSpec("t", (panel("a"),) * 15))


def test_one_legend_for_all_and_a_run_keeps_its_colour_where_it_is_alone() -> None:
    sheet = sheet_of(panel(*RUNS), panel(*RUNS), panel(RUNS[1]), panel("lr"), panel(*reversed(RUNS)))
    assert [t.gid for t in texts(sheet, "legend")] == ["legend:all:0", "legend:all:1"]
    assert [t.text for t in texts(sheet, "legend")] == list(RUNS)
    assert {t.text for t in texts(sheet, "value:0")} == {"2", "3"}
    shown = {gid: line(sheet, gid) for gid in ("end:0:0", "end:0:1", "end:2:0", "end:3:0", "end:4:0")}
    looks = {gid: (dots.dot.fill, dots.dot.shape) for gid, dots in shown.items() if isinstance(dots, Dots)}
    first, second = looks["end:0:0"], looks["end:0:1"]
    assert looks["end:2:0"] == looks["end:4:0"] == second
    assert len({first[0], second[0], looks["end:3:0"][0]}) == 3  # what the legend does not name has none of its colours
    assert shape(sheet, "markers:2:0") is not None
    assert shape(sheet, "markers:3:0") is None


@pytest.mark.parametrize(
    "panels",
    [
        (panel("a"),) * 6,
        (panel("train", "valid"), *[panel("a")] * 5),
        (panel("same", "same"), *[panel("a", "b")] * 5),
        tuple(panel(f"a{i}", f"b{i}") for i in range(6)),
        (panel(*RUNS),) * 4,
    ],
)
def test_no_common_legend_where_it_would_not_do(panels: tuple[Panel, ...]) -> None:
    sheet = sheet_of(*panels)
    assert texts(sheet, "legend:all") == []
    assert len(texts(sheet, "value:")) == sum(len(p.series) for p in panels)


def test_names_that_begin_alike_are_told_apart_in_the_legend() -> None:
    names = [f"{'a very long name of a sweep ' * 2}{i}" for i in range(3)]
    sheet = sheet_of(*[panel(*names)] * 5)
    assert len({t.text for t in texts(sheet, "legend:all")}) == 3


def test_how_to_read_lines_and_what_marks_are_called_is_said_once() -> None:
    marks = (Mark(300, "restart"),)
    noise = Series("a", range(4000), np.random.default_rng(1).normal(0, 1, 4000).tolist())
    few = [Panel("metric", (noise,), "", (), marks)] * 6
    sheet = sheet_of(*few)
    assert [t.text for t in texts(sheet, "reading")] == ["bold: mean"]
    assert not any("mean" in t.text for t in texts(sheet, "note"))
    assert [t.gid for t in texts(sheet, "mark-name")] == ["mark-name:0", "mark-name:1"]
    assert all(line(sheet, f"mark:{i}:0") is not None for i in range(6))
    other = sheet_of(*few[:4], replace(few[4], marks=(Mark(900, "kept"),)), replace(few[5], smooth=0.9))
    assert [t.gid for t in texts(other, "mark-name")] == ["mark-name:0", "mark-name:1", "mark-name:4"]
    assert texts(other, "reading") == []
    assert "smoothed 0.9" in " ".join(t.text for t in texts(other, "note:5"))


def test_a_best_value_is_never_cut_off() -> None:
    long = panel(*("abcdefghijklmnop", "bcdefghijklmnopq", "cdefghijklmnopqr"), better="lower")
    sheet = sheet_of(*[long] * 6)
    assert [t.text for t in texts(sheet, "note")] == ["○ best abcdefghijklmnop 1"] * 6
    both = sheet_of(*[panel("train", "valid", better="lower")] * 6)
    assert [t.text for t in texts(both, "note")] == ["○ best train 1, valid 2"] * 6


def test_what_is_said_of_many_panels_is_short() -> None:
    loss = Panel("loss", panel("train", "valid").series, "nats", (Baseline("majority", 0.7),), better="lower")
    spec = ChartSpec("run", (loss, *[panel("lr", title="learning rate")] * 3, Panel("f1", ()), Panel("auc", ())))
    assert describe(spec) == (
        "Chart: run. 6 panels, last values up to step 2. loss: train 2, valid 3 nats, best 1, majority 0.7. "
        "learning rate: 2. learning rate: 2. learning rate: 2. f1: no values yet. auc: no values yet."
    )
    smooth = replace(spec, panels=tuple(replace(p, smooth=0.9) for p in spec.panels))
    assert describe(smooth).endswith("Lines are smoothed 0.9, these values are not.")
    large = Panel("m" * 900, panel(*("s" * 900 + str(i) for i in range(9))).series, "u" * 90, better="lower")
    shortest = describe(ChartSpec("run", (large,) * 12))
    assert len(shortest) <= 1024
    assert shortest.count("8 more series") == 12
    assert describe(ChartSpec("", (Panel("", ()),) * 5)).startswith("Chart. 5 panels, no values yet. metric: no values")


def test_a_sheet_is_small_and_the_same_each_time() -> None:
    big = ChartSpec("Big", tuple(million(i) for i in range(3)) * 4)
    first = render(big)
    assert len(first) <= 120 * 1024
    spec = examples("dark")["twelve"]
    assert render(spec) == render(spec) != first


def test_labels_that_end_together_have_room_in_flat_rows() -> None:
    names = SCRIPTS
    crowd = chart(*[curve(1.0, *[0.5 + 1e-4 * i] * 9, name=name) for i, name in enumerate(names)]).panels
    alone = Panel("p", tuple(curve(1.0, *[0.5 + 1e-4 * i] * 9, name=f"{n}{i}") for i, n in enumerate(names[:5])))
    for panels in (crowd * 12, (*crowd, *[panel("a")] * 11), (alone, *[panel("b", "c", "d", "e")] * 8)):
        assert collisions(compose(ChartSpec("t", panels))) == []


def test_a_number_at_the_top_of_an_axis_and_names_of_marks_keep_apart() -> None:
    marks = (Mark(0, "ẤỘ|jgp"), Mark(2, "restart"))  # reaches further down than Latin
    for count in (2, 4, 12):
        busy = Panel("busy", (curve(96, 97, 95, 96),), "%", (), marks, floor=0.0, ceiling=100.0)
        sheet = sheet_of(*[busy] * count)
        assert collisions(sheet) == []
        assert [t.text for t in texts(sheet, "mark-name:0")] == ["restart", "ẤỘ|jgp"]


def test_a_panel_without_values_says_so_beside_its_baselines() -> None:
    for name in ("a baseline with a long name", "ẤỘ|jgp of another script"):
        for count in (1, 4, 6):
            sheet = sheet_of(*[Panel("f1", (), "", (Baseline(name, 0.5),))] * count)
            assert collisions(sheet) == []
            assert len(texts(sheet, "empty")) == len(texts(sheet, "baseline-name")) == count


_name = st.sampled_from((*NAMES, *SCRIPTS, *RUNS, "train", "valid", "a rather long run name number one"))
_number = st.sampled_from((*ODD, 12345.678, 0.25)) | st.floats(-1e3, 1e3)
_series = st.builds(lambda name, ys: Series(name, range(len(ys)), ys), _name, st.lists(_number, max_size=6))
_panels = st.builds(
    Panel,
    _name,
    st.lists(_series, max_size=4).map(tuple) | st.lists(_series, max_size=1).map(tuple),
    _name,
    st.lists(st.builds(Baseline, _name, _number), max_size=2).map(tuple),
    st.sampled_from([(), (Mark(0, "a"), Mark(3, "損失 ẤỘ|jgp"))]),
    st.booleans(),
    st.sampled_from(["", "lower", "higher"]),
    st.sampled_from([0.0, 0.6]),
    st.sampled_from([None, 0.0]),
    st.sampled_from([None, 100.0]),
)
_specs = st.builds(
    ChartSpec,
    _name,
    st.integers(0, 15).flatmap(lambda n: st.lists(_panels, min_size=n, max_size=n)).map(tuple),
    _name,
    _name,
    st.sampled_from(["light", "dark"]),
    st.sampled_from([400, 1200]),
)


@settings(suppress_health_check=list(HealthCheck))
@given(_specs)
def test_no_data_raises_and_no_texts_meet(spec: ChartSpec) -> None:
    assert collisions(compose(spec)) == []
    assert 0 < len(describe(spec)) <= (1500 if len(spec.panels) < 5 else 1024)
    assert len(spec.panels) % 5 or render(spec).startswith(b"\x89PNG")
