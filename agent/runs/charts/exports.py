"""Metrics as files: slices of rows in, csv or parquet out, with every number as it was logged.

Writes one file at a time and holds one slice of it. Knows no store and no chat; called in threads by
`agent.tools.runs.exporting`. Parquet needs polars, which the extra `parquet` brings.
"""

import csv
import gzip
import importlib.util
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from agent.domain.errors import BadRequest
from agent.series.slices import Slice

Numbered = tuple[int, Slice]  # an attempt and some of its rows
KEYS = ("attempt", "step", "at")  # columns before those of the metrics
_COPY_BYTES = 1 << 20


def csv_head(names: Sequence[str]) -> bytes:
    """The line of column names; metrics behind the keys."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow((*KEYS, *columns(names)))
    return text.getvalue().encode()


def csv_lines(attempt: int, rows: Slice, names: Sequence[str]) -> bytes:
    """Rows as lines: `repr` of each number, `nan` and `inf` as such, empty where a row has no value."""
    cells: list[Iterable[str]] = [
        [str(attempt)] * len(rows),
        map(str, rows.steps.tolist()),
        map(repr, rows.at.tolist()),
    ]
    cells += [["" if value is None else repr(value) for value in rows.filled(name, None)] for name in names]
    return "".join(",".join(line) + "\n" for line in zip(*cells, strict=True)).encode()


def columns(names: Sequence[str]) -> list[str]:
    """Names of columns, each once: a metric that is called as a key is, or as another, gets a number behind it."""
    taken = set(KEYS)
    found: list[str] = []
    for name in names:
        number, said = 2, name
        while said in taken:
            said, number = f"{name}_{number}", number + 1
        taken.add(said)
        found.append(said)
    return found


def need_polars() -> None:
    """Raises `BadRequest` where polars is not installed."""
    if importlib.util.find_spec("polars") is None:
        raise BadRequest(
            "Parquet needs polars where the bot runs: `pip install 'trainyard[parquet]'`. csv needs nothing."
        )


def write_parquet(path: Path, slices: Iterator[Numbered], names: Sequence[str]) -> None:
    """All slices as one file with zstd; no value is null, NaN is NaN. Slices are taken one by one, and few are kept."""
    import polars as pl  # noqa: PLC0415 - an extra, and slow to import
    from polars.io.plugins import register_io_source  # noqa: PLC0415

    named = dict(zip(columns(names), names, strict=True))
    schema = pl.Schema({"attempt": pl.Int64, "step": pl.Int64, "at": pl.Float64} | dict.fromkeys(named, pl.Float64))

    def frames(*_: object) -> Iterator[pl.DataFrame]:
        for attempt, rows in slices:
            keys = {"attempt": [attempt] * len(rows), "step": rows.steps, "at": rows.at}
            values = {said: rows.filled(name, None) for said, name in named.items()}
            yield pl.DataFrame(keys | values, schema=schema)

    register_io_source(frames, schema=schema).sink_parquet(path, compression="zstd")


def squeeze(path: Path, alive: Callable[[], None]) -> Path:
    """Replace the file by a gzipped one beside it. Equal files give equal bytes.

    `alive` is called between chunks; what it raises ends the work.
    """
    squeezed = path.with_name(path.name + ".gz")
    with (
        path.open("rb") as source,
        squeezed.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=5, mtime=0) as target,
    ):
        while piece := source.read(_COPY_BYTES):
            alive()
            target.write(piece)
    path.unlink()
    return squeezed
