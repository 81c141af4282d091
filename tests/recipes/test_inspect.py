"""The audit: what it finds in good files, and one clear sentence for each unusable one."""

from __future__ import annotations

import gzip
import io
import json
import random
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from agent.domain.datasets import DataReport, DatasetRef
from agent.domain.tasks import TASKS
from tests.recipes.folders import REPO, sklearn_csv, texts_csv
from worker.recipes.common.table import BadData, read_table
from worker.recipes.inspect import audit, main
from worker.recipes.recipe import names, needs_target, part

GOOD = "a,b,kind\n" + "".join(f"{n},{n % 7}.5,{'yes' if n % 3 else 'no'}\n" for n in range(40))


def test_recipes_say_of_themselves_what_the_records_of_their_task_types_say() -> None:
    own = {name: getattr(part(name, "inspect"), "OWN_SPLIT", False) for name in names()}
    assert own == {name: bool(task.own_split) for name, task in TASKS.items()}
    assert {name: needs_target(name) for name in names()} == {name: task.needs_target for name, task in TASKS.items()}


def workbook() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("xl/workbook.xml", "<x/>")
    return buffer.getvalue()


UNUSABLE: dict[str, tuple[bytes, list[str]]] = {
    "empty": (b"", ["data.csv is empty"]),
    "only spaces": (b" \n\n", ["data.csv is empty"]),
    "header only": (b"a,b\n", ["has a header (a, b) but no rows"]),
    "uneven": (b"a,b\n1,2\n3,4,5\n6\n7,8\n", ["2 columns", "line 3 has 3, line 4 has 1"]),
    "no name of the first column": (b"a,b\nx,1,2\ny,3,4\n", ["every row one cell more", "often the first"]),
    "open quote": (b'a,b\n1,2\n"3,4\n5,6\n', ["line 3", "never closed"]),
    "text after quote": (b'a,b\n1,2\n"3"x,4\n', ["line 3", "closing quote"]),
    "no header": (b"1.5,2\n3,4\n", ["holds numbers, not column names"]),
    "no header but one word": (b"1.5,2,3.5,red\n3,4,5,blue\n", ["holds numbers, not column names"]),
    "png": (b"\x89PNG\r\n\x1a\n" + b"\x00" * 50, ["begins like an image, but cannot be read"]),
    "jpeg": (b"\xff\xd8\xff\xe0" + b"\x00" * 50, ["begins like an image"]),
    "pdf": (b"%PDF-1.7\n", ["a PDF document"]),
    "gzip": (gzip.compress(GOOD.encode())[:-9], ["a gzip file that cannot be unpacked"]),
    "tar": (gzip.compress(bytes(257) + b"ustar" + bytes(300)), ["a tar archive", "Send a zip archive"]),
    "xlsx": (workbook(), ["an Excel workbook that cannot be read"]),
    "html": (b"<!DOCTYPE html><html><body>Sign in</body></html>", ["a web page (HTML)"]),
    "json cut off": (b'[{"a": 1},', ["no valid JSON", "line 1, column 11"]),
    "json without objects": (b"[[1, 2], [3, 4]]", ["item 1", "must be an object"]),
    "json lines": (b'{"a": 1}\n{"a": }\n', ["line 2", "no valid JSON at column 7"]),
    "parquet": (b"PAR1" + b"\x00" * 20, ["a Parquet file that cannot be read"]),
    "tokens": (b"Paris B-LOC\n\n" + b"x O\n" * 600 + b"is\n", ["Line 603", "a token and its tag"]),
    "zero bytes": (b"a,b\n1,\x00\n", ["byte 6 (line 2) is zero", "UTF-8"]),
    "no encoding": (b"a,b\n1,\x81\x8d\x9d\n", ["not UTF-8", "byte 6 (line 2) is 0x81", "Re-save it as UTF-8"]),
    "cut utf-16": (GOOD.encode("utf-16")[:-1], ["utf-16", "does not fit"]),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_an_unusable_file_is_refused_with_one_sentence(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, words = UNUSABLE[case]
    (tmp_path / "blob").write_bytes(data)
    assert main(["--file", str(tmp_path / "blob"), "--name", "data.csv"]) == 65
    said = json.loads(capsys.readouterr().out)
    assert list(said) == ["error"]
    for word in words:
        assert word in said["error"]


def report_of(text: str | bytes, tmp_path: Path, **asked: Any) -> dict[str, Any]:
    path = tmp_path / "data.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    report = audit(read_table(path), **asked)
    reference = DatasetRef(sha256="0" * 64, name="data.csv", size_bytes=path.stat().st_size)
    DataReport.model_validate({**json.loads(json.dumps(report)), "dataset": reference})
    return report


def test_the_command_prints_the_fields_of_a_data_report() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "worker.recipes.inspect", "--file", "examples/doctor_visits.csv", "--name", "v.csv",
         "--target", "visited_doctor"], cwd=REPO, capture_output=True, text=True, check=True,
    )  # fmt: skip
    reference = DatasetRef(sha256="0" * 64, name="v.csv", size_bytes=1)
    report = DataReport.model_validate({**json.loads(done.stdout), "dataset": reference})
    assert report.rows == 20190
    assert report.target is not None
    assert report.target.classes == (("yes", 13882), ("no", 6308))
    assert report.suggested_task == "tabular_classification"
    assert report.problems == ()
    assert report.leaks == ()
    assert any("2,760 different inputs" in warning for warning in report.warnings)
    assert {column.name: column.kind for column in report.columns}["health"] == "category"


def test_a_file_over_the_limit_says_both_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.csv").write_text(GOOD)
    assert main(["--file", str(tmp_path / "f.csv"), "--name", "big.csv", "--limit-bytes", "100"]) == 65
    error = json.loads(capsys.readouterr().out)["error"]
    assert f"big.csv has {len(GOOD)} bytes" in error
    assert "100 bytes" in error


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_encoding_and_delimiter_are_found(encoding: str, delimiter: str, tmp_path: Path) -> None:
    text = GOOD.replace("kind", "kïnd").replace(",", delimiter)
    report = report_of(text.encode(encoding), tmp_path)
    assert (report["encoding"], report["delimiter"]) == (encoding, delimiter)
    assert [column["name"] for column in report["columns"]] == ["a", "b", "kïnd"]


def test_windows_text_is_read_with_a_warning(tmp_path: Path) -> None:
    report = report_of(GOOD.replace("yes", "café").encode("cp1252"), tmp_path, target="kind")
    assert ["café", 26] in report["target"]["classes"]
    assert any("cp1252" in warning and "line" in warning for warning in report["warnings"])


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("cp1251", ("Москва", "Тула", "Казань")), ("cp932", ("東京の町", "大阪の町", "京都の町")),
        ("cp1250", ("Plzeň", "Třebíč", "žlutý")),
        ("gb18030", ("北京", "上海", "广州")),
    ],
)  # fmt: skip
def test_other_encodings_are_known_by_their_letters(encoding: str, words: tuple[str, ...], tmp_path: Path) -> None:
    text = "at,town,kind\n" + "".join(f"{n},{words[n % 3]},{'yes' if n % 2 else 'no'}\n" for n in range(60))
    report = report_of(text.encode(encoding), tmp_path, target="kind")
    assert report["encoding"] == encoding
    assert report["preview"][0][1] == words[0]
    assert any(f"({encoding}), e.g. “" in warning and words[0] in warning for warning in report["warnings"])


def test_a_packed_file_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(GOOD.encode()))
    assert read_table(tmp_path / "a.csv.gz").rows == 40


def test_line_breaks_in_quotes_keep_line_numbers_right(tmp_path: Path) -> None:
    text = "note,kind\n" + '"two\nlines, here",yes\n' * 15 + '"x",\n' + "y,no\n" * 10
    report = report_of(text, tmp_path, target="kind")
    assert "1 of 26 rows (line 32) without a value of “kind”" in " ".join(report["warnings"])


def test_kinds_of_columns(tmp_path: Path) -> None:
    words = [
        "the quick brown fox jumps",
        "over the lazy dog today",
        "pack my box with five",
        "dozen liquor jugs of ale",
    ]
    rows = ["customer_id,age,signed_up,member,plan,notes,nothing,same,kind"]
    rows += [
        f"{1000 + n},{n % 50 or ''},2024-01-{n % 28 + 1:02d},{'true' if n % 2 else 'false'},{'abc'[n % 3]},"
        f"{words[n % 4]} {n},,x,{'hot' if n % 5 else 'cold'}"
        for n in range(100)
    ]
    report = report_of("\n".join(rows), tmp_path)
    kinds = {column["name"]: column["kind"] for column in report["columns"]}
    assert kinds == {
        "customer_id": "identifier", "age": "number", "signed_up": "datetime", "member": "boolean", "plan": "category",
        "notes": "text", "nothing": "empty", "same": "constant", "kind": "category",
    }  # fmt: skip
    age = report["columns"][1]
    assert (age["missing"], age["low"], age["high"]) == (2, 1.0, 49.0)
    assert (report["suggested_target"], report["text_column"]) == ("kind", "notes")
    assert any("identifier" in warning and "customer_id" in warning for warning in report["warnings"])


def test_a_target_that_no_task_fits_is_still_looked_at(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(
        "id,kind\n" + "".join(f"{n},{'' if n > 18 else 'ab'[n % 2]}\n" for n in range(1, 60))
    )
    found = audit(read_table(tmp_path / "data.csv"), target="kind")
    assert found["suggested_task"] is None
    assert found["problems"] == ["There are only 18 rows; at least 20 are needed to train and to measure."]
    assert found["warnings"][0].startswith(
        "41 of 59 rows (lines 20, 21, 22, 23, 24 and more) without a value of “kind”"
    )


def test_an_unknown_target_names_the_columns_and_guesses(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"no target column “kindd”\. Did you mean “kind”\? The columns are: a, b, kind"):
        report_of(GOOD, tmp_path, target="kindd")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: t.replace(",no\n", ",yes\n"), "always “yes”"),
        (lambda t: t.replace(",yes\n", ",\n"), "always “no”"),
        (lambda t: "".join(t.splitlines(keepends=True)[:9]), "only 8 rows; at least 20"),
    ],
)  # fmt: skip
def test_a_target_that_cannot_be_learned_is_a_problem(change: Any, sentence: str, tmp_path: Path) -> None:
    report = report_of(change(GOOD), tmp_path, target="kind")
    assert any(sentence in problem for problem in report["problems"]), report["problems"]


def test_rows_without_an_answer_and_classes_of_one_row_are_left_out_and_said(tmp_path: Path) -> None:
    text = GOOD.replace("4,4.5,yes", "4,4.5,").replace("5,5.5,yes", "5,5.5,NaN").replace("6,6.5,no", "6,6.5,maybe")
    report = report_of(text, tmp_path, target="kind")
    assert report["problems"] == []
    assert report["rows"] == 40
    assert "2 of 40 rows (lines 6, 7) without a value of “kind” are left out." in report["warnings"]
    assert any("(line 8) left out, because no other row has the class: “maybe”" in one for one in report["warnings"])


def test_a_few_cells_that_are_no_numbers_are_named(tmp_path: Path) -> None:
    text = "x,kind\n" + "".join(f"{'12 kg' if n == 7 else n % 11},{'ab'[n % 2]}\n" for n in range(60))
    said = report_of(text, tmp_path, target="kind")["warnings"]
    assert any("because 1 of its 60 cells are no numbers (line 9 “12 kg”)" in one for one in said), said


def test_a_quantity_is_no_class(tmp_path: Path) -> None:
    text = GOOD.replace("kind", "x").replace("a,", "kind,", 1)
    report = report_of(text, tmp_path, target="kind", task="tabular_classification")
    assert any("is a quantity, not a class. Ask for a regression" in problem for problem in report["problems"])
    assert report_of(text, tmp_path, target="kind")["suggested_task"] == "tabular_regression"


def test_uneven_classes_are_a_warning(tmp_path: Path) -> None:
    text = "a,kind\n" + "".join(f"{n % 9},{'rare' if n % 20 == 0 else 'usual'}\n" for n in range(200))
    report = report_of(text, tmp_path, target="kind")
    assert any("1 in 19" in warning for warning in report["warnings"])
    assert report["problems"] == []


def test_leaks_are_found_and_good_columns_are_not(tmp_path: Path) -> None:
    random.seed(1)
    rows = ["code,score,honest,status"]
    for n in range(300):
        label = ("won", "lost", "open")[n % 3]
        honest = n % 3 if random.random() < 0.9 else random.randrange(3)
        rows.append(f"{label[0].upper()}{label[1]},{n % 3 * 10 + random.random():.3f},{honest},{label}")
    report = report_of("\n".join(rows), tmp_path, target="status")
    assert {leak["column"] for leak in report["leaks"]} == {"code", "score"}
    assert all(leak["accuracy"] > 0.98 and "33" in leak["why"] for leak in report["leaks"])
    assert report_of(sklearn_csv("breast_cancer"), tmp_path, target="kind")["leaks"] == []


def test_a_column_that_has_a_value_for_one_class_alone_is_a_leak(tmp_path: Path) -> None:
    rows = [
        f"{n % 7},{f'2024-{n % 12 + 1:02d}-{n % 28 + 1:02d}' if n % 2 else ''},{'gone' if n % 2 else 'here'}"
        for n in range(80)
    ]
    (leak,) = report_of("\n".join(["use,cancelled_on,state", *rows]), tmp_path, target="state")["leaks"]
    assert (leak["column"], leak["accuracy"]) == ("cancelled_on", 1.0)
    assert "whether “cancelled_on” has a value" in leak["why"]


def test_classes_that_differ_in_capitals_alone_are_said(tmp_path: Path) -> None:
    report = report_of(GOOD.replace("\n4,4.5,yes", "\n4,4.5,Yes").replace("\n7,0.5,yes", "\n7,0.5,Yes"), tmp_path)
    assert (
        "Classes of “kind” that differ in capitals alone: “yes” and “Yes”. Write each in one way." in report["warnings"]
    )


def test_words_without_letters_are_no_text(tmp_path: Path) -> None:
    rows = [f"+49 30 {n:06d},shop {n},{n % 3},{'yes' if n % 2 else 'no'}" for n in range(60)]
    report = report_of("\n".join(["phone,shop,rooms,sold", *rows]), tmp_path)
    assert {column["name"]: column["kind"] for column in report["columns"]} == {
        "phone": "identifier", "shop": "identifier", "rooms": "number", "sold": "boolean",
    }  # fmt: skip
    assert report["suggested_task"] == "tabular_classification"


def test_numbers_of_several_units_are_said_to_be_categories(tmp_path: Path) -> None:
    rows = [f"{n} {'kg' if n % 2 else 'g'},{'yes' if n % 3 else 'no'}" for n in range(30)]
    report = report_of("\n".join(["weight,sold", *rows]), tmp_path)
    assert any("several units, such as “g” and “kg”" in warning for warning in report["warnings"])


def test_a_label_inside_of_the_text_is_a_leak(tmp_path: Path) -> None:
    text = texts_csv(300)
    assert report_of(text, tmp_path, target="library")["leaks"] == []
    lines = [line.replace('"', "").rpartition(",") for line in text.splitlines()]
    told = "\n".join(f'"from {library}, {words}",{library}' for words, _, library in lines[1:])
    report = report_of("text,library\n" + told, tmp_path, target="library")
    assert [leak["column"] for leak in report["leaks"]] == ["text"]
    assert report["suggested_task"] == "text_classification"


def planned(data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], **spec: Any) -> dict[str, Any]:
    """What the audit says about a planned run."""
    (tmp_path / "f.csv").write_text(data)
    spec = {"recipe": "tabular_classification", "target": "kind", "dataset": {"name": "f.csv"}} | spec
    arguments = ["--file", str(tmp_path / "f.csv"), "--name", "f.csv", "--target", spec["target"]]
    code = main([*arguments, "--task", spec["recipe"], "--plan", json.dumps(spec)])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == (65 if "error" in found else 0)
    return found


ONE_COLUMN = "id,kind\n" + "".join(f"{n},{'yes' if n % 3 else 'no'}\n" for n in range(40))
NAMES = (
    "rounds, learning_rate, num_leaves, early_stopping_patience, max_depth, min_data_in_leaf, lambda_l2, "
    "feature_fraction, bagging_fraction, valid_frac, class_weight, trials, minutes"
)


@pytest.mark.parametrize(
    ("data", "spec", "sentence"),
    [
        (ONE_COLUMN, {}, "No column is left to predict “kind” from: id (looks like an identifier)."),
        (GOOD, {"drop_columns": ["a", "b"]}, "No column is left to predict “kind” from."),
        (GOOD, {"drop_columns": ["c"]}, "There is no column “c”"),
        (GOOD.replace(",no\n", ",yes\n"), {}, "The target “kind” is always “yes”; there is nothing to tell apart."),
        (
            GOOD,
            {"settings": {"early_stopping": 5000}},
            "There is no setting “early_stopping”. Did you mean “early_stopping_patience”, which takes a whole number "
            f"from 1 to 100,000? The settings are: {NAMES}.",
        ),
        (
            GOOD,
            {"settings": {"patience": 500_000}},
            "The setting patience takes a whole number from 1 to 100,000, not 500000.",
        ),
        (
            GOOD,
            {"recipe": "text_classification", "text_column": "b", "settings": {"hidden_size": 100, "heads": 3}},
            "hidden_size (100) must be a multiple of heads (3).",
        ),
    ],
)
def test_a_plan_that_must_fail_is_refused_with_the_sentence_of_its_step(
    data: str, spec: dict[str, Any], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = planned(data, tmp_path, capsys, **spec)
    assert found["error"].startswith(sentence)


@pytest.mark.parametrize(
    ("recipe", "settings", "effort"),
    [
        ("tabular_classification", {}, 1.0),
        ("tabular_classification", {"n_estimators": "6000"}, 10.0),
        ("text_classification", {"epochs": 4}, 0.5),
        ("text_classification", {"max_steps": 160, "layers": 4}, 20.0),  # of 8 epochs in 2 batches each
    ],
)
def test_the_work_of_a_plan_follows_its_settings(
    recipe: str, settings: dict[str, Any], effort: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = {"recipe": recipe, "settings": settings, "text_column": "b" if recipe.startswith("text") else None}
    assert planned(GOOD, tmp_path, capsys, **spec)["effort"] == pytest.approx(effort)


PERSONAL = {
    "e-mail addresses": ("contact", "write to ada@example.org", "no mail"),
    "telephone numbers": ("tel", "+49 30 1234567", "0049 30 765432-1"),
    "bank accounts (IBAN)": ("pay", "DE89 3704 0044 0532 0130 00", "GB29NWBK60161331926819"),
    "social security numbers": ("number", "078-05-1120", "219-09-9999"),
    "numbers of payment cards": ("paid_with", "4111 1111 1111 1111", "5500-0000-0000-0004"),
    "names": ("Last Name", "Lovelace", "Hopper"),
    "dates of birth": ("date_of_birth", "1815-12-10", "1906-12-09"),
    "addresses": ("street_address", "12 St James's Square", "1 Navy Yard"),
}


@pytest.mark.parametrize("kind", PERSONAL)
def test_personal_data_are_said(kind: str, tmp_path: Path) -> None:
    name, *cells = PERSONAL[kind]
    rows = "".join(f'{at},"{cells[at % 2]}",{"yes" if at % 3 else "no"}\n' for at in range(40))
    (tmp_path / "people.csv").write_text(f"age,{name},bought\n{rows}")
    said = audit(read_table(tmp_path / "people.csv"))["warnings"]
    assert not any("read as" in warning for warning in said)
    assert any(f"“{name}” ({kind})" in warning and f"“without {name}”" in warning for warning in said), said


@pytest.mark.parametrize(
    ("header", "target"),
    [
        ("rooms,balcony,price_eur", "price_eur"),  # a quantity at the end, by a word of its name
        ("rooms,balcony,SalePrice", "SalePrice"),
        ("price_eur,rooms,balcony", "balcony"),  # else the last column with few classes
        ("rooms,churn,price_eur", "churn"),
    ],
)
def test_the_target_that_nobody_named_is_guessed_by_names_and_places(header: str, target: str, tmp_path: Path) -> None:
    values = {"rooms": "{0}.5", "balcony": "{1}", "churn": "{1}"}
    cells = ",".join(values.get(name, "{0}00.25") for name in header.split(","))
    rows = "".join(f"{cells.format(at * 7 % 41, 'yes' if at % 3 else 'no')}\n" for at in range(40))
    (tmp_path / "rows.csv").write_text(f"{header}\n{rows}")
    assert audit(read_table(tmp_path / "rows.csv"))["suggested_target"] == target


def test_ordinary_numbers_and_words_are_not_personal(tmp_path: Path) -> None:
    rows = "".join(
        f"{at},2026-01-{at % 28 + 1:02d},{1234567890123 + at},A-{at},{100.5 * at},{'yes' if at % 3 else 'no'}\n"
        for at in range(40)
    )
    (tmp_path / "rows.csv").write_text(f"id,date,ean,product_name,price,bought\n{rows}")
    assert not [said for said in audit(read_table(tmp_path / "rows.csv"))["warnings"] if "personal" in said]
    for name in ("doctor_visits.csv", "docstrings.csv"):
        assert not [said for said in audit(read_table(Path("examples") / name))["warnings"] if "personal" in said]


def flipped(text: str, rows: dict[int, str]) -> str:
    """The csv with other answers in the last column of some rows (the first is 1)."""
    lines = text.splitlines()
    for row, answer in rows.items():
        lines[row] = f"{lines[row].rpartition(',')[0]},{answer}"
    return "\n".join(lines) + "\n"


def suspicions(tmp_path: Path, text: str, target: str) -> list[str]:
    path = tmp_path / "data.csv"
    path.write_text(text)
    return [said for said in audit(read_table(path), target=target)["warnings"] if "wrong label" in said.lower()]


def test_labels_that_look_wrong_are_named_by_their_lines(tmp_path: Path) -> None:
    iris = sklearn_csv("iris")
    (said,) = suspicions(tmp_path, flipped(iris, {5: "virginica"}), "kind")
    assert "line 6 (“virginica”, looks like “setosa”)" in said
    assert suspicions(tmp_path, iris, "kind") == []


def test_texts_with_labels_that_look_wrong(tmp_path: Path) -> None:
    words = {
        "money": "the invoice and the payment of the bill number",
        "travel": "the train and the hotel of the trip number",
    }
    lines = [f"{words[kind]} {row},{kind}" for row in range(120) for kind in ("money", "travel")]
    text = "\n".join(["text,kind", *lines]) + "\n"
    (said,) = suspicions(tmp_path, flipped(text, {7: "travel"}), "kind")
    assert "line 8 (“travel”, looks like “money”)" in said
    assert suspicions(tmp_path, text, "kind") == []


def test_data_that_are_merely_hard_to_predict_give_no_list(tmp_path: Path) -> None:
    lines = (REPO / "examples/doctor_visits.csv").read_text().splitlines()[:1500]
    assert suspicions(tmp_path, "\n".join(lines) + "\n", "visited_doctor") == []


def zipped(tmp_path: Path, files: dict[str, str]) -> Path:
    path = tmp_path / "data.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_text_files_in_folders_are_a_table_of_texts(tmp_path: Path) -> None:
    words = {"money": "the invoice and the payment of the bill", "travel": "the train and the hotel of the trip"}
    files = {f"mail/{kind}/{row}.txt": f"{text} number {row}\n" for kind, text in words.items() for row in range(30)}
    found = audit(read_table(zipped(tmp_path, files)))
    assert (found["suggested_target"], found["suggested_task"], found["rows"]) == ("label", "text_classification", 60)
    assert found["text_column"] == "text"
    parted = {f"{'test' if int(Path(name).stem) < 6 else 'train'}/{name[5:]}": text for name, text in files.items()}
    assert audit(read_table(zipped(tmp_path, parted)))["split"]["column"] == "part"


def test_one_table_in_an_archive_is_that_table(tmp_path: Path) -> None:
    assert audit(read_table(zipped(tmp_path, {"data/iris.csv": sklearn_csv("iris")})))["rows"] == 150


def test_tables_called_train_and_test_are_one_with_its_parts(tmp_path: Path) -> None:
    header, *rows = sklearn_csv("iris").splitlines()
    train, test = ("\n".join([header, *part]) + "\n" for part in (rows[::2], rows[1::2]))
    table = read_table(zipped(tmp_path, {"iris/train.csv": train, "iris/test.csv": test}))
    assert (table.rows, table.columns["part"].count("test")) == (150, 75)
    assert audit(table)["split"]["column"] == "part"
    unlabelled = "\n".join(line.rpartition(",")[0] for line in [header, *rows[1::2]])
    table = read_table(zipped(tmp_path, {"train.csv": train, "test.csv": unlabelled}))
    assert (table.rows, "part" in table.names) == (75, False)
    assert "Only the training part is read: the columns of test are others." in table.warnings
    table = read_table(
        zipped(tmp_path, {"train.csv": train, "test.csv": unlabelled, "sample_submission.csv": "id,kind\n1,x\n"})
    )
    assert (table.rows, table.warnings[-1]) == (75, "Not read: sample_submission.csv.")


def test_two_texts_side_by_side_are_pairs(tmp_path: Path) -> None:
    lines = {
        "corpus.en": "".join(f"word {n}\n" for n in range(30)),
        "corpus.de": "".join(f"Wort {n}\n" for n in range(30)),
    }
    report = audit(read_table(zipped(tmp_path, lines)))
    assert (report["suggested_task"], report["suggested_target"], report["text_column"]) == ("translation", "de", "en")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a.csv": "x\n1\n", "b.csv": "x\n1\n"}, "not just one table"),
        ({"cat/a.heic": "x", "dog/b.heic": "x"}, "2 end with .heic, which is not read. Send images as JPEG or PNG"),
        ({"a.txt": "x", "b.txt": "y"}, "lie in one folder"),
    ],
)
def test_an_archive_that_says_nothing_is_refused(files: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(BadData, match=said):
        read_table(zipped(tmp_path, files))


def test_a_large_file_is_judged_by_some_of_its_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text(GOOD + GOOD.partition("\n")[2] * 50)
    assert main(["--file", str(tmp_path / "a.csv"), "--name", "a.csv", "--most-cells", "1500"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["rows"] == 2040
    assert "Of the 2,040 rows" in report["warnings"][0]
    assert sum(count for _, count in report["target"]["classes"]) < 800


def test_a_large_file_whose_rows_belong_together_is_read_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    days = "".join(f"2024-{n // 28 + 1:02}-{n % 28 + 1:02},{n % 7}\n" for n in range(300))
    (tmp_path / "a.csv").write_text("day,sales\n" + days)
    assert main(["--file", str(tmp_path / "a.csv"), "--task", "time_series_forecasting", "--most-cells", "200"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert "drawn" not in " ".join(report["warnings"])
