"""Lines of metrics as rows by column: what `TrainingRuntime` writes, and flat objects as other programs write them.

A row is `{"step": 3, "at": 1.0, "values": {"loss": 0.5}}`, or an object whose numbers are the metrics. NaN and Infinity
are taken as Python writes them. Most lines of a file are laid out alike, so where polars is there they are cut at
commas and checked against the commonest layout, many at once; every line that differs is read by itself. There a few
more numbers are taken than JSON has, such as `+0.5`. Pure; `agent.series.tail` reads the files.
"""

import importlib.util
import math
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from agent.series.slices import Floats, Ints, Slice

STEPS: Final = ("step", "_step", "global_step", "iteration")
MOMENTS: Final = ("at", "time", "timestamp", "_timestamp")
_WORTH_BYTES: Final = 64 * 1024  # less is read as fast line by line
_LAYOUTS: Final = 8  # that are tried on what is left
_SAMPLE: Final = 5  # lines of which one has to be laid out regularly
_FEW: Final = 2000  # lines that are not worth another layout
_PIECE: Final = re.compile(rb'(\s*(?:\{\s*)?(?:"values"\s*:\s*\{\s*)?"([^"\\,]*)"\s*:\s*)([-+.\w]+)((?:\s*\})*\s*)')
INT64: Final = 2**63
_NUMBERS: Final = (float, int)  # a bool is neither
Mask = NDArray[np.bool_]
Text = bytes | bytearray


@dataclass(frozen=True, slots=True)
class Lines:
    """The rows in some lines; `malformed` of these are none and left out (blank ones are not counted).

    `fractional`: some steps lie between the whole numbers that they were rounded to.
    """

    rows: Slice
    malformed: int
    fractional: bool = False


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A number of a line: what stands around it between two commas, and what it is (a metric's name, `step`, `at`)."""

    before: bytes
    after: bytes
    kind: str
    name: str = ""


class _Rows:
    """Rows that are found in any order, by their line."""

    def __init__(self, count: int, first_line: int) -> None:
        self.steps: Ints = np.arange(first_line, first_line + count, dtype=np.int64)
        self.at: Floats = np.full(count, math.nan)
        self.known: Mask = np.zeros(count, dtype=bool)
        self._columns: dict[str, list[tuple[Ints, Floats]]] = {}

    def add(self, places: Ints, name: str, values: Floats) -> None:
        self._columns.setdefault(name, []).append((places, values))

    def slice(self) -> Slice:
        """Those of known lines."""
        number = np.cumsum(self.known) - 1
        columns = {}
        for name, parts in self._columns.items():
            places = np.concatenate([places for places, _ in parts])
            values = np.concatenate([values for _, values in parts])
            if len(parts) > 1:
                order = np.argsort(places, kind="stable")
                places, values = places[order], values[order]
            columns[name] = number[places], values
        if self.known.all():
            return Slice(self.steps, self.at, columns)
        return Slice(self.steps[self.known], self.at[self.known], columns)


def read(data: Text, first_line: int = 0, scale: int = 1) -> Lines:
    """Whole lines; `first_line` is the number of the first one, which is the step of a row that has none.

    A step comes back as so many whole parts of one, `scale` in a step.
    """
    if first_line == 0 and data.startswith(BOM_UTF8):
        data = data[len(BOM_UTF8) :]
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
    if data and not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    begins = np.append(0, ends[:-1] + 1)[: len(ends)]
    rows = _Rows(len(ends), first_line)
    left = np.arange(len(ends))
    if len(data) >= _WORTH_BYTES and importlib.util.find_spec("polars") is not None:
        left = _alike(data, begins, ends, rows)
    rows.steps *= scale
    malformed, fractional = 0, False
    single: dict[str, tuple[list[int], list[float]]] = {}
    for place, begin, end in zip(left.tolist(), begins[left].tolist(), ends[left].tolist(), strict=True):
        line = data[begin:end]
        row = _row(line)
        if row is None or (row[0] is not None and not -INT64 <= row[0] * scale < INT64):
            malformed += bool(line.strip())
            continue
        step, at, values = row
        rows.known[place], rows.at[place] = True, at
        if step is not None:
            fractional |= isinstance(step, float)
            rows.steps[place] = round(step * scale)
        for name, value in values.items():
            places, numbers = single.setdefault(name, ([], []))
            places.append(place)
            numbers.append(value)
    for name, (places, numbers) in single.items():
        rows.add(np.array(places, dtype=np.int64), name, np.array(numbers, dtype=np.float64))
    return Lines(rows.slice(), malformed, fractional)


def _row(line: Text) -> tuple[float | None, float, dict[str, float]] | None:
    """Step (a float where it is no whole number), moment and values; None where the line is no row."""
    try:
        found = from_json(line)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    step = next((found[key] for key in STEPS if key in found), None)
    if isinstance(step, float) and step.is_integer():
        step = int(step)
    if step is not None and not (_is_number(step) and -INT64 <= step < INT64):
        return None
    at = next((at for key in MOMENTS if not math.isnan(at := moment(found.get(key)))), math.nan)
    named: Any = found.get("values")
    values = named if isinstance(named, dict) else {key: found[key] for key in found if key not in (*STEPS, *MOMENTS)}
    return (
        step,
        at,
        {
            name: value if type(value) is float else _float(value)
            for name, value in values.items()
            if type(value) in _NUMBERS
        },
    )


def moment(value: Any) -> float:
    """Seconds since the epoch, of a number or a text as in ISO 8601 (UTC if unsaid); NaN of anything else."""
    if _is_number(value):
        return _float(value)
    if not isinstance(value, str | datetime):
        return math.nan
    try:
        return float(value) if isinstance(value, str) else _utc(value).timestamp()
    except (ValueError, OverflowError):
        pass
    try:
        return _utc(datetime.fromisoformat(str(value))).timestamp()
    except (ValueError, OverflowError):
        return math.nan


def _utc(value: datetime) -> datetime:
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _is_number(value: Any) -> bool:
    return type(value) in _NUMBERS


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _alike(data: Text, begins: Ints, ends: Ints, rows: _Rows) -> Ints:
    """Take the lines that are laid out as one of a few layouts; the places of the others.

    `begins` and `ends` are where lines do so in `data`.
    """
    left, lines = np.arange(len(ends)), data
    for _ in range(_LAYOUTS):
        layout = _layout(lines)
        good = _matching(lines, ends[left] - begins[left], layout, left, rows) if layout else None
        if good is None or not good.any():
            break
        left = left[~good]
        if len(left) < _FEW:
            break
        pieces = zip(begins[left].tolist(), ends[left].tolist(), strict=True)
        lines = b"\n".join([data[begin:end] for begin, end in pieces])
    return left


def _layout(data: Text) -> Sequence[_Leaf] | None:
    """The commonest one among the first lines; None where none of these is regular."""
    lines = data[: _SAMPLE * 4096].split(b"\n", _SAMPLE)[:_SAMPLE]
    found = Counter(layout for line in lines if (layout := _layout_of(line)) is not None)
    return found.most_common(1)[0][0] if found else None


def _layout_of(line: Text) -> tuple[_Leaf, ...] | None:
    """Of a line that is all numbers, each under a plain name of its own."""
    row, pieces = _row(line), [_PIECE.fullmatch(piece) for piece in line.split(b",")]
    if row is None or None in pieces:
        return None
    found = [piece.groups() for piece in pieces if piece is not None]
    names = [name.decode(errors="replace") for _, name, _, _ in found]
    nested = next((n for n, (before, *_) in enumerate(found) if b'"values"' in before), None)
    leaves = []
    for n, (name, (before, _, _, after)) in enumerate(zip(names, found, strict=True)):
        inside = nested is not None and _is_inside(found, nested, n)
        leaves.append(_Leaf(before, after, *_meaning(name, inside=inside, nested=nested)))
    kinds = [leaf.kind for leaf in leaves]
    values = {leaf.name for leaf in leaves if leaf.kind == "value"}
    plain = len(set(names)) == len(names) and max(map(kinds.count, ("step", "at"))) <= 1 and values == row[2].keys()
    return tuple(leaves) if plain else None


def _is_inside(found: Sequence[tuple[bytes, ...]], nested: int, place: int) -> bool:
    """Whether a piece belongs to the object `values`, which begins at the piece `nested`."""
    closed = next((n for n in range(nested, len(found)) if b"}" in found[n][3]), len(found))
    return nested <= place <= closed


def _meaning(name: str, *, inside: bool, nested: int | None) -> tuple[str, str]:
    if inside or (nested is None and name not in (*STEPS, *MOMENTS)):
        return "value", name
    return ("step" if name in STEPS else "at" if name in MOMENTS else ""), ""


def _matching(data: Text, lengths: Ints, layout: Sequence[_Leaf], places: Ints, rows: _Rows) -> Mask | None:
    """Which of the lines are laid out so, after their numbers were taken; None where polars counts other lines.

    `lengths` are the lines' bytes without their ends.
    """
    import polars as pl  # noqa: PLC0415 - an extra, and slow to import

    head, schema, query, checks = _query(layout)
    try:
        frame = (
            pl.scan_csv(b"".join((head, data)), quote_char=None, schema=schema, truncate_ragged_lines=True)
            .select(query)
            .with_columns(checks)
            .collect()
        )
    except pl.exceptions.PolarsError:  # not UTF-8, for one
        return None
    if frame.height != len(places):
        return None
    mask: Mask = frame["good"].to_numpy() & (frame["length"].to_numpy() == lengths)
    numbers = [frame[f"c{n}"].to_numpy() for n in range(len(layout))]
    if not mask.all():
        places, numbers = places[mask], [values[mask] for values in numbers]
    _take(rows, places, layout, numbers)
    return mask


@lru_cache(maxsize=_LAYOUTS)
def _query(layout: Sequence[_Leaf]) -> tuple[bytes, dict[str, Any], list[Any], list[Any]]:
    """Of a layout: the first line and the columns of its table, what to take from that, what to make of this."""
    import polars as pl  # noqa: PLC0415 - as above

    names = [f"c{n}" for n in range(len(layout))]
    head = ",".join([*names, "more"]) + "\n"  # says how many columns there are, and that this is no compressed file
    leaves = list(zip(map(pl.col, names), layout, strict=True))
    good = pl.all_horizontal(*(_is_around(column, leaf) for column, leaf in leaves))
    length = pl.sum_horizontal(pl.all().str.len_bytes()) + (len(layout) - 1)  # with the commas
    query = [*(_number(column, leaf) for column, leaf in leaves), good.alias("good"), length.alias("length")]
    whole = pl.col("good").fill_null(value=False) & pl.all_horizontal(pl.col(names).is_not_null())
    return head.encode(), dict.fromkeys([*names, "more"], pl.String), query, [whole, pl.col(names).fill_null(0)]


def _number(text: Any, leaf: _Leaf) -> Any:
    """What stands between the fixed parts of a piece; null where that is no number."""
    import polars as pl  # noqa: PLC0415 - as above

    found = text.str.slice(len(leaf.before.decode()))
    found = found.str.head(-len(leaf.after.decode())) if leaf.after else found
    return found.cast(pl.Int64 if leaf.kind == "step" else pl.Float64, strict=False)


def _is_around(text: Any, leaf: _Leaf) -> Any:
    """Whether the fixed parts stand around what `_number` takes."""
    begins = text.str.starts_with(leaf.before.decode())
    return begins & text.str.ends_with(leaf.after.decode()) if leaf.after else begins


def _take(rows: _Rows, places: Ints, layout: Sequence[_Leaf], numbers: Sequence[Any]) -> None:
    rows.known[places] = True
    for leaf, values in zip(layout, numbers, strict=True):
        if leaf.kind == "step":
            rows.steps[places] = values
        elif leaf.kind == "at":
            rows.at[places] = values
        elif leaf.kind == "value":
            rows.add(places, leaf.name, values)
