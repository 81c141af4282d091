"""Tables as people write them: numbers of other countries, titles above the header, two columns of one name."""

import datetime as dt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import Workbook

from worker.recipes.common import numerals
from worker.recipes.common.numerals import plain_numbers
from worker.recipes.common.table import MISSING, Table, read_table
from worker.recipes.tabular.encoding import encode
from worker.recipes.tabular.features import choose_features

WRITTEN: dict[str, tuple[list[str], str, list[str]]] = {
    "a decimal comma": (["80,8", "7,25", ""], ";", ["80.8", "7.25", ""]),
    "a decimal comma between tabs": (["-5,5", "+3"], "\t", ["-5.5", "+3"]),
    "points for thousands": (["1.234,50", "12,00"], ";", ["1234.50", "12.00"]),
    "commas for thousands": (["1,234.50", "12"], ",", ["1234.50", "12"]),
    "spaces for thousands": (["1 234", "12 345 678"], ",", ["1234", "12345678"]),
    "money": (["€ 1,234.50", "$12", "-$4", "3 CHF"], ",", ["1234.50", "12", "-4", "3"]),
    "a unit": (["1.5 kg", "12 kg", "", "-3 kg"], ",", ["1.5", "12", "", "-3"]),
    "a unit without a space": (["10,5m²", "8m²"], ";", ["10.5", "8"]),
    "a debt in brackets": (["(1,234.50)", "12"], ",", ["-1234.50", "12"]),
    "percent": (["45 %", "3.5%"], ",", ["45", "3.5"]),
    "commas that the delimiter explains": (["1,234", "2,345"], ",", ["1234", "2345"]),
    "commas that the other delimiter explains": (["1,234", "2,345"], ";", ["1.234", "2.345"]),
    "words for nothing": ([*["1.5"] * 20, "-", "inf"], ",", [*["1.5"] * 20, "", ""]),
}
CELLS = (
    "1",
    "12.",
    ".5",
    "1.5",
    "1.234",
    "-1.234.567",
    "1e-3",
    "1,5",
    "1,234",
    " 2.5",
    "€ 3",
    "",
    "NA",
    "NaN",
    "-",
    "x",
    "1\n2",
)
LEFT = {
    "plain": ["1", "2.5", "1e-5"],
    "three digits behind a point": ["1.234", "2.345"],
    "dates": ["01.02.2020", "03.04.2021"],
    "telephone numbers": ["030 123 456", "0151 123 456"],
    "addresses of machines": ["10.1.2.3", "10.1.2.4"],
    "zeros in front": ["00123", "00456"],
    "several units": ["100 km", "2 m"],
    "codes that end with a letter": ["4G", "5G"],
    "mostly words": ["none", "none", "1"],
}


@pytest.mark.parametrize("case", WRITTEN)
def test_numbers_are_read_as_they_were_meant(case: str) -> None:
    cells, delimiter, plain = WRITTEN[case]
    rewritten, (sentence,) = plain_numbers({"a": cells}, MISSING, delimiter=delimiter)
    assert rewritten == {"a": plain}
    assert sentence.startswith("“a” holds")


@pytest.mark.parametrize("case", LEFT)
def test_what_is_no_other_number_stays(case: str) -> None:
    assert plain_numbers({"a": LEFT[case]}, MISSING, delimiter=";") == ({}, [])


@given(st.dictionaries(st.sampled_from("abc"), st.lists(st.sampled_from(CELLS), min_size=4, max_size=4), min_size=1))
def test_what_is_plain_at_a_glance_is_read_as_with_a_close_look(columns: dict[str, list[str]]) -> None:
    for delimiter in ",;":
        found = plain_numbers(columns, MISSING, delimiter=delimiter)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(numerals, "_are_plain", lambda *_: False)
            assert plain_numbers(columns, MISSING, delimiter=delimiter) == found


def test_a_column_is_read_as_the_others_of_its_file() -> None:
    rewritten, _ = plain_numbers({"a": ["1.234", "2.345"], "b": ["1,5", "2,5"]}, MISSING, delimiter=";")
    assert rewritten == {"a": ["1234", "2345"], "b": ["1.5", "2.5"]}


def test_a_file_from_a_german_excel(tmp_path: Path) -> None:
    text = "Bericht 2024;;\n;;\nGröße;Preis;Größe\n" + "".join(f"{n},5;1.{n:03d},00 €;x\n" for n in range(30))
    (tmp_path / "a.csv").write_bytes(text.encode("cp1252"))
    table = read_table(tmp_path / "a.csv")
    assert table.names == ["Größe", "Preis", "Größe_2"]
    assert [table.columns[name][2] for name in table.names] == ["2.5", "1002.00", "x"]
    assert table.lines[0] == 4
    said = " ".join(table.warnings)
    for words in ("cp1252", "The header is line 3", "column 3 is called “Größe_2”", "such as “0,5”, read as 0.5"):
        assert words in said


def test_comments_above_the_header_and_the_fullest_sheet(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("# exported\n# by a tool\na,b\n1,2\n3,4\n")
    assert read_table(tmp_path / "a.csv").columns == {"a": ["1", "3"], "b": ["2", "4"]}
    book = Workbook()
    book.active.append(["read me"])  # type: ignore[union-attr]
    sheet = book.create_sheet("Data")
    for row in (["Report"], [], ["a", "b"], [1, "2,5"], [3, "4,5"]):
        sheet.append(row)
    book.save(tmp_path / "a.xlsx")
    table = read_table(tmp_path / "a.xlsx")
    assert table.columns == {"a": ["1", "3"], "b": ["2.5", "4.5"]}
    assert "Only the sheet “Data” was read" in " ".join(table.warnings)


def test_json_of_columns_and_of_objects_within_objects(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": {"0": 1, "1": 2}, "b": {"0": "x", "1": "y"}}')
    assert read_table(tmp_path / "a.json").columns == {"a": ["1", "2"], "b": ["x", "y"]}
    (tmp_path / "b.jsonl").write_text(
        '{"who": {"age": 3, "at": {"city": "Bonn"}}, "y": 1}\n{"who": {"age": 4}, "y": 0}\n'
    )
    assert read_table(tmp_path / "b.jsonl").columns == {
        "who.age": ["3", "4"],
        "who.at.city": ["Bonn", ""],
        "y": ["1", "0"],
    }


def test_only_a_column_that_is_rewritten_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("area;rooms\n" + "12,5;2\n7,5;1\n", encoding="utf-8")
    assert read_table(tmp_path / "data.csv").warnings == ["“area” holds numbers such as “12,5”, read as 12.5."]


def read(tmp_path: Path, text: str) -> Table:
    (tmp_path / "data.csv").write_text(text, encoding="utf-8")
    return read_table(tmp_path / "data.csv")


def test_titles_of_several_cells_stand_above_the_header(tmp_path: Path) -> None:
    found = read(tmp_path, 'Statement\n"Account";"DE12"\n\nday;payee;amount;kind\n' + "1;REWE;-2,5;food\n" * 3)
    assert found.names == ["day", "payee", "amount", "kind"]
    assert found.lines == [5, 6, 7]


def test_a_header_that_lacks_most_names_is_no_title(tmp_path: Path) -> None:
    found = read(tmp_path, "id,name,,,\n" + "1,x,2,3,4\n" * 5)
    assert found.names == ["id", "name", "unnamed_3", "unnamed_4", "unnamed_5"]


def test_a_line_that_names_the_delimiter_is_believed(tmp_path: Path) -> None:
    found = read(tmp_path, "sep=;\na;b;c\n1;0,5;x\n2;0,25;y\n")
    assert found.columns == {"a": ["1", "2"], "b": ["0.5", "0.25"], "c": ["x", "y"]}


def test_a_total_and_a_source_below_the_rows_are_left_out(tmp_path: Path) -> None:
    rows = "".join(f"shop {n},{n}\n" for n in range(6))
    found = read(tmp_path, f"shop,sales\n{rows}Total:,15\n\nSource: our tills\n")
    assert found.columns["sales"] == list("012345")
    assert found.warnings == [
        "Line 10 (“Source: our tills”), below the table, was left out.",
        "The last row (line 8) begins with “Total:”; it was left out as a sum of the others.",
    ]


def test_a_workbook_with_several_title_rows_and_merged_cells_in_its_header(tmp_path: Path) -> None:
    book = Workbook()
    sheet = book.active
    for row in (
        ["Sales"],
        ["by", "us"],
        [],
        ["House", None, "Place", None, "Price"],
        ["area", "rooms", "city", "day", None],
        [50.5, 2, "Ulm", "2024-01-02", 100],
        *([70.5, 3, "Bonn", "2024-01-03", 200] for _ in range(5)),
    ):
        sheet.append(row)
    book.save(tmp_path / "book.xlsx")
    found = read_table(tmp_path / "book.xlsx")
    assert found.names == ["House area", "House rooms", "Place city", "Place day", "Price"]
    assert found.lines[:2] == [6, 7]


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("Go.\tVa !\tCC-BY 2.0 #1\n" + "Run!\tCours !\tCC-BY 2.0 #2\n" * 6, None),
        ("a very good film\tpos\n" + "bad\tneg\n" * 6 + "fine\tpos\n", None),
        ("red,big,yes\n" + "blue,small,no\n" * 6 + "red,big,yes\n", None),
        ("source\ttarget\n" + "Go.\tVa !\n" * 7, ["source", "target"]),
        ("text,spam\n" + "some words,spam\n" * 6 + "other words,ham\n", ["text", "spam"]),
        ("How old are you?\tWhere do you live?\n" + "31\tUlm\n" * 7, ["How old are you?", "Where do you live?"]),
        ("Facebook,Twitter\n" + "Facebook,\n" * 4 + ",Twitter\n" * 4, ["Facebook", "Twitter"]),
    ],
)
def test_a_first_line_that_names_nothing_is_a_row(text: str, header: list[str] | None, tmp_path: Path) -> None:
    found = read(tmp_path, text)
    assert found.names == (header or [f"column_{at + 1}" for at in range(len(found.names))])
    assert found.rows == text.count("\n") - bool(header)
    assert any("looks like a row" in said for said in found.warnings) == (header is None)


def test_a_pound_is_no_polish_letter(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_bytes(b"kind,text\n" + "spam,win £5\nham,see you\n".encode("cp1252") * 9)
    assert read_table(tmp_path / "data.csv").columns["text"][0] == "win £5"


@pytest.mark.parametrize("form", ["%d.%m.%y", "%d-%b-%y", "%b %d, %Y", "%d. %B %Y", "%m/%d/%y"])
def test_dates_of_other_ways_are_dates_with_their_numbers(form: str, tmp_path: Path) -> None:
    days = [dt.date(2019, 3, 1) + dt.timedelta(days=17 * at) for at in range(40)]
    (tmp_path / "data.csv").write_text("day,y\n" + "".join(f'"{day:{form}}",{at % 3}\n' for at, day in enumerate(days)))
    (feature,), _ = choose_features(read_table(tmp_path / "data.csv"), "y")
    assert feature["kind"] == "datetime"
    numbers = encode(read_table(tmp_path / "data.csv").columns, [feature])
    assert numbers[:, 0].tolist() == [(day - dt.date(2000, 1, 1)).days for day in days]


@pytest.mark.parametrize(("cell", "value"), [("52.8 kg", 52.8), ("1.234,50 €", 1234.5), ("80,8", 80.8), ("7", 7.0)])
def test_a_single_row_is_encoded_as_a_file_is_read(cell: str, value: float) -> None:
    assert encode({"a": [cell]}, [{"column": "a", "kind": "number"}]).tolist() == [[value]]
    assert np.isnan(encode({"a": ["much", ""]}, [{"column": "a", "kind": "number"}])).all()
