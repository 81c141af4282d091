"""Metrics that other programs wrote, as rows by run: what `trainyard chart` reads beside lines of JSON.

Files are known by what is in them, not by their names. TensorBoard's event files are read by its own reader, parquet by
polars; both are extras. Called by `bot.chart_file`.
"""

import csv
import importlib.util
import io
import json
import math
import sqlite3
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from agent.domain.errors import AppError, BadData
from agent.series.jsonl import INT64, MOMENTS, STEPS, moment
from agent.series.slices import Slice

FORMATS: Final = (
    "lines of JSON (metrics.jsonl, W&B's history), trainer_state.json of transformers, csv (of W&B, trackio, "
    "TensorBoard, Lightning, Keras), trackio's database, parquet, and TensorBoard's event files or their folder"
)
_HEAD_BYTES: Final = 64 * 1024
_MOST_JSON_BYTES: Final = 256 << 20
_UTF16: Final = (BOM_UTF16_LE, BOM_UTF16_BE)
_RUNS: Final = ("run_name", "run", "run_id")
_STEP_NAMES: Final = (*STEPS, "steps", "iter", "trainer/global_step")
_MOMENT_NAMES: Final = (
    *MOMENTS, "wall_time", "wall time", "datetime", "date", "created_at", "relative time (wall)",
    "relative time (process)",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """`step` is None where there is none, `at` seconds since the epoch or NaN."""

    step: float | None
    at: float
    values: Mapping[str, float]


Runs = Mapping[str, list[Row]]
"""The rows of each run by its name, `""` where the file names none."""


def read_other(path: Path) -> Runs | None:
    """The rows of a file or folder of another program; None where it is lines of JSON, or a picture.

    Raises:
        BadData: it is neither, or cannot be read; says what can.
        AppError: an extra is missing.
        OSError: it is there and cannot be opened.
    """
    if path.is_dir():
        return _folder(path)
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if head.startswith(b"SQLite format 3\0"):
        return _trackio(path)
    if head.startswith(b"PAR1"):
        return _parquet(path)
    if b"brain.Event:" in head[:64]:
        return _events(path)
    if head.startswith(_UTF16):
        return _csv(path)
    text = head.removeprefix(BOM_UTF8).lstrip()
    if text.startswith((b"{", b"[")):
        return _json(path, text)
    if b"\0" in head:
        raise BadData(f"{path} is no file of metrics that can be read here. These can: {FORMATS}.")
    return _csv(path)


def is_other(path: Path) -> bool:
    """Whether a file of JSON is one of another program's metrics."""
    try:
        return read_other(path) is not None
    except OSError:
        return False  # whoever reads it says why


def slice_of(rows: Iterable[Row], scale: int) -> Slice:
    """Rows as columns; a row without a step has its place as one. Steps are in parts of one, `scale` in a step."""
    kept = [row for row in rows if row.step is None or -INT64 <= row.step * scale < INT64]
    steps = [round((place if row.step is None else row.step) * scale) for place, row in enumerate(kept)]
    columns: dict[str, tuple[list[int], list[float]]] = {}
    for place, row in enumerate(kept):
        for name, value in row.values.items():
            places, values = columns.setdefault(name, ([], []))
            places.append(place)
            values.append(value)
    arrays = {name: (np.array(places, np.int64), np.array(values)) for name, (places, values) in columns.items()}
    return Slice(np.array(steps, dtype=np.int64), np.array([row.at for row in kept], dtype=np.float64), arrays)


def _folder(path: Path) -> Runs:
    if any(path.glob("**/*tfevents*")):
        return _events(path)
    state = path / "trainer_state.json"
    if state.is_file() and (found := read_other(state)) is not None:
        return found
    raise BadData(f"The folder {path} has neither TensorBoard's event files nor a trainer_state.json.")


def _json(path: Path, head: bytes) -> Runs | None:
    """Of a file that is one value: a `log_history`, a list of rows, or a list for each metric."""
    first, more = head.partition(b"\n")[::2]
    single = _parsed(first)
    if isinstance(single, dict) and "log_history" not in single and (more.strip() or "picture" in single):
        return None
    if path.stat().st_size > _MOST_JSON_BYTES:
        return None
    with path.open("rb") as file:
        found = _parsed(file.read().removeprefix(BOM_UTF8))
    if isinstance(found, dict) and isinstance(found.get("log_history"), list):
        found = found["log_history"]
    if isinstance(found, dict) and found and all(isinstance(column, list) for column in found.values()):
        length = max(map(len, found.values()))
        found = [{name: column[n] for name, column in found.items() if n < len(column)} for n in range(length)]
    if (
        isinstance(found, dict)
        and "picture" not in found
        and any(type(value) in (int, float) for value in found.values())
    ):
        found = [found]  # such as W&B's summary
    if not isinstance(found, list) or not found or not all(isinstance(row, dict) for row in found):
        return None
    return _by_run(found)


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _csv(path: Path) -> Runs | None:
    text = _decoded(path.read_bytes())
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    try:
        rows: list[dict[str, Any]] = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise BadData(f"{path} is no table: {error}. These can be read: {FORMATS}.") from error
    if delimiter == ";":  # where a comma is the decimal point
        rows = [{name: cell.replace(",", ".") if name and cell else cell for name, cell in row.items()} for row in rows]
    if not rows:
        return None
    names = [name for name in rows[0] if name]
    alone = [name for name in names if name.lower() == "value"]  # TensorBoard's, which has the metric in its name
    if len(alone) == 1 and any(name.lower() == "step" for name in names):
        rows = [{path.stem if name in alone else name: cell for name, cell in row.items()} for row in rows]
    found = _by_run(rows)
    if not any(row.values for of in found.values() for row in of):
        raise BadData(f"{path} has no column of numbers beside steps and times. These can be read: {FORMATS}.")
    return _of_columns(found)


def _decoded(data: bytes) -> str:
    """The text of a table as Excel and others write it: UTF-16 with its mark, UTF-8, else that of Windows."""
    if data.startswith(_UTF16):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _of_columns(found: Runs) -> Runs:
    """W&B's export of a chart has a column for each run: `run - metric`, and its `__MIN` and `__MAX`."""
    names = dict.fromkeys(name for row in found.get("", ()) for name in row.values)
    pairs = {name: name.split(" - ", 1) for name in names if " - " in name}
    if not pairs or len(found) > 1 or not any(name + end in names for name in pairs for end in ("__MIN", "__MAX")):
        return found
    runs: dict[str, list[Row]] = {}
    for row in found[""]:
        for name, (run, metric) in pairs.items():
            if name in row.values and not metric.startswith("_") and not metric.endswith(("__MIN", "__MAX")):
                runs.setdefault(run, []).append(Row(row.step, row.at, {metric: row.values[name]}))
    return runs


def _parquet(path: Path) -> Runs:
    if importlib.util.find_spec("polars") is None:
        raise AppError("Parquet files need the extra `parquet`: `pip install 'trainyard[parquet]'`.")
    import polars as pl  # noqa: PLC0415 - an extra

    try:
        return _by_run(pl.read_parquet(path).iter_rows(named=True))
    except pl.exceptions.PolarsError as error:
        raise BadData(f"{path} is a damaged parquet file: {error}.") from error


def _trackio(path: Path) -> Runs:
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            found = database.execute("SELECT run_name, step, timestamp, metrics FROM metrics ORDER BY id").fetchall()
    except sqlite3.Error as error:
        raise BadData(f"{path} is a database, but none of trackio: {error}. These can be read: {FORMATS}.") from error
    rows = []
    for run, step, at, metrics in found:
        values = _parsed(metrics if isinstance(metrics, bytes) else str(metrics).encode())
        rows.append({**(values if isinstance(values, dict) else {}), "run_name": run, "step": step, "timestamp": at})
    return _by_run(rows)


def _events(path: Path) -> Runs:
    """Of the file, or of each folder within the folder that has any."""
    if importlib.util.find_spec("tensorboard") is None:
        raise AppError(
            "TensorBoard's event files need the extra `tensorboard`: `pip install 'trainyard[tensorboard]'`."
        )
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: PLC0415 - an extra
    from tensorboard.util.tensor_util import make_ndarray  # noqa: PLC0415 - as above

    places = sorted({file.parent for file in path.glob("**/*tfevents*")}) if path.is_dir() else [path]
    runs: dict[str, list[Row]] = {}
    for place in places:
        events = EventAccumulator(str(place), size_guidance={"scalars": 0, "tensors": 0})
        events.Reload()
        name = "" if len(places) == 1 else place.relative_to(path).as_posix()
        rows = runs.setdefault(name, [])
        for tag in events.Tags()["scalars"]:
            rows += [Row(one.step, one.wall_time, {tag: one.value}) for one in events.Scalars(tag)]
        for tag in events.Tags()["tensors"]:
            if events.SummaryMetadata(tag).plugin_data.plugin_name == "scalars":
                found = events.Tensors(tag)
                rows += [Row(one.step, one.wall_time, {tag: float(make_ndarray(one.tensor_proto))}) for one in found]
    return runs


def _by_run(found: Iterable[Mapping[str, Any]]) -> Runs:
    """Flat rows of any program, in the order in which they stand."""
    runs: dict[str, list[Row]] = {}
    for one in found:
        known = {name.strip().lower(): name for name in one if name}
        step = next((_number(one[known[key]]) for key in _STEP_NAMES if key in known), None)
        at = next((moment(one[known[key]]) for key in _MOMENT_NAMES if key in known), math.nan)
        run = next((one[known[key]] for key in _RUNS if key in known and isinstance(one[known[key]], str)), "")
        taken = {known[key] for key in (*_STEP_NAMES, *_MOMENT_NAMES) if key in known}
        values = {name.strip(): _number(cell) for name, cell in one.items() if name and name not in taken}
        row = Row(step, at, {name: value for name, value in values.items() if value is not None})
        runs.setdefault(run, []).append(row)
    return {run: _forward(rows) for run, rows in runs.items()}


def _forward(rows: list[Row]) -> list[Row]:
    """The rows with the oldest first; some exports have the newest first."""
    steps = [row.step if row.step is not None else row.at for row in rows]
    return rows[::-1] if len(rows) > 1 and steps[0] > steps[-1] and steps == sorted(steps, reverse=True) else rows


def _number(cell: Any) -> float | None:
    """None where it is no number; a step that is whole is one of Python's integers."""
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        return None
    try:
        found = float(cell)
    except (ValueError, OverflowError):
        return None
    return int(found) if found.is_integer() and abs(found) < INT64 else found
