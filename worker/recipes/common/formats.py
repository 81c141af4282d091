"""Tables out of files that are no delimited text: JSON, JSON lines, Parquet, Excel, token files and plain text.

A file is judged by its content, its name decides only where the content leaves it open. Copied beside a finished model
with `table`, which reads delimited text; the libraries for Parquet and Excel are imported only for such a file.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import random
import re
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker.recipes.common.margins import joined_header, titles_above
from worker.recipes.common.token_files import NoToken, read_tokens

_DEEPEST = 4
_BATCH_ROWS = 10_000
_JSON_CHARS = 250_000_000  # of a list; its objects take ten times as much memory
_FOLDED_BYTES = 20  # times as much in memory as in an Excel file, at most
_TEXT_HEADERS = frozenset({"text", "texts", "sentence", "sentences", "document"})


class BadData(Exception):
    """The file cannot be used; the message is a sentence for people."""


@dataclass(frozen=True)
class Cells:
    """Names of columns, rows of cells, the line or number of each row, what the file is, and what to say about it.

    `drawn_from` is how many rows the file has, where these were drawn from them.
    """

    names: list[str]
    rows: list[list[str]]
    lines: list[int]
    form: str
    warnings: list[str]
    drawn_from: int = 0


def draw(rows: int, width: int, most_cells: int) -> Callable[[], bool] | None:
    """What says of each row in turn whether it is kept, so that about `most_cells` of `rows` x `width` cells are.

    None: all are, as they are also where `most_cells` is 0. It draws at random, the same rows each time.
    """
    share = most_cells / max(1, rows * width)
    if not most_cells or share >= 1:
        return None
    dice = random.Random(rows)
    return lambda: dice.random() < share


def drawn_words(kept: int, rows: int) -> list[str]:
    """The sentence on rows that were drawn; none where all were kept."""
    if kept == rows:
        return []
    return [f"Of the {rows:,} rows {kept:,} are read, drawn at random, because all of them are too many at once."]


def of_bytes(data: bytes, name: str, limit_bytes: int, most_cells: int = 0) -> Cells | None:
    """The cells of a Parquet or Excel file, None for anything else. Raises: BadData."""
    if data.startswith(b"PAR1"):
        return _parquet(data, name, limit_bytes, most_cells)
    if data.startswith(b"PK\x03\x04") and b"xl/" in data[-200_000:]:
        return _excel(data, name, limit_bytes)
    return None


def of_text(text: str, name: str, *, delimited: bool, most_cells: int = 0) -> Cells | None:
    """The cells of JSON, JSON lines, a token file or plain text; None for a delimited table. Raises: BadData.

    `delimited` says that most lines have as many cells as the first one.
    """
    start = text.lstrip()[:1]
    ending = Path(name).suffix.lower()
    if start in {"{", "["} and (ending in {".json", ".jsonl", ".ndjson"} or _opens_json(text)):
        return _json(text, name, most_cells)
    if ending in {".json", ".jsonl", ".ndjson"}:
        raise BadData(f"{name} is named like JSON, but begins with “{text.lstrip()[:20]}”.")
    tokens = _tokens(text)
    if tokens is not None:
        return tokens
    if (
        ending in {".txt", ".md"}
        and not (delimited and "\n" in text.strip())
        and text.lstrip().split("\n", 1)[0].strip().lower() not in _TEXT_HEADERS
    ):
        kept = [(number, line.strip()) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
        return Cells(["text"], [[line] for _, line in kept], [number for number, _ in kept], "plain text", [])
    return None


def _opens_json(text: str) -> bool:
    """Whether the first line, or the whole, begins as JSON does."""
    return bool(re.match(r'\s*(\{\s*"|\{\s*\}|\[\s*[\[{"\]\d-])', text))


def _json(text: str, name: str, most_cells: int) -> Cells:
    if len(text) > _JSON_CHARS and text.startswith("["):
        raise BadData(
            f"{name} is a JSON list of {len(text) / 1e6:,.0f} MB, which has to be read at once; up to "
            f"{_JSON_CHARS / 1e6:,.0f} MB are. Send it as JSON lines, csv or Parquet."
        )
    try:
        whole = json.loads(text)
    except json.JSONDecodeError as error:
        if text.lstrip().startswith("{") and "\n" in text.strip():
            return _json_lines(text, name, most_cells)
        raise BadData(f"{name} is no valid JSON: line {error.lineno}, column {error.colno}: {error.msg}.") from error
    if isinstance(whole, dict):
        whole = _rows_of(whole)
    if not isinstance(whole, list):
        raise BadData(f'{name} holds one value. A table is a list of objects: [{{"column": "value"}}, …].')
    keeps = draw(len(whole), _width(whole[0] if whole else None), most_cells)
    kept = [(number, row) for number, row in enumerate(whole, start=1) if keeps is None or keeps()]
    return _objects(kept, name, "JSON", "item", rows=len(whole))


def _rows_of(whole: dict[str, Any]) -> list[Any]:
    """The rows that an object holds: a list of objects, columns of one length, or what pandas writes; else itself."""
    lists = [value for value in whole.values() if isinstance(value, list)]
    objects = [rows for rows in lists if rows and all(isinstance(row, dict) for row in rows)]
    if {"columns", "data"} <= set(whole) and all(isinstance(row, list) for row in whole["data"]):
        return [dict(zip(whole["columns"], row, strict=False)) for row in whole["data"]]
    if len(lists) == len(whole) > 1 and len({len(column) for column in lists}) == 1:
        return [dict(zip(whole, row, strict=True)) for row in zip(*lists, strict=True)]
    if len(objects) == 1:
        return list(objects[0])  # {"data": [{…}, …], "count": …}
    if len(whole) == len(lists) == 1:
        return [{name: cell} for name, cells in whole.items() for cell in cells]
    by_key = _by_key(whole)
    return [whole] if by_key is None else by_key


def _width(row: Any) -> int:
    """How many columns the first row has."""
    return len(_flat(row)) if isinstance(row, dict) else 1


def _by_key(whole: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The rows of an object of columns, each from key to cell, as pandas writes one; None for another object."""
    columns = list(whole.values())
    if not all(isinstance(column, dict) and len(column) > 1 for column in columns):
        return None
    keys = list(columns[0])
    if not keys or any(list(column) != keys for column in columns[1:]):
        return None
    if not all(key.isdigit() for key in keys):  # rows by their names
        return [{"name": name, **row} for name, row in whole.items()] if len(whole) > len(keys) else None
    return [{name: column[key] for name, column in whole.items()} for key in keys]


def _flat(row: dict[str, Any], before: str = "", depth: int = 0) -> dict[str, Any]:
    """Objects within a row as columns of their own: {"person": {"age": 30}} has the column person.age."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict) and value and depth < _DEEPEST:
            found |= _flat(value, f"{before}{key}.", depth + 1)
        else:
            found[f"{before}{key}"] = value
    return found


def _json_lines(text: str, name: str, most_cells: int) -> Cells:
    found: list[tuple[int, Any]] = []
    rows, keeps = 0, None
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise BadData(f"{name}, line {number}: no valid JSON at column {error.colno}: {error.msg}.") from error
        keeps = keeps if rows else draw(text.count("\n"), _width(row), most_cells)
        rows += 1
        if keeps is None or keeps():
            found.append((number, row))
    return _objects(found, name, "JSON lines", "line", rows=rows)


def _objects(found: Sequence[tuple[int, Any]], name: str, form: str, what: str, *, rows: int) -> Cells:
    odd = next((number for number, row in found if not isinstance(row, dict)), None)
    if odd is not None:
        raise BadData(f'{name}, {what} {odd}: each row must be an object: {{"column": "value"}}.')
    found = [(number, _flat(row)) for number, row in found]
    names = list(dict.fromkeys(key for _, row in found for key in row))
    if not names:
        raise BadData(f"{name} has no columns.")
    cells = [[_cell(row.get(column)) for column in names] for _, row in found]
    said, drawn_from = drawn_words(len(found), rows), rows if len(found) < rows else 0
    return Cells([str(column) for column in names], cells, [number for number, _ in found], form, said, drawn_from)


def _parquet(data: bytes, name: str, limit_bytes: int, most_cells: int) -> Cells:
    from pyarrow import ArrowException, Table, parquet

    try:
        file = parquet.ParquetFile(io.BytesIO(data))
        batches, size, lines, seen = [], 0, list[int](), 1
        rows = file.metadata.num_rows
        keeps = draw(rows, len(file.schema_arrow), most_cells)
        for batch in file.iter_batches(_BATCH_ROWS):
            kept = [row for row in range(batch.num_rows) if keeps is None or keeps()]
            batches.append(batch if keeps is None else batch.take(kept))
            lines += [seen + row for row in kept]
            seen += batch.num_rows
            size += batches[-1].nbytes
            _check_size(name, size, limit_bytes)
        table = Table.from_batches(batches, file.schema_arrow)
    except (ArrowException, OSError, ValueError) as error:
        raise BadData(f"{name} is a Parquet file that cannot be read: {error}.") from error
    odd = [field.name for field in table.schema if "binary" in str(field.type)]
    if odd:
        raise BadData(f"{name}: the column “{odd[0]}” holds bytes, such as images. Send images as a zip archive.")
    columns = [[_cell(value) for value in column.to_pylist()] for column in table.columns]
    cells = [list(row) for row in zip(*columns, strict=True)]
    said, drawn_from = drawn_words(len(lines), rows), rows if len(lines) < rows else 0
    return Cells([str(column) for column in table.column_names], cells, lines, "Parquet", said, drawn_from)


def _excel(data: bytes, name: str, limit_bytes: int) -> Cells:
    from openpyxl import load_workbook

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(part.file_size for part in archive.infolist())
        _check_size(name, size, min(limit_bytes, max(len(data) * _FOLDED_BYTES, 50_000_000)))
        book = load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        sheets = [(sheet.title, _filled(sheet.iter_rows(values_only=True))) for sheet in book.worksheets]
    except BadData:
        raise
    except Exception as error:  # openpyxl raises whatever a broken part of the file makes it stumble over
        raise BadData(f"{name} is an Excel workbook that cannot be read: {error}.") from error
    full = [(title, rows) for title, rows in sheets if rows]
    if not full:
        raise BadData(f"{name} is empty: no sheet has cells.")
    title, rows = max(full, key=lambda sheet: sum(len(row) for _, row in sheet[1]))
    wide = max(len(row) for _, row in rows)
    above = titles_above([row for _, row in rows])
    rows = rows[above:]
    cells = [row + [""] * (wide - len(row)) for _, row in rows]
    others = ", ".join(f"“{other}”" for other, _ in full if other != title)
    warnings = [f"The header is row {rows[0][0]}; what stands above it was left out."] if above else []
    warnings += [f"Only the sheet “{title}” was read; the file has {others} too."] if others else []
    names, begin = cells[0], 1
    joined = joined_header(cells)
    if joined:
        names, begin = joined, 2
        warnings.append(f"The header is two rows, {rows[0][0]} and {rows[1][0]}, read as one: “{names[0]}” and so on.")
    return Cells(names, cells[begin:], [number for number, _ in rows[begin:]], "Excel", warnings)


def _filled(rows: Iterable[Sequence[Any]]) -> list[tuple[int, list[str]]]:
    """The rows that hold something, with their numbers, without empty cells at their ends."""
    found = []
    for number, row in enumerate(rows, start=1):
        cells = [_cell(value) for value in row]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            found.append((number, cells))
    return found


def _tokens(text: str) -> Cells | None:
    """The tokens of a CoNLL file with their tags; None for another one."""
    try:
        found = read_tokens(text)
    except NoToken as error:
        raise BadData(
            f"Line {error.line}: a token file has a token and its tag on each line, such as “Paris B-LOC”."
        ) from None
    if found is None:
        return None
    rows = [[str(sentence), token, tag] for _, sentence, token, tag in found]
    return Cells(["sentence", "token", "tag"], rows, [line for line, *_ in found], "token file", [])


def _check_size(name: str, size_bytes: int, limit_bytes: int) -> None:
    if size_bytes > limit_bytes:
        raise BadData(
            f"{name} unpacks to more than {limit_bytes / 1e6:,.3g} MB, which is the limit. Send a part of it."
        )


def _cell(value: Any) -> str:
    """A value as a csv file would hold it."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, dt.datetime):
        return value.date().isoformat() if value.time() == dt.time() and value.tzinfo is None else value.isoformat(" ")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
