"""Read a data file as a table of cells, write delimited text, and say in one sentence what is wrong with a file.

Delimited text is read here, everything else by `formats`. Both are also copied beside a finished model, so that
`predict.py` reads a file exactly as training did. They know cells, not their meaning.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import re
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from worker.recipes.common.formats import BadData as BadData
from worker.recipes.common.formats import Cells, draw, drawn_words, of_bytes, of_text
from worker.recipes.common.images import is_image, of_archive, of_image
from worker.recipes.common.margins import Record, is_data, titles_above, total_below, without_footer
from worker.recipes.common.numerals import counted, plain_numbers

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
MISSING = frozenset({"", "?", "na", "n/a", "nan", "null", "<na>", "#n/a"})
LIMIT_BYTES = 1_000_000_000
MOST_CELLS = 20_000_000  # that a training reads; a table takes 1.3 GB to split and 2.6 GB to train then, measured
_CELL_CHARS = 16_000_000
_SAMPLE_CHARS = 200_000
_SENTENCES = 5
_BLOCK_ROWS = 10_000
_FIRST_ROWS = 200
_MOST_PAIRED = 3  # columns of a file of pairs, the third of which may name the source
_FEW_LETTERS = 3
_MOST_KNOWN = 20_000
_WRITTEN_BY_PEOPLE = frozenset({"Excel", "JSON", "JSON lines"})
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
_DECLARED = re.compile(r"sep=([,;\t|])\s*\n", re.IGNORECASE)  # as Excel reads and writes it
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"%PDF", "a PDF document"),
    (b"BZh", "a bzip2 archive"), (b"\xfd7zXZ", "an xz archive"),
    (b"7z\xbc\xaf", "a 7-Zip archive"), (b"Rar!", "a RAR archive"),
    (b"\xd0\xcf\x11\xe0", "an old Excel or Word file"), (b"SQLite format 3", "an SQLite database"),
    (b"\x80\x04\x95", "a Python pickle"), (b"\x93NUMPY", "a numpy array"),
)  # fmt: skip


@dataclass(frozen=True)
class Table:
    """Cells as they stand in the file, column by column.

    `lines` holds the line on which each row starts, or its number in a file without lines. `form` is what the file is,
    where it is no delimited text. `drawn_from` is how many rows the file has, where these were drawn from them, else 0.
    `known` keeps what was found out about a column, so that it is found out once.
    """

    names: list[str]
    columns: dict[str, list[str]]
    lines: list[int]
    encoding: str
    delimiter: str
    warnings: list[str] = field(default_factory=list)
    form: str = ""
    drawn_from: int = 0
    known: dict[tuple[str, str], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def rows(self) -> int:
        return len(self.lines)


def read_table(
    path: Path, *, name: str = "", limit_bytes: int = LIMIT_BYTES, delimiter: str = "", most_cells: int = 0
) -> Table:
    """Read a data file: delimited text with a header, JSON, JSON lines, Parquet, Excel, a token file,
    plain text, an image, or a zip archive of images.

    What it is, its encoding and, if not given, its delimiter are found out. Of a table with more than about
    `most_cells` cells, if that is not 0, rows are drawn at random, which a warning says.

    Raises: BadData with a sentence that names the line, the byte or the file type.
    """
    name = name or path.name
    size = path.stat().st_size
    if size > limit_bytes:
        raise BadData(f"{name} has {_size(size)}; the limit is {_size(limit_bytes)}. Send a part of it, or raise it.")
    with path.open("rb") as file:
        head = file.read(16)
    if is_image(head):
        return _table_of(of_image(path, name), "", name)
    if head.startswith(b"PK\x03\x04") and not _is_office(path):
        return _table_of(of_archive(path, name, limit_bytes, partial(_cells_of, most_cells=most_cells)), "", name)
    data, name = _content(path, name, limit_bytes)
    other = of_bytes(data, name, limit_bytes, most_cells)
    if other is not None:
        return _table_of(other, "", name)
    refuse_other_formats(data, name)
    text, encoding, warnings = decode(data, name)
    if text.isspace():
        raise BadData(f"{name} is empty.")
    given, columns_seen = bool(delimiter), 0
    if not given:
        delimiter, columns_seen = find_delimiter(text)
        other = of_text(text, name, delimited=columns_seen > 1, most_cells=most_cells)
        if other is not None:
            return _table_of(other, encoding, name, warnings)
    lines_there = text.count("\n")
    del text  # as large as the file again
    records = _records(data, encoding, delimiter, name)
    header, records = (
        (next(records)[1], records) if given else _below_titles(records, columns_seen, delimiter, warnings)
    )
    names = _header(header, name, warnings)
    columns, lines, rows = _columns(names, records, name, draw(lines_there, len(names), most_cells))
    if not lines:
        raise BadData(f"{name} has a header ({_some(names)}) but no rows.")
    drawn_from = rows if len(lines) < rows else 0
    warnings += drawn_words(len(lines), rows)
    table = Table(names, columns, lines, encoding, delimiter, warnings, drawn_from=drawn_from)
    return table if given else _as_meant(table)


def _content(path: Path, name: str, limit_bytes: int) -> tuple[bytes, str]:
    """The bytes of a file, unpacked where it is packed, and what it is called then. Raises: BadData."""
    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        data, name = _unzipped(data, name, limit_bytes), name.removesuffix(".gz")
    if not data or data.isspace():
        raise BadData(f"{name} is empty.")
    return data, name


def _unzipped(data: bytes, name: str, limit_bytes: int) -> bytes:
    """What a gzip file holds. Raises: BadData."""
    try:
        with gzip.open(io.BytesIO(data)) as file:
            found = file.read(limit_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise BadData(f"{name} is a gzip file that cannot be unpacked: {error}.") from error
    if len(found) > limit_bytes:
        raise BadData(f"{name} unpacks to more than {_size(limit_bytes)}, which is the limit. Send a part of it.")
    if found[257:262] == b"ustar":
        raise BadData(f"{name} is a tar archive. Send a zip archive, or the file itself.")
    return found


def _below_titles(
    records: Iterator[Record], width: int, delimiter: str, warnings: list[str]
) -> tuple[list[str], Iterator[Record]]:
    """The header and the rows of a table of `width` columns, without what stands above and below it."""
    first = list(itertools.islice(records, _FIRST_ROWS))
    above = titles_above([record for _, record in first]) if width > 1 else 0
    line, header = first[above]
    pairs = delimiter == "\t" and width <= _MOST_PAIRED
    if width > 1 and is_data(header, [record for _, record in first[above + 1 :]], pairs=pairs):
        header = [f"column_{at}" for at in range(1, len(header) + 1)]
        warnings.append(
            f"Line {line} looks like a row and names no columns; they are called {_some(header, 3)} here. Add a header "
            "line to name them."
        )
        above -= 1
    elif above:
        warnings.append(f"The header is line {line}; what stands above it was left out.")
    rows = itertools.chain(first[above + 1 :], records)
    return header, without_footer(rows, warnings) if width > 1 else rows


def _as_meant(table: Table) -> Table:
    """What people wrote as a table of rows and plain numbers."""
    word = total_below(table.columns)
    if not word:
        return _with_plain_numbers(table)
    said = f"The last row (line {table.lines[-1]}) begins with “{word}”; it was left out as a sum of the others."
    columns = {name: cells[:-1] for name, cells in table.columns.items()}
    return _with_plain_numbers(
        replace(table, columns=columns, lines=table.lines[:-1], warnings=[*table.warnings, said])
    )


def _with_plain_numbers(table: Table) -> Table:
    """The table with its numbers as we write them, and a sentence on each column that was otherwise."""
    rewritten, said = plain_numbers(table.columns, MISSING, delimiter=table.delimiter)
    if not rewritten:
        return table
    more = len(said) - _SENTENCES
    said = [
        *said[:_SENTENCES],
        *([f"{counted(more, 'more column is', 'more columns are')} read likewise."] if more > 0 else []),
    ]
    return replace(table, columns={**table.columns, **rewritten}, warnings=[*table.warnings, *said])


def _is_office(path: Path) -> bool:
    """Whether a zip archive is a workbook or a document of Office."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.startswith(("[Content_Types]", "xl/", "word/")) for name in archive.namelist())
    except zipfile.BadZipFile:
        return False


def _cells_of(data: bytes, name: str, *, most_cells: int) -> Cells:
    """The cells of a table that lies in an archive."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        table = read_table(Path(file.name), name=name, most_cells=most_cells)
    rows = [list(row) for row in zip(*table.columns.values(), strict=True)]
    return Cells(table.names, rows, table.lines, table.form, table.warnings, table.drawn_from)


def _table_of(cells: Cells, encoding: str, name: str, warnings: Sequence[str] = ()) -> Table:
    said = [*warnings, *cells.warnings]
    names = _header(cells.names, name, said)
    if not cells.rows:
        raise BadData(f"{name} has columns ({_some(names)}) but no rows.")
    columns = {column: [row[at] for row in cells.rows] for at, column in enumerate(names)}
    table = Table(names, columns, cells.lines, encoding, "", said, cells.form, cells.drawn_from)
    return _as_meant(table) if cells.form in _WRITTEN_BY_PEOPLE else table


def refuse_other_formats(data: bytes, name: str) -> None:
    """Raises: BadData saying what the file really is, judged by its first bytes."""
    found = next((what for magic, what in _MAGIC if data.startswith(magic)), None)
    if data.startswith(b"PK\x03\x04"):
        found = "a Word document (docx)" if b"word/" in data[:200_000] else "a zip archive"
    start = data[:2000].lstrip(codecs.BOM_UTF8).lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        found = "a web page (HTML); perhaps a login page was downloaded in its place"
    elif start.startswith((b"<?xml", b"<svg")):
        found = "an XML file"
    if found:
        raise BadData(f"{name} is {found}, not a table. Send it as csv, json, jsonl, parquet or xlsx.")


def decode(data: bytes, name: str) -> tuple[str, str, list[str]]:
    """The text, the encoding's name and warnings. UTF-8 and UTF-16 are certain, others a guess with a warning."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _decoded(data, "utf-16", name), "utf-16", []
    if data.startswith(codecs.BOM_UTF8):
        return _decoded(data, "utf-8-sig", name), "utf-8-sig", []
    if b"\x00" in data:
        at = data.index(b"\x00")
        raise BadData(f"{name} is not text: byte {at} (line {_line(data, at)}) is zero. {_ADVICE}")
    try:
        return data.decode("utf-8"), "utf-8", []
    except UnicodeDecodeError as error:
        where = f"byte {error.start} (line {_line(data, error.start)})"
        text, encoding = _guessed(data)
        if text is None:
            raise BadData(f"{name} is not UTF-8: {where} is 0x{data[error.start]:02x}. {_ADVICE}") from error
        at = len(data[: error.start].decode(encoding, "ignore"))
        around = text[max(0, at - 15) : at + 15].replace("\n", " ").strip()
    kind = "Windows text" if encoding == "cp1252" else "text of another encoding"
    warning = f"The file is not UTF-8 ({where}); it was read as {kind} ({encoding}), e.g. “{around}”. {_ADVICE}"
    return text, encoding, [warning]


def _guessed(data: bytes) -> tuple[str | None, str]:
    """The text in the encoding that it most likely has, by its letters; None where none is likely."""
    high = {byte for byte in data[:_SAMPLE_CHARS] if byte > 127}
    encoding = _likely(data) if len(high) >= _FEW_LETTERS else "cp1252"
    if encoding == "cp1252":
        return _windows_text(data), encoding
    try:
        return data.decode(encoding), encoding
    except UnicodeDecodeError:
        return None, encoding


def _likely(data: bytes) -> str:
    """An encoding by how plausible its letters are; cp1252 where that tells nothing, or without charset-normalizer."""
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return "cp1252"
    sample = data[:_SAMPLE_CHARS]
    best = from_bytes(sample[: sample.rfind(b"\n") + 1] or sample, cp_isolation=[*_BY_LETTER, *_BY_PAIR]).best()
    if best is None or "cp1252" in best.could_be_from_charset or best.chaos > _CHAOS:
        return "cp1252"
    return str(best.encoding) if best.coherence or best.encoding in _BY_PAIR else "cp1252"


_BY_LETTER = ("cp1252", "cp1251", "cp1250", "cp1253", "cp1254", "cp1255", "cp1256")
_BY_PAIR = ("cp932", "euc_jp", "gb18030", "big5", "cp949")
_CHAOS = 0.2
_ADVICE = "Re-save it as UTF-8 (in Excel: “CSV UTF-8”)."


def _decoded(data: bytes, encoding: str, name: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        where = f"byte {error.start} (line {_line(data, error.start)})"
        raise BadData(f"{name} starts as {encoding} but {where} does not fit. {_ADVICE}") from error


def _windows_text(data: bytes) -> str | None:
    """The bytes as cp1252 if that gives plausible prose: no control characters, mostly letters among the high bytes."""
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return None
    high = [char for char in text[:1_000_000] if ord(char) > 127]
    control = sum(char < " " and char not in "\t\r\n\f" for char in text[:1_000_000])
    fitting = sum(char.isalpha() or char in "–—‘’“”€£§°«»…·²³½¼®©™ß\xa0" for char in high)
    plausible = control == 0 and fitting >= 0.8 * len(high) and len(high) < 0.3 * min(len(text), 1_000_000)
    return text if plausible else None


def find_delimiter(text: str) -> tuple[str, int]:
    """The delimiter under which the most of the first rows have as many cells as the header, and how many columns.

    A comma and 1 column where none parts the rows.
    """
    sample = text[:_SAMPLE_CHARS]
    if len(sample) < len(text):
        sample = sample[: sample.rfind("\n") + 1] or sample

    def fit(delimiter: str) -> tuple[float, int]:
        try:
            rows = [row for row in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter) if row]
        except csv.Error:
            return 0.0, 0
        width, usual = len(rows[0]), Counter(map(len, rows)).most_common(1)[0][0]
        if (
            sum(map(bool, rows[0])) < 2 or 2 * width <= usual or rows[0][0].startswith("# ")
        ):  # a title or a comment stands above the header
            width = usual
        if width < 2:
            return 0.0, 0
        return sum(len(row) == width for row in rows) / len(rows), width

    declared = _DECLARED.match(sample)
    best = declared[1] if declared else max(DELIMITERS, key=fit)
    share, width = fit(best)
    return (best, width) if width > 1 and share > 0.5 else (best if width > 1 else ",", 1)


def is_missing(cell: str) -> bool:
    """Whether a cell says that nothing is known: empty, NA, NaN, null or ?."""
    return cell.strip().lower() in MISSING


def number(cell: str) -> float | None:
    """The number that a cell is, None if it is something else. `1_000` and `1,000` are something else."""
    return float(cell) if _NUMBER.fullmatch(cell) else None


def write_rows(path: Path, names: Sequence[str], rows: Iterator[Sequence[object]]) -> None:
    """Write a comma-separated file aside and rename it."""
    aside = path.with_name(f".{path.name}.part")
    with aside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)
    aside.replace(path)


def _records(data: bytes, encoding: str, delimiter: str, name: str) -> Iterator[Record]:
    """Each record with the line on which it starts; blank lines are left out."""
    csv.field_size_limit(_CELL_CHARS)
    text = io.TextIOWrapper(io.BytesIO(data), encoding=encoding, newline="")
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    while True:
        start = reader.line_num + 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise BadData(_broken(str(error), start, reader.line_num, name)) from error
        if record and (len(record) > 1 or record[0].strip()):
            yield start, record


def _broken(error: str, start: int, line: int, name: str) -> str:
    if "unexpected end" in error:
        return f'{name}, line {start}: a cell opens with a quote (") that is never closed.'
    if "expected after" in error:
        return f'{name}, line {line}: text follows a closing quote. Double the quotes inside of a quoted cell ("").'
    if "field larger" in error:
        return f"{name}, line {start}: a cell is longer than {_CELL_CHARS:,} characters; is a closing quote missing?"
    return f"{name}, line {line}: {error}."


def _header(header: list[str], name: str, warnings: list[str]) -> list[str]:
    names = _each_once([cell.strip() for cell in header], warnings)
    if not any(names):
        raise BadData(f"{name}: the first line names no column. Add a header line.")
    numbered = [str(index) for index in range(len(names))]
    numbers = sum(number(column) is not None for column in names if column)
    if names != numbered and (numbers == sum(map(bool, names)) or 2 * numbers > len(names) > 2):
        raise BadData(f"{name}: the first line ({_some(names)}) holds numbers, not column names. Add a header line.")
    unnamed = [index + 1 for index, column in enumerate(names) if not column]
    if unnamed:
        warnings.append(f"{counted(len(unnamed), 'column has', 'columns have')} no name in the header: number "
                        f"{', '.join(map(str, unnamed))}.")  # fmt: skip
    return [column or f"unnamed_{index + 1}" for index, column in enumerate(names)]


def _each_once(names: list[str], warnings: list[str]) -> list[str]:
    """The names, with a number behind those that stood there before."""
    taken, found = {name for name in names if name}, list[str]()
    for at, name in enumerate(names):
        number = 2
        new = name
        while name and new in found:
            new = f"{name}_{number}" if f"{name}_{number}" not in taken else new
            number += 1
        if new != name:
            warnings.append(f"The header has “{name}” more than once; column {at + 1} is called “{new}” here.")
        found.append(new)
    return found


def _columns(
    names: list[str], records: Iterator[Record], name: str, keeps: Callable[[], bool] | None
) -> tuple[dict[str, list[str]], list[int], int]:
    """The columns and lines of the rows that are kept, and how many rows there are."""
    cells: list[list[str]] = [[] for _ in names]
    known: list[dict[str, str]] = [{} for _ in names]
    lines, uneven, rows = list[int](), list[tuple[int, int]](), 0
    while block := list(itertools.islice(records, _BLOCK_ROWS)):
        uneven += [(line, len(record)) for line, record in block if len(record) != len(names)]
        rows += len(block)
        kept = [(line, record) for line, record in block if keeps is None or keeps()]
        lines += [line for line, _ in kept]
        if not uneven:
            _add(cells, [record for _, record in kept], known)
    if uneven:
        first = ", ".join(f"line {line} has {count}" for line, count in uneven[:3])
        if len(uneven) == rows and {count for _, count in uneven} == {len(names) + 1}:
            raise BadData(
                f"{name}: the header has {counted(len(names), 'column', 'columns')} but every row one cell more. Name "
                "the column that the header lacks, often the first."
            )
        raise BadData(
            f"{name}: the header has {counted(len(names), 'column', 'columns')} but {first}"
            f"{f' (and {len(uneven) - 3} more lines)' if len(uneven) > 3 else ''}. "
            "A cell that contains the delimiter must stand in double quotes."
        )
    return dict(zip(names, cells, strict=True)), lines, rows


def _add(columns: list[list[str]], records: list[list[str]], known: list[dict[str, str]]) -> None:
    """Put the cells of records behind those of each column; equal cells of a column with few values are one object."""
    for column, cells, seen in zip(columns, zip(*records, strict=True), known, strict=False):
        column.extend(map(seen.setdefault, cells, cells) if len(seen) < _MOST_KNOWN else cells)


def _line(data: bytes, at: int) -> int:
    return data.count(b"\n", 0, at) + 1


def _size(size_bytes: int) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes} bytes"


def _some(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
