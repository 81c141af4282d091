"""Forecasts: moments and rhythms, bad input, and real series with known scores."""

from __future__ import annotations

import csv
import datetime as dt
import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from agent.domain.orders import StepPrediction
from agent.domain.results import Results
from agent.domain.runs import Scorecard
from tests.recipes.folders import RunFolder, make_run, predict
from worker.recipes.common.job import BadSettings, Job
from worker.recipes.common.predict import main as predict_here
from worker.recipes.common.table import BadData, Table, read_table
from worker.recipes.inspect import audit
from worker.recipes.series.forecasting import forecast, usual_change
from worker.recipes.series.reading import Many, series_of
from worker.recipes.series.times import Rhythm, moments, rhythm_of

MONTHS = [dt.datetime(2000 + at // 12, at % 12 + 1, 1) for at in range(120)]  # noqa: DTZ001


def table_of(tmp_path: Path, text: str) -> Table:
    (tmp_path / "data.csv").write_text(text)
    return read_table(tmp_path / "data.csv")


def read(tmp_path: Path, text: str, target: str = "y", **settings: object) -> Many:
    job = Job("", tmp_path, "", "time_series_forecasting", target, None, (), settings, 0, 0.2, "", "")
    return series_of(table_of(tmp_path, text), job)


@pytest.mark.parametrize(
    "cells",
    [
        ["2026-01-31", "2026-02-28"], ["31.01.2026", "28.02.2026"], ["01/31/2026", "02/28/2026"], ["1700", "1701"],
        ["2026-01", "2026-02"], ["2026-01-31 08:00", "2026-01-31T09:00:00"], ["Jan 2026", "Feb 2026"],
        ["31.01.2026 08:00", "28.02.2026 08:00"], ["31.01.26", "28.02.26"], ["1/3/26", "1/31/26"],
        ["Q1/2026", "Q2/2026"],
        ["Januar 2026", "März 2026"], ["Jan-26", "Feb-26"], ["2026M01", "2026M02"], ["202601", "202602"],
        ["01/2026", "02/2026"], ["2026/01/31 08:00:00", "2026/02/28 08:00:00"], ["Jan 31, 2026", "Feb 28, 2026"],
        ["1/31/2026 11:00 AM", "1/31/2026 2:00 PM"],
    ],
)  # fmt: skip
def test_moments_are_read_however_they_are_written(cells: list[str]) -> None:
    found = moments(cells)
    assert found is not None
    assert found[0] < found[1]


@pytest.mark.parametrize(
    ("rhythm", "at"),
    [
        (Rhythm("hour", minute=30), dt.datetime(2024, 2, 29, 23, 30)),  # noqa: DTZ001
        (Rhythm("day"), dt.datetime(2024, 2, 29)),  # noqa: DTZ001
        (Rhythm("minute", every=15, minute=5), dt.datetime(2024, 2, 29, 23, 50)),  # noqa: DTZ001
        (Rhythm("minute", every=360), dt.datetime(2024, 2, 29, 18)),  # noqa: DTZ001
        (Rhythm("working day"), dt.datetime(2024, 3, 1)),  # noqa: DTZ001
        (Rhythm("week", weekday=3), dt.datetime(2024, 2, 29)),  # noqa: DTZ001
        (Rhythm("month", end=True), dt.datetime(2024, 2, 29)),  # noqa: DTZ001
        (Rhythm("month"), dt.datetime(2024, 12, 1)),  # noqa: DTZ001
        (Rhythm("quarter", end=True), dt.datetime(2024, 6, 30)),  # noqa: DTZ001
        (Rhythm("year", end=True), dt.datetime(2024, 12, 31)),  # noqa: DTZ001
    ],
)
def test_a_period_is_a_number_and_back(rhythm: Rhythm, at: dt.datetime) -> None:
    number = rhythm.number(at)
    assert rhythm.moment(number) == at
    assert rhythm.number(rhythm.moment(number + 1)) == number + 1


def test_a_rhythm_with_holes_is_found_and_none_in_disorder() -> None:
    assert rhythm_of([MONTHS[:20] + MONTHS[25:]]) == Rhythm("month", weekday=5)
    assert rhythm_of([[MONTHS[0], MONTHS[0] + dt.timedelta(days=12)]]) is None


def test_working_days_quarters_minutes_and_seconds_since_1970_are_moments() -> None:
    days = [dt.datetime(2024, 1, 1) + dt.timedelta(days=at) for at in range(40)]  # noqa: DTZ001
    working = rhythm_of([[day for day in days if day.weekday() < 5]])
    assert working == Rhythm("working day")
    friday = dt.datetime(2024, 1, 5)  # noqa: DTZ001
    assert working.written(working.number(friday) + 1) == "2024-01-08"
    assert rhythm_of([[days[0] + dt.timedelta(minutes=15 * at) for at in range(9)]]) == Rhythm("minute", every=15)
    assert rhythm_of([[days[0] + dt.timedelta(hours=6 * at) for at in range(9)]]) == Rhythm("minute", every=360)
    assert moments(["2023Q4", "Q1 2024"]) == [dt.datetime(2023, 10, 1), dt.datetime(2024, 1, 1)]  # noqa: DTZ001
    assert moments(["1704067200", "1704070800"]) == moments(["1704067200000", "1704070800000"])
    assert moments(["1704067200"]) == [days[0]]


def test_a_series_that_is_far_shorter_than_the_others_is_left_out_and_said(tmp_path: Path) -> None:
    rows = [f"2024-{1 + at // 28:02d}-{1 + at % 28:02d},{shop},{at}\n" for shop in "ABC" for at in range(84)]
    (tmp_path / "a.csv").write_text("day,shop,sales\n" + "".join(rows) + "2024-01-01,D,1\n2024-01-02,D,2\n")
    said = audit(read_table(tmp_path / "a.csv"), target="sales", task="time_series_forecasting")["warnings"]
    assert "Left out, too short beside the others: “D” (2) days." in said
    assert not any("split at random" in one for one in said)


def monthly(count: int = 60, skip: tuple[int, ...] = ()) -> str:
    rows = [f"{at:%Y-%m-%d},{number}\n" for number, at in enumerate(MONTHS[:count]) if number not in skip]
    return "date,y\n" + "".join(rows)


def test_months_written_with_the_month_first_are_no_days(tmp_path: Path) -> None:
    rows = "".join(f"{at:%m/%d/%Y},{n}\n" for n, at in enumerate(MONTHS))
    assert read(tmp_path, f"date,y\n{rows}").rhythm == Rhythm("month", weekday=5)


@pytest.mark.parametrize(
    ("header", "row", "unit"),
    [
        ("Jahr,Monat,y", "{at.year},{at.month},{n}.5", "month"),
        ("date,hour,y", "2026-01-{day:02d},{hour},{n}.5", "hour"),
    ],
)
def test_columns_that_say_together_when_are_one_series(header: str, row: str, unit: str, tmp_path: Path) -> None:
    rows = [row.format(at=at, n=n, day=n // 24 + 1, hour=n % 24) for n, at in enumerate(MONTHS)]
    text = "\n".join([header, *rows])
    many = read(tmp_path, text)
    assert (len(many.series), many.rhythm.unit, many.unused) == (1, unit, [])
    assert f"The moments are read from {' and '.join(header.split(',')[:2])}." in many.said
    report = audit(table_of(tmp_path, text))
    assert (report["suggested_task"], report["spacing"]) == ("time_series_forecasting", unit)


def test_the_only_number_beside_moments_is_what_is_forecast(tmp_path: Path) -> None:
    report = audit(table_of(tmp_path, "year,spots\n" + "".join(f"{1900 + n},{n % 11}.5\n" for n in range(60))))
    assert (report["suggested_target"], report["suggested_task"]) == ("spots", "time_series_forecasting")
    assert not any("identifier" in said for said in report["warnings"])


def test_two_columns_tell_series_apart_where_one_does_not(tmp_path: Path) -> None:
    rows = [f"{at:%Y-%m-%d},{shop},{item},{n}" for n, at in enumerate(MONTHS[:30]) for shop in "AB" for item in "xy"]
    many = read(tmp_path, "\n".join(["date,shop,item,y", *rows]))
    assert [one.name for one in many.series] == ["A / x", "A / y", "B / x", "B / y"]
    assert (many.id_column, many.unused) == ("shop and item", [])


def test_holes_are_filled_and_said(tmp_path: Path) -> None:
    many = read(tmp_path, monthly(skip=(5, 6)))
    assert many.series[0].values.tolist() == list(range(60))
    assert many.said == ["2 missing values were filled in a straight line."]
    assert (many.season, many.horizon, many.rhythm.unit) == (12, 12, "month")


def test_several_series_are_told_apart_by_a_column(tmp_path: Path) -> None:
    rows = "".join(f"{at:%Y-%m-%d};{shop};{number * 10}\n" for shop in "ab" for number, at in enumerate(MONTHS[:40]))
    many = read(tmp_path, f"month;shop;y\n{rows}")
    assert (many.id_column, [one.name for one in many.series]) == ("shop", ["a", "b"])


@pytest.mark.parametrize(
    ("text", "settings", "said"),
    [
        ("a,y\n" + "x,1\n" * 30, {}, "No column says when"),
        ("date,y\n" + "2026-01-01,1\nsoon,2\n" * 15, {"time_column": "date"}, "line 3 has “soon”"),
        (monthly().replace(",7\n", ",much\n"), {}, "Line 9: “much” in “y” is no number"),
        (monthly(20), {"horizon": 12}, "a horizon of 12 needs at least 26"),
        (monthly(40, skip=tuple(range(3, 38))), {}, "More than half of the months"),
        (monthly(10), {"horizon": 1}, "10 months is too short: at least 12 are needed"),
        (monthly().replace("2000-05-01", "2000-05-41"), {}, "line 6 has “2000-05-41”"),
        (monthly(), {"horizn": 3}, "Did you mean “horizon”"),
        pytest.param(
            monthly(),
            {"model": "amazon/chronos-bolt-small"},
            "needs the package chronos-forecasting",
            marks=pytest.mark.skipif(find_spec("chronos") is not None, reason="it is there"),
        ),
    ],
)
def test_bad_input_gets_a_sentence(text: str, settings: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises((BadData, BadSettings), match=said):
        read(tmp_path, text, **settings)


def test_a_file_of_moments_and_one_number_suggests_a_forecast(tmp_path: Path) -> None:
    report = audit(table_of(tmp_path, monthly()), target="y")
    assert report["suggested_task"] == "time_series_forecasting"
    assert any("One series by month over “date”, season 12" in warning for warning in report["warnings"])


def co2() -> str:
    """Monthly means of CO2 at Mauna Loa, 1958 to 2001, with holes: they come with statsmodels."""
    from statsmodels.datasets import co2 as data

    found = data.load_pandas().data["co2"].resample("MS").mean()
    return "date,co2\n" + "".join(f"{at:%Y-%m-%d},{'' if np.isnan(value) else value}\n" for at, value in found.items())


@pytest.fixture(scope="module")
def mauna_loa(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    run = make_run(
        tmp_path_factory.mktemp("co2"), co2(), "co2", recipe="time_series_forecasting", settings={"horizon": 24}
    )
    run.all_steps_here()
    return run


def test_a_real_series_is_forecast_far_better_than_by_its_season(mauna_loa: RunFolder) -> None:
    card = Scorecard.model_validate(mauna_loa.json("scorecard.json"))
    assert (card.metric, card.higher_is_better, card.test_rows) == ("mase", False, 24)
    scores = {score.name: score.value for score in card.baselines}
    assert scores["seasonal_naive"] == pytest.approx(1.450, abs=0.005)  # the reference score of this split
    assert card.model.value < 0.3
    assert card.gain is not None
    assert card.gain[0] > 0.5


def test_the_sealed_steps_lie_nowhere_in_the_run(mauna_loa: RunFolder) -> None:
    assert len(mauna_loa.rows("data/train.csv")) == 526 - 24
    assert set(mauna_loa.rows("data/test.csv")[0]) == {"row_id", "series", "period", "moment"}
    assert not (mauna_loa.dir / "data/source.csv").exists()


def test_pictures_show_history_forecast_and_interval(mauna_loa: RunFolder) -> None:
    found = Results.model_validate(mauna_loa.json("results.json")).found
    assert found.kind == "pictured"
    assert [shown.view for shown in found.pictures] == ["forecast", "errors"]
    assert "lie in the 90 % interval" in found.words


def test_the_finished_model_forecasts_beyond_the_file(mauna_loa: RunFolder, tmp_path: Path) -> None:
    rows, artifacts = tmp_path / "rows.json", mauna_loa.dir / "artifacts"
    rows.write_text(json.dumps([{"horizon": "3"}]))
    steps = [StepPrediction.model_validate(one) for one in json.loads(predict(artifacts, "--json", str(rows)))]
    assert [step.moment for step in steps] == ["2002-01-01", "2002-02-01", "2002-03-01"]
    assert all(step.low < step.value < step.high and 365 < step.value < 380 for step in steps)
    asked, out = tmp_path / "asked.csv", tmp_path / "answers.csv"
    asked.write_text("horizon\n3\n")
    assert predict_here([str(asked), "--out", str(out)], artifacts) == 0
    assert [row["moment"] for row in csv.DictReader(out.open())] == [step.moment for step in steps]
    rows.write_text(json.dumps([{"horizon": "many"}]))
    assert "A horizon is a whole number of months" in predict(artifacts, "--json", str(rows), code=65)


def test_what_was_tried_is_not_tried_again(mauna_loa: RunFolder, tmp_path: Path) -> None:
    run = mauna_loa.copy(tmp_path)
    before = list(csv.DictReader((run.dir / "predictions/model.csv").open()))
    (run.dir / "metrics.jsonl").unlink()
    assert run.train_here() == 0
    assert list(csv.DictReader((run.dir / "predictions/model.csv").open())) == before
    assert run.metrics() == []  # every window was kept


def test_the_cycle_of_years_is_the_one_that_forecasts_best(tmp_path: Path) -> None:
    """Sunspots: the autocorrelation is highest at 10 years, the seasonal naive is best, and known, at 11."""
    from statsmodels.datasets import sunspots

    found = sunspots.load_pandas().data.to_numpy()
    years = "year,spots\n" + "".join(f"{year:.0f},{spots}\n" for year, spots in found)
    many = read(tmp_path, years, "spots", horizon=33)
    known, came = np.split(many.series[0].values, [-33])
    error = np.abs(forecast("seasonal_naive", [known], 33, many.season)[0] - came).mean()
    assert many.season == 11
    assert error / usual_change(known, many.season) == pytest.approx(1.160, abs=0.001)  # the reference score


def test_further_columns_are_named_that_a_forecast_does_not_use(tmp_path: Path) -> None:
    lines = monthly(48).splitlines()
    text = "\n".join([f"{lines[0]},holiday,price", *(f"{line},{at % 2},{at}" for at, line in enumerate(lines[1:]))])
    said = audit(table_of(tmp_path, text), target="y", task="time_series_forecasting")["warnings"]
    assert "Not used: holiday, price. A forecast learns from the past of “y” alone." in said
    run = make_run(tmp_path, text, "y", recipe="time_series_forecasting", settings={"horizon": 6, "windows": 1})
    run.all_steps_here()
    assert run.json("artifacts/config.json")["notes"] == ["Not used: holiday, price."]
    assert "not used: holiday (a forecast learns" in (run.dir / "artifacts/README.md").read_text()
