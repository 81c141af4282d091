"""`trainyard chart` of what other programs wrote: their rows, by run, known by what is in the file."""

import asyncio
import csv
import json
import math
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from agent.domain.charts import ChartSpec
from agent.domain.errors import AppError, BadData
from agent.runs.charts.run_charts import Look
from bot.chart_file import ChartFile, Wanted
from bot.metric_files import FORMATS
from tests.bot.test_chart_file import chart_here, spec_of

LOSSES = [1 / (n + 1) for n in range(40)]
"""At steps 0, 10, 20 …; evaluated at every tenth of these."""


def trainer_state(path: Path) -> Path:
    """As transformers writes it."""
    rows: list[dict[str, float]] = []
    for n, loss in enumerate(LOSSES):
        rows.append({"epoch": n / 10, "grad_norm": 1.0, "learning_rate": 1e-4, "loss": loss, "step": n * 10})
        rows += [{"epoch": n / 10, "eval_loss": loss + 0.1, "eval_runtime": 1.5, "step": n * 10}] if n % 10 == 0 else []
    state = {"best_metric": None, "global_step": 390, "is_world_process_zero": True, "log_history": rows}
    (path / "trainer_state.json").write_text(json.dumps(state, indent=2))
    return path / "trainer_state.json"


def lightning(path: Path) -> Path:
    """Of its CSVLogger: blanks where a row has no value."""
    with (path / "metrics.csv").open("w", newline="", encoding="utf-8-sig") as file:
        table = csv.writer(file)
        table.writerow(["epoch", "loss", "step", "eval_loss", "note"])
        for n, loss in enumerate(LOSSES):
            table.writerow([n // 10, loss, n * 10, "", "ok"])
            if n % 10 == 0:
                table.writerow([n // 10, "", n * 10, loss + 0.1, ""])
    return path / "metrics.csv"


def trackio(path: Path) -> Path:
    """Its database."""
    with sqlite3.connect(path / "project.db") as database:
        database.execute(
            "CREATE TABLE metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp TEXT NOT NULL, "
            "run_name TEXT NOT NULL, step INTEGER NOT NULL, metrics TEXT NOT NULL)"
        )
        for n, loss in enumerate(LOSSES):
            values = {"loss": loss} | ({"eval_loss": loss + 0.1} if n % 10 == 0 else {})
            at = f"2026-03-01T10:{n:02}:00+00:00"
            row = (at, "r", n * 10, json.dumps(values).encode() if n % 2 else json.dumps(values))
            database.execute("INSERT INTO metrics (timestamp, run_name, step, metrics) VALUES (?, ?, ?, ?)", row)
    return path / "project.db"


def parquet(path: Path) -> Path:
    """As W&B and trackio keep a history."""
    evaluated = [loss + 0.1 if n % 10 == 0 else None for n, loss in enumerate(LOSSES)]
    table = {"_step": [n * 10 for n in range(40)], "_timestamp": [1.79e9 + 60 * n for n in range(40)], "loss": LOSSES}
    pl.DataFrame(table | {"eval_loss": evaluated}).write_parquet(path / "history.parquet")
    return path / "history.parquet"


def events(path: Path) -> Path:
    """As TensorBoard's own writer does; the folder is given."""
    pytest.importorskip("tensorboard")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(path / "logs"))
    for n, loss in enumerate(LOSSES):
        values = {"loss": loss} | ({"eval_loss": loss + 0.1} if n % 10 == 0 else {})
        said = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
        writer.add_event(Event(step=n * 10, wall_time=1.79e9 + n * 60, summary=said))
    writer.close()
    return path / "logs"


def history(path: Path) -> Path:
    """Of W&B, a row a line."""
    rows = [{"_step": n * 10, "_timestamp": 1.79e9 + n, "_runtime": n, "loss": loss} for n, loss in enumerate(LOSSES)]
    for n in range(0, 40, 10):
        rows[n]["eval_loss"] = LOSSES[n] + 0.1
    (path / "wandb-history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path / "wandb-history.jsonl"


@pytest.mark.parametrize("made", [trainer_state, lightning, trackio, parquet, events, history])
def test_what_other_programs_wrote_is_drawn(made: Callable[[Path], Path], tmp_path: Path) -> None:
    spec = spec_of(made(tmp_path), metrics=("loss",))
    (panel,) = spec.panels
    lines = {series.name: series for series in panel.series}
    assert list(lines["loss"].x) == [n * 10 for n in range(40)]
    assert list(lines["loss"].y) == pytest.approx(LOSSES, rel=1e-6)
    assert list(lines["eval"].x) == [0, 100, 200, 300]
    assert list(lines["eval"].y) == pytest.approx([LOSSES[n] + 0.1 for n in range(0, 40, 10)], rel=1e-6)


def test_the_command_draws_them(tmp_path: Path) -> None:
    said = chart_here(trainer_state(tmp_path), "-o", tmp_path / "a.png", "--metric", "loss", "--by", "epoch")
    assert "a.png: 44 rows." in said
    assert "at epoch 3.9" in said
    assert (tmp_path / "a.png").stat().st_size > 1000


def table(path: Path, *rows: list[Any], name: str = "export.csv") -> Path:
    with (path / name).open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path / name


def lines_of(spec: ChartSpec) -> dict[str, dict[str, list[float]]]:
    return {panel.title: {line.name: list(line.y) for line in panel.series} for panel in spec.panels}


def test_runs_of_one_file_are_laid_over_each_other(tmp_path: Path) -> None:
    header = ["Step", "a - loss", "a - loss__MIN", "a - loss__MAX", "b - loss", "b - loss__MIN", "b - loss__MAX"]
    found = table(tmp_path, header, [1, 0.5, 0.5, 0.5, 0.7, 0.7, 0.7], [2, 0.25, 0.25, 0.25, "", "", ""])
    assert lines_of(spec_of(found)) == {"loss": {"a": [0.5, 0.25], "b": [0.7]}}
    found = table(tmp_path, ["run_name", "step", "loss"], ["a", 1, 0.5], ["b", 1, 0.7], ["a", 2, 0.25])
    assert lines_of(spec_of(found)) == {"loss": {"a": [0.5, 0.25], "b": [0.7]}}


def test_a_table_of_tensorboard_has_its_metric_in_its_name(tmp_path: Path) -> None:
    found = table(tmp_path, ["Wall time", "Step", "Value"], [1.79e9, 0, 3.0], [1.79e9, 5, 2.0], name="train_loss.csv")
    assert lines_of(spec_of(found)) == {"loss": {"train": [3.0, 2.0]}}


def test_the_newest_row_may_come_first_and_no_number_is_lost(tmp_path: Path) -> None:
    found = table(tmp_path, ["step", "loss"], [3, "nan"], [2, "0.5"], [1, "1e-3"])
    (series,) = spec_of(found).panels[0].series
    assert list(series.x) == [1, 2, 3]
    assert [*series.y][:2] == [0.001, 0.5]
    assert math.isnan(series.y[2])


def test_a_table_may_have_decimal_commas(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("step;loss\n1;0,5\n2;0,25\n")
    assert lines_of(spec_of(tmp_path / "a.csv")) == {"loss": {"loss": [0.5, 0.25]}}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_a_table_may_be_in_the_encodings_of_excel(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "kunden.csv").write_bytes("step;Größe\n1;0,5\n2;0,25\n".encode(encoding))
    assert lines_of(spec_of(tmp_path / "kunden.csv")) == {"Größe": {"Größe": [0.5, 0.25]}}


def test_moments_may_be_texts(tmp_path: Path) -> None:
    rows = [{"time": f"2026-03-01T{10 + n}:30:00+02:00", "loss": n} for n in range(3)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for path in (
        tmp_path / "metrics.jsonl",
        table(tmp_path, ["timestamp", "loss"], *([f"2026-03-01 1{n}:00:00", n] for n in range(3))),
    ):
        drawing = ChartFile(path, tmp_path / "a.png", Wanted(Look(by_time=True)), lambda _: None)
        asyncio.run(drawing.load())
        (series,) = drawing.spec()[0].panels[0].series
        assert list(series.x) == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run.wandb", b":W&B\x00\x01\x02\x00"),
        ("a.png", b"\x89PNG\r\n\x1a\n\x00\x00"),
        ("people.csv", b"name,town\nAda,London\nAlan,Wilmslow\n"),
        ("long.csv", b"a,b\n" + b'"' + b"x" * 200_000 + b'",y\n'),
        ("notes.txt", b"first line\nsecond line\n"),
        ("other.db", b"SQLite format 3\0" + b"\0" * 200),
    ],
)
def test_what_cannot_be_read_is_named_with_what_can(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadData) as raised:
        spec_of(tmp_path / name)
    assert name in raised.value.text
    assert FORMATS in raised.value.text
    empty = tmp_path / "folder"
    empty.mkdir()
    with pytest.raises(AppError, match="neither TensorBoard's event files nor"):
        spec_of(empty)
