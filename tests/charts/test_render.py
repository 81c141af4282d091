"""What a picture shows, read off the sheet and the pixels."""

import io
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image

from agent.domain.charts import Baseline, ChartSpec, Extremes, Mark, Panel, Series, Theme
from agent.runs.charts.curves import series_of
from agent.series.growing import Growing
from agent.series.slices import Slice
from charts_render.alt_text import describe
from charts_render.canvas import Sheet
from charts_render.curve import clean, finite_runs
from charts_render.gallery import examples
from charts_render.lettering import Letters, plain
from charts_render.numerals import value_text
from charts_render.plan import plan
from charts_render.render import compose, render
from charts_render.scene import Dots, Line
from charts_render.strips import strip
from tests.charts.picture_cases import ODD, SCRIPTS, chart, collisions, crowded, curve, line, million, texts


def _ys(spec: ChartSpec, gid: str) -> np.ndarray:
    drawn = line(compose(spec), gid)
    assert drawn is not None
    return np.asarray(drawn.ys)


def test_same_spec_gives_same_bytes_without_metadata() -> None:
    spec = examples("light")["four-busy"]
    first = render(spec)
    assert render(spec) == first
    image = Image.open(io.BytesIO(first))
    assert (image.format, image.mode, image.width, image.info) == ("PNG", "P", 1200, {})


def test_theme_decides_the_ground() -> None:
    corners = {}
    themes: tuple[Theme, Theme] = ("light", "dark")
    for theme in themes:
        image = Image.open(io.BytesIO(render(ChartSpec("t", (), theme=theme)))).convert("RGB")
        corners[theme] = image.getpixel((0, 0))
    assert corners == {"light": (255, 255, 255), "dark": (0x17, 0x19, 0x1E)}


def test_the_pixels_of_a_line_have_its_colour() -> None:
    image = Image.open(io.BytesIO(render(chart(curve(1, 2, 3))))).convert("RGB")
    counts = {colour: n for n, colour in image.getcolors(100_000) or []}
    assert counts[(0x0B, 0x62, 0xC4)] > 1000


def test_gap_breaks_the_line_and_a_lone_point_is_a_dot() -> None:
    spec = chart(curve(1, 2, math.nan, 4, math.nan, 3, 2))
    assert np.isnan(_ys(spec, "series:0:0")).tolist() == [False, False, True, False, True, False, False]
    lone = line(compose(spec), "lone:0:0")
    assert lone is not None
    assert len(lone.xs) == 1
    assert line(compose(chart(curve(1, 2, 3))), "lone:0:0") is None


def test_gap_is_empty_in_the_pixels() -> None:
    ys = [1.0] * 400 + [math.nan] * 200 + [1.0] * 400
    image = Image.open(io.BytesIO(render(chart(curve(*ys))))).convert("RGB")
    blue = (np.asarray(image) == (0x0B, 0x62, 0xC4)).all(axis=2)
    columns = np.flatnonzero(blue[:, :1050].sum(axis=0) >= 3)  # without the label at the right
    widest = np.diff(columns).max()
    assert 0.17 < widest / (columns[-1] - columns[0]) < 0.23


def test_single_point_is_a_dot() -> None:
    sheet = compose(chart(curve(0.62)))
    assert line(sheet, "lone:0:0") is not None
    assert [t.text for t in texts(sheet, "value")] == ["0.62"]


def test_infinite_values_are_marked_at_the_edge_and_counted() -> None:
    sheet = compose(chart(curve(1, math.inf, 2, -math.inf, 3)))
    above, below = line(sheet, "above:0:0"), line(sheet, "below:0:0")
    assert above is not None
    assert below is not None
    assert "2 infinite" in " ".join(t.text for t in texts(sheet, "note"))


def test_last_values_are_labelled_with_their_names() -> None:
    sheet = compose(chart(curve(3, 1.25), curve(3, 1.5, name="valid")))
    assert {t.text for t in texts(sheet, "value")} == {"1.25 train", "1.5 valid"}


def test_names_move_to_a_legend_where_they_do_not_fit() -> None:
    long = [curve(3, i, name=f"a rather long run name {i}") for i in range(3)]
    sheet = compose(chart(*long))
    assert [t.text for t in texts(sheet, "value")] == ["0", "1", "2"]
    assert len(texts(sheet, "legend")) == 3


@pytest.mark.parametrize(("better", "value"), [("lower", "0.5"), ("higher", "3")])
def test_best_is_ringed_and_said(better: str, value: str) -> None:
    sheet = compose(chart(curve(2, 0.5, 3, 1), better=better))
    assert line(sheet, "best:0:0") is not None
    assert f"best {value} at" in texts(sheet, "note")[0].text
    assert line(compose(chart(curve(2, 0.5, 3, 1))), "best:0:0") is None


def test_baseline_is_dashed_and_named_even_off_the_scale() -> None:
    near, far = Baseline("majority", 0.48), Baseline("oracle", 1e9)
    sheet = compose(chart(curve(0.3, 0.6, 0.5), baselines=(near, far)))
    drawn = line(sheet, "baseline:0:0")
    assert isinstance(drawn, Line)
    assert drawn.pen.dash
    assert line(sheet, "baseline:0:1") is None
    assert {t.text for t in texts(sheet, "baseline-name")} == {"majority 0.48", "oracle 1G ↑"}


def test_log_scale_falls_back_and_says_so() -> None:
    assert "log scale" in texts(compose(chart(curve(1, 10, 100), log_scale=True)), "note")[0].text
    fallen = texts(compose(chart(curve(1, 0, 100), log_scale=True)), "note")
    assert "linear: log needs values above 0" in fallen[0].text


def test_one_wild_value_does_not_flatten_the_rest() -> None:
    calm = [1 + 0.1 * math.sin(i) for i in range(100)]
    wild = [*calm[:50], 1e6, *calm[51:]]
    usual, spoilt = _ys(chart(curve(*calm)), "series:0:0"), _ys(chart(curve(*wild)), "series:0:0")
    kept = np.arange(100) != 50
    assert np.ptp(spoilt[kept]) > 0.6 * np.ptp(usual)
    assert "off scale, up to 1M" in texts(compose(chart(curve(*wild))), "note")[0].text


def test_a_steep_start_is_no_outlier() -> None:
    sheet = compose(chart(curve(*[0.3 + 10 * math.exp(-i / 20) for i in range(1000)])))
    assert texts(sheet, "note") == []


def test_marks_are_lines_with_names_and_repeats_are_named_once() -> None:
    marks = (Mark(1, "checkpoint"), Mark(3, "checkpoint"), Mark(6, "restart"), Mark(900, "later"))
    sheet = compose(chart(curve(*range(8)), marks=marks))
    assert all(line(sheet, f"mark:0:{i}") is not None for i in range(3))
    assert sorted(t.text for t in texts(sheet, "mark-name")) == ["checkpoint", "restart"]
    assert "+1 more marks" in texts(sheet, "note")[0].text


def test_what_is_left_out_is_said() -> None:
    many = ChartSpec("t", tuple(Panel(str(i), ()) for i in range(15)))
    assert "+3 more panels" in texts(compose(many), "subtitle")[0].text
    crowd = compose(chart(*[curve(1, 2)] * 10_000))
    assert "+9,992 more series" in " ".join(t.text for t in texts(crowd, "note"))
    assert line(crowd, "series:0:7") is not None
    assert line(crowd, "series:0:8") is None


def test_noise_gets_a_mean_that_does_not_bridge_gaps() -> None:
    rng = np.random.default_rng(0)
    ys = rng.normal(0, 1, 4000)
    ys[1500:2500] = np.nan
    sheet = compose(chart(Series("a", range(4000), ys.tolist())))
    mean = line(sheet, "mean:0:0")
    assert mean is not None
    assert np.isnan(mean.ys).sum() >= 20
    assert line(compose(chart(Series("a", range(4000), [s / 4000 for s in range(4000)]))), "mean:0:0") is None


_TIGHT = {**examples("dark"), **dict(crowded())}


@pytest.mark.parametrize("name", _TIGHT)
def test_no_two_texts_meet(name: str) -> None:
    assert collisions(compose(_TIGHT[name])) == []


@pytest.mark.parametrize("width", [400, 1200, 2400])
@pytest.mark.parametrize("count", range(2, 9))
def test_labels_of_lines_that_end_together_do_not_touch_in_any_script(count: int, width: int) -> None:
    for turn in range(len(SCRIPTS)):
        names = (SCRIPTS + SCRIPTS)[turn : turn + count]
        series = tuple(curve(1.0, *[0.5 + 1e-4 * i] * 9, name=name) for i, name in enumerate(names))
        sheet = compose(ChartSpec("t", (Panel("one", series), Panel("two", series)), width_px=width))
        assert len(texts(sheet, "value:")) == 2 * count
        assert collisions(sheet) == []


@pytest.mark.parametrize("name", ["one", "two", "three", "four", "twelve"])
def test_every_letter_is_at_least_eight_pixels_on_a_phone(name: str) -> None:
    sheet = compose(examples("light")[name])
    sizes = {t.gid: t.ink.letters.size_px * 400 / 1200 for t in texts(sheet)}
    assert min(sizes.values()) >= 8, sizes
    assert any(gid.startswith("y-tick") for gid in sizes)


def test_four_panels_of_a_million_points_are_small() -> None:
    spec = ChartSpec("Big", tuple(million(i) for i in range(4)))
    sheet = compose(spec)
    assert all(len(drawn.xs) < 4 * 1200 for i in range(4) if (drawn := line(sheet, f"series:{i}:0")))
    assert len(render(spec)) <= 40 * 1024


def test_east_asian_names_are_drawn_in_both_weights(caplog: pytest.LogCaptureFixture) -> None:
    for text in ("混淆矩阵 训练损失", "混同行列 学習率", "혼동 행렬 손실", "請求書・配達"):
        assert plain(text) == text
        for bold in (False, True):
            drawn = strip(text, Letters(40.0 + bold, bold), 1.0)
            assert drawn.coverage.shape[1] > 150
    assert caplog.records == []


def test_strange_names_are_drawn_or_boxed() -> None:
    assert plain("損失\x00 \ud800a\nb") == "損失 a b"
    assert plain("\U00020000") == "□"  # a rare character that our font does not have
    assert plain("go 🚀") == "go "
    assert plain("خسارة") == "خسارة"
    names = ("$\\frac{", "خسارة", "損失", "🚀", "a\u0301" + "\u0301" * 200, "\ud800", "x" * 5000, "", "\n", "%s {}")
    for name in names:
        spec = ChartSpec(name, (Panel(name, (curve(1, 2, name=name), curve(2, 3, name=name)), name),), name, name)
        assert collisions(compose(spec)) == []
        assert render(spec).startswith(b"\x89PNG")


_numbers = st.one_of(st.sampled_from(ODD), st.floats(), st.integers(-(10**400), 10**400))
_texts = st.text(max_size=12)
_series = st.builds(Series, _texts, st.lists(_numbers, max_size=12), st.lists(_numbers, max_size=12))
_panels = st.builds(
    Panel,
    _texts,
    st.lists(_series, max_size=3).map(tuple),
    _texts,
    st.lists(st.builds(Baseline, _texts, st.one_of(st.sampled_from(ODD), st.floats())), max_size=2).map(tuple),
    st.lists(st.builds(Mark, st.one_of(st.sampled_from(ODD), st.floats()), _texts), max_size=3).map(tuple),
    st.booleans(),
    st.sampled_from(["", "lower", "higher"]),
)
_specs = st.builds(
    ChartSpec,
    _texts,
    st.lists(_panels, max_size=2).map(tuple),
    _texts,
    _texts,
    st.sampled_from(["light", "dark"]),
    st.sampled_from([-5, 0, 400, 10**9]).filter(lambda w: w < 3000),
)


_denormal = ChartSpec("", (Panel("", (Series("", [5e-324], [math.nan]),)),))  # type: ignore[arg-type]


@settings(suppress_health_check=list(HealthCheck))
@given(_specs)
@example(_denormal)
def test_no_data_raises(spec: ChartSpec) -> None:
    assert render(spec).startswith(b"\x89PNG")


def test_spans_are_drawn_as_a_line_through_their_extremes_which_are_said_exactly() -> None:
    x = np.arange(0.5, 4000, 16.0)
    mean = np.exp(-x / 900)
    known = Extremes(17.0, -0.25, 3.0, 1.5)
    series = Series("a", x, mean, mean - 0.1, mean + 0.1, known)  # type: ignore[arg-type]
    sheet = compose(chart(series, better="lower"))
    assert line(sheet, "mean:0:0") is not None
    assert (raw := line(sheet, "raw:0:0")) is not None
    assert raw.ys.size == 2 * x.size
    assert "best -0.25 at 17" in texts(sheet, "note")[0].text
    assert [t.text for t in texts(sheet, "value")] == [value_text(float(mean[-1]))]


def drawn(sheet: Sheet) -> Line:
    """What runs through all values of the first curve."""
    found = line(sheet, "raw:0:0") or line(sheet, "series:0:0")
    assert found is not None
    return found


def level(sheet: Sheet, value: float) -> float:
    """How high a value lies, by the lines of the grid."""
    ticks = [float(t.text) for t in texts(sheet, "y-tick")]
    levels = [float(s.ys[0]) for s in sheet.shapes if isinstance(s, Line) and s.gid == "grid:0"]
    return levels[0] + (levels[-1] - levels[0]) * (value - ticks[0]) / (ticks[-1] - ticks[0])


def folded(y: list[float], steps: list[int] | None = None) -> Series:
    """As a run's card reads it, through the pyramid."""
    growing, count = Growing(), len(y)
    rows = np.arange(count)
    places = rows if steps is None else np.array(steps)
    growing.add(Slice(places, np.full(count, math.nan), {"a": (rows, np.array(y))}))
    return series_of(growing.window("a", most=400), "a")


@pytest.mark.parametrize("spanned", [False, True])
@pytest.mark.parametrize("count", [60, 400, 4_000, 100_000])
def test_a_spike_of_one_step_is_on_the_line_at_every_density(count: int, *, spanned: bool) -> None:
    ys = np.random.default_rng(5).normal(0.5, 0.1, count).clip(0.2, 0.8)
    ys[count // 3], ys[count // 2] = 2.0, -1.0
    sheet = compose(chart(folded(ys.tolist()) if spanned else Series("a", range(count), ys.tolist())))
    found, area = drawn(sheet), plan(chart(Series("a", range(count), ys.tolist()))).x
    assert found.pen.width >= 3.0
    assert (found.ys.max(), found.ys.min()) == pytest.approx((level(sheet, 2.0), level(sheet, -1.0)), abs=1.0)
    (axis,) = [s for s in sheet.shapes if isinstance(s, Line) and s.gid == "axis:0"]
    left, right = float(axis.xs[0]), float(axis.xs[-1])
    where = left + (right - left) * area.fraction(count // 3)
    assert abs(float(found.xs[np.nanargmax(found.ys)]) - where) < 4.0


@pytest.mark.parametrize("spanned", [False, True])
def test_a_stretch_without_rows_is_a_gap(*, spanned: bool) -> None:
    steps = [*range(3000), *range(60_000, 63_000), *range(63_100, 66_000)]  # the second stretch is too short to be seen
    ys = [math.sin(step / 900) for step in steps]
    sheet = compose(chart(folded(ys, steps) if spanned else Series("a", steps, ys)))
    found = drawn(sheet)
    seen = np.isfinite(found.ys)
    left, right = float(found.xs[0]), float(found.xs[-1])
    shares = (found.xs[seen] - left) / (right - left)
    assert not ((shares > 0.06) & (shares < 0.9)).any()
    assert len(finite_runs(found.ys)) == 2


@pytest.mark.parametrize(
    "steps",
    [
        range(0, 20_000, 500),  # an evaluation now and then
        [0, *range(500, 20_000, 500)],
        [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000],
        [*range(100), *range(100, 3000, 50)],
        [n * 10 + n % 3 for n in range(300)],
        [1, 900],
        [1, 2, 900],
    ],
)
def test_a_series_that_has_few_rows_has_no_gap(steps: list[int]) -> None:
    assert len(finite_runs(clean(Series("a", steps, [1.0] * len(steps))).y)) == 1


@pytest.mark.parametrize(("first", "last"), [(999_901, 1_000_000), (10**12, 10**12 + 5), (7, 8), (123, 123)])
def test_steps_have_the_whole_axis_however_high_they_are(first: int, last: int) -> None:
    steps = list(range(first, last + 1))
    found = plan(chart(Series("a", steps, [1.0] * len(steps)))).x
    if first < last:
        assert (found.lo, found.hi) == (first, last)
    assert found.hi - found.lo <= max(last - first, 2)
    labels = [t.text for t in texts(compose(chart(Series("a", steps, [1.0] * len(steps)))), "x-tick")]
    assert labels
    assert len(set(labels)) == len(labels)


def test_a_gap_stays_a_gap_behind_a_mean() -> None:
    x, y = np.arange(4000.0), np.random.default_rng(1).normal(size=4000)
    y[1000:2000] = np.nan
    found = drawn(compose(chart(Series("a", x, y))))  # type: ignore[arg-type]
    assert len(finite_runs(found.ys)) == 2


@pytest.mark.parametrize("spanned", [False, True])
def test_a_single_nan_among_many_rows_is_marked(*, spanned: bool) -> None:
    ys = [1 / (n + 1) for n in range(30_000)]
    ys[20_000] = math.nan
    growing = Growing()
    rows = np.arange(len(ys))
    growing.add(Slice(rows, np.full(len(ys), math.nan), {"a": (rows, np.array(ys))}))
    spec = chart(series_of(growing.window("a", most=400 if spanned else 10**6), "a"))
    sheet = compose(spec)
    (mark,) = [s for s in sheet.shapes if s.gid == "nan:0:0"]
    (axis,) = [s for s in sheet.shapes if isinstance(s, Line) and s.gid == "axis:0"]
    assert isinstance(mark, Dots)
    share = (float(mark.xs[0]) - float(axis.xs[0])) / (float(axis.xs[-1]) - float(axis.xs[0]))
    assert share == pytest.approx(2 / 3, abs=0.02)
    assert "× NaN at" in " ".join(t.text for t in texts(sheet, "note"))
    assert "NaN from step" in describe(spec)


def test_the_legend_of_long_names_says_what_is_their_own() -> None:
    names = [f"{'a sweep of many runs ' * 3}lr0.00{n}-{'x' * 60}" for n in range(8)]
    lines = [Series(name, (0, 1), (n, n + 1)) for n, name in enumerate(names)]
    assert len({t.text for t in texts(compose(chart(*lines)), "legend:0")}) == 8
