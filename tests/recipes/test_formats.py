"""Data files of every form: the same cells, whatever a table was written in."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from openpyxl import Workbook
from pyarrow import parquet

from worker.recipes.common.table import BadData, Table, read_table

ROWS = [
    {"city": "Köln", "visits": 3, "share": 0.5, "open": True, "day": dt.date(2026, 1, 2)},
    {"city": "Bonn", "visits": None, "share": 2.0, "open": False, "day": None},
]
CELLS = {
    "city": ["Köln", "Bonn"],
    "visits": ["3", ""],
    "share": ["0.5", "2"],
    "open": ["true", "false"],
    "day": ["2026-01-02", ""],
}


def as_json(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def plain(row: dict[str, object]) -> str:
    return json.dumps(row, default=str, ensure_ascii=False)


def excel(path: Path) -> Path:
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(list(ROWS[0]))
    for row in ROWS:
        sheet.append(list(row.values()))
    sheet.append([])
    book.create_sheet("notes").append(["what"])
    book.save(path)
    return path


def arrow(path: Path) -> Path:
    parquet.write_table(pa.Table.from_pylist(ROWS), path)
    return path


@pytest.mark.parametrize("form", ["JSON", "JSON under a name", "JSON columns", "JSON lines", "Parquet", "Excel"])
def test_every_form_gives_the_same_cells(form: str, tmp_path: Path) -> None:
    rows = ",\n".join(plain(row) for row in ROWS)
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    made = {
        "JSON": lambda: as_json(tmp_path / "a.json", f"[{rows}]"),
        "JSON under a name": lambda: as_json(tmp_path / "a.json", f'{{"data": [{rows}]}}'),
        "JSON columns": lambda: as_json(tmp_path / "a.json", json.dumps(columns, default=str)),
        "JSON lines": lambda: as_json(tmp_path / "a.jsonl", rows.replace("},", "}")),
        "Parquet": lambda: arrow(tmp_path / "a.parquet"),
        "Excel": lambda: excel(tmp_path / "a.xlsx"),
    }
    path = made[form]()
    table = read_table(path.rename(tmp_path / "blob"), name="")  # content decides, not the name
    assert (table.columns, table.rows) == (CELLS, 2)
    assert form.startswith(table.form)
    assert bool(table.warnings) is (form == "Excel")


def test_rows_of_json_need_not_have_the_same_columns(tmp_path: Path) -> None:
    table = read_table(as_json(tmp_path / "a.jsonl", '{"a": 1}\n\n{"b": [{"role": "user"}]}\n'))
    assert table.columns == {"a": ["1", ""], "b": ["", '[{"role": "user"}]']}
    assert table.lines == [1, 3]


@pytest.mark.parametrize(
    "whole",
    [
        {"status": "ok", "results": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], "errors": []},
        {"columns": ["a", "b"], "index": [0, 1], "data": [[1, "x"], [2, "y"]]},
    ],
    ids=["rows beside other lists", "columns and data apart"],
)
def test_rows_of_json_are_found_beside_what_else_it_holds(whole: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text(json.dumps(whole))
    assert read_table(tmp_path / "data.json").columns == {"a": ["1", "2"], "b": ["x", "y"]}


def test_one_object_of_json_is_one_row(tmp_path: Path) -> None:
    assert read_table(as_json(tmp_path / "a.json", '{"a": 1, "b": "x"}')).columns == {"a": ["1"], "b": ["x"]}


def test_a_token_file_has_sentences(tmp_path: Path) -> None:
    text = "-DOCSTART- -X- O O\n\nEU NNP B-ORG\nrejects VBZ O\n\nParis NNP B-LOC\n"
    table = read_table(as_json(tmp_path / "train.conll", text))
    assert table.columns == {
        "sentence": ["1", "1", "2"],
        "token": ["EU", "rejects", "Paris"],
        "tag": ["B-ORG", "O", "B-LOC"],
    }
    assert (table.form, table.lines) == ("token file", [3, 4, 6])


def test_one_long_line_of_text_is_no_header(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("It rains, again, and the cat, of course, sleeps. " * 50)
    assert read_table(tmp_path / "book.txt").form == "plain text"


def test_plain_text_is_one_column(tmp_path: Path) -> None:
    table = read_table(as_json(tmp_path / "book.txt", "It was, of course,\n\na dark night.\n"))
    assert table.columns == {"text": ["It was, of course,", "a dark night."]}


@pytest.mark.parametrize("name", ["visits.txt", "visits.md"])
def test_a_table_in_a_txt_file_stays_a_table(name: str, tmp_path: Path) -> None:
    assert read_table(as_json(tmp_path / name, "a;b\n1;2\n3;4\n")).names == ["a", "b"]


def test_braces_do_not_make_a_csv_json(tmp_path: Path) -> None:
    assert read_table(as_json(tmp_path / "a.csv", "[unit],b\n1,2\n")).names == ["[unit]", "b"]


def test_what_unpacks_to_more_than_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"a": ["x" * 100] * 20_000}), path)
    assert path.stat().st_size < 100_000
    with pytest.raises(BadData, match=r"unpacks to more than 0\.1 MB"):
        read_table(path, limit_bytes=100_000, name="big.parquet")


def test_bytes_in_parquet_are_refused_with_a_way_out(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"image": [b"\x89PNG"], "label": ["cat"]}), tmp_path / "a.parquet")
    with pytest.raises(BadData, match=r"“image” holds bytes.*zip"):
        read_table(tmp_path / "a.parquet")


def test_a_named_form_that_the_content_is_not(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="named like JSON, but begins with"):
        read_table(as_json(tmp_path / "a.json", "a,b\n1,2\n"))


def test_a_table_knows_its_form() -> None:
    assert Table(["a"], {"a": ["1"]}, [1], "utf-8", ",").form == ""


@pytest.mark.parametrize("ending", ["csv", "jsonl", "json", "parquet"])
def test_rows_of_a_large_file_are_drawn_and_that_is_said(ending: str, tmp_path: Path) -> None:
    import pandas

    rows = pandas.DataFrame({"at": range(4000), "kind": [f"k{n % 3}" for n in range(4000)]})
    path = tmp_path / f"a.{ending}"
    if ending == "csv":
        rows.to_csv(path, index=False)
    elif ending == "parquet":
        rows.to_parquet(path)
    else:
        rows.to_json(path, orient="records", lines=ending == "jsonl")
    table = read_table(path, most_cells=800)
    assert 300 < table.rows < 500
    assert table.drawn_from == 4000
    assert f"Of the 4,000 rows {table.rows:,} are read, drawn at random" in " ".join(table.warnings)
    before = 2 if ending == "csv" else 1  # the line of the first row
    assert table.columns["at"] == [str(line - before) for line in table.lines]
    assert table.columns == read_table(path, most_cells=800).columns
    assert read_table(path, most_cells=8010).rows == 4000
