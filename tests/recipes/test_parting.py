"""Ways to split: what the data suggest, what people say, and what must not happen."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.recipes.folders import Make, RunFolder
from worker.recipes.common.holdout import Holdout, read_holdout
from worker.recipes.common.job import read_job
from worker.recipes.common.sealing import sealed_groups
from worker.recipes.common.table import read_table
from worker.recipes.inspect import audit

DICE = random.Random(5)


def visits(rows: int = 240) -> str:
    """Several rows of a patient, in the order of their days, and the part that somebody gave each."""
    dice, lines = random.Random(5), ["patient_id,day,age,part,ill"]
    for row in range(rows):
        patient, part = row % 40, "test" if row % 40 < 8 else "train"
        day = f"2024-{1 + row // 28:02}-{1 + row % 28:02}"
        lines.append(
            f"p{patient},{day},{30 + patient + 0.9 * dice.random():.2f},{part},{'yes' if dice.random() < 0.5 else 'no'}"
        )
    return "\n".join(lines) + "\n"


def audited(text: str, folder: Path, **asked: Any) -> dict[str, Any]:
    path = folder / "visits.csv"
    path.write_text(text)
    return audit(read_table(path), target="ill", **asked)


def parts(make: Make, text: str, **spec: Any) -> tuple[list[dict[str, str]], list[dict[str, str]], Any]:
    run = make(text, "ill", **spec)
    code = run.prepare_here()
    return (run.rows("data/train.csv"), run.rows("data/test.csv"), run) if not code else ([], [], run)


def test_parts_that_the_data_name_are_kept(make: Make, tmp_path: Path) -> None:
    found = audited(visits(), tmp_path)
    assert (found["split"]["kind"], found["split"]["column"]) == ("given", "part")
    train, test, run = parts(make, visits(), split={"kind": "given", "column": "part"})
    assert (len(train), len(test)) == (192, 48)
    assert {row["patient_id"] for row in test} == {f"p{number}" for number in range(8)}
    assert "part" not in train[0]
    assert run.json("data/split.json")["how"] == ", as “part” says"


def test_rows_that_stand_in_both_given_parts_are_told(tmp_path: Path) -> None:
    lines = visits().splitlines()
    header, first = lines[0], next(line for line in lines if ",train," in line)
    text = "\n".join([header, *lines[1:], first.replace(",train,", ",test,")]) + "\n"
    (said,) = [warning for warning in audited(text, tmp_path)["warnings"] if "same inputs as a training row" in warning]
    assert "1 of its 49 test rows" in said
    assert f"line {len(lines) + 1} = line {lines.index(first) + 1}" in said


def test_groups_are_not_torn_apart(make: Make, tmp_path: Path) -> None:
    text = "\n".join(line.replace(",train,", ",a,").replace(",test,", ",b,") for line in visits().splitlines()) + "\n"
    found = audited(text, tmp_path)
    assert (found["split"]["kind"], found["split"]["column"]) == ("group", "patient_id")
    assert any("6.0 rows each" in warning for warning in found["warnings"])
    train, test, _ = parts(make, text, split={"kind": "group", "column": "patient_id"})
    assert "patient_id" not in train[0]
    ages = {line.split(",")[2]: line.split(",")[0] for line in text.splitlines()[1:]}
    assert not {ages[row["age"]] for row in train} & {ages[row["age"]] for row in test}
    assert 30 <= len(test) <= 60


def test_the_newest_rows_are_the_test_part(make: Make) -> None:
    train, test, _ = parts(make, visits(), split={"kind": "time", "column": "day"})
    assert max(row["day"] for row in train) < min(row["day"] for row in test)
    assert len(test) == 48


@pytest.mark.parametrize(
    ("split", "said"),
    [
        ({"kind": "given", "column": "age"}, "“age” does not name the parts"),
        ({"kind": "time", "column": "age"}, "“age” holds no dates"),
        ({"kind": "group", "column": "nobody"}, "There is no split column “nobody”"),
    ],
)
def test_a_way_that_cannot_work_is_refused(make: Make, split: dict[str, str], said: str) -> None:
    run = make(visits(), "ill", split=split)
    assert run.prepare_here() == 65
    assert said in run.json("error.json")["text"]


def without_patients(*, shuffled: bool) -> str:
    header, *rows = [",".join(line.split(",")[1:3] + line.split(",")[4:]) for line in visits().splitlines()]
    if shuffled:
        random.Random(2).shuffle(rows)
    return "\n".join([header, *rows]) + "\n"


def test_rows_in_the_order_of_their_dates_are_split_by_time(tmp_path: Path) -> None:
    found = audited(without_patients(shuffled=False), tmp_path)
    assert (found["split"]["kind"], found["split"]["column"]) == ("time", "day")
    assert any("stand in the order of “day”" in warning for warning in found["warnings"])


def test_dates_are_pointed_out_where_rows_are_split_at_random(tmp_path: Path) -> None:
    found = audited(without_patients(shuffled=True), tmp_path)
    assert found["split"]["kind"] == "random"
    assert any("`split=day`" in warning for warning in found["warnings"])


def test_a_number_that_repeats_with_what_belongs_to_it_makes_groups(tmp_path: Path) -> None:
    lines = [f"k{row % 40},{20 + row % 40 // 2},{DICE.random():.3f},{DICE.choice(['yes', 'no'])}" for row in range(240)]
    found = audited("\n".join(["case_no,age,value,ill", *lines]) + "\n", tmp_path)
    assert (found["split"]["kind"], found["split"]["column"]) == ("group", "case_no")
    loose = [line.replace(f",{line.split(',')[1]},", f",{DICE.randrange(20)},") for line in lines]
    assert audited("\n".join(["case_no,age,value,ill", *loose]) + "\n", tmp_path)["split"]["kind"] == "random"


def copied(rows: int = 300, copies: int = 90) -> str:
    """Rows of which some are copies of another one, each with a number of its own; a copy may have another answer."""
    dice = random.Random(11)
    plain = [f"{dice.random():.3f},{dice.random():.3f},{dice.choice(['yes', 'no'])}" for _ in range(rows - copies)]
    plain += [dice.choice(plain) for _ in range(copies - 1)]
    odd = plain[0].replace("yes", "?").replace("no", "yes").replace("?", "no")
    return "row_nr,a,b,ill\n" + "".join(f"{at},{line}\n" for at, line in enumerate([*plain, odd]))


def inputs_of(rows: list[dict[str, str]]) -> list[tuple[str, str]]:
    return [(row["a"], row["b"]) for row in rows]


def test_a_row_is_not_measured_that_has_been_learned(make: Make, tmp_path: Path) -> None:
    (said,) = [said for said in audited(copied(), tmp_path)["warnings"] if "repeat the inputs" in said]
    assert said.startswith("90 rows repeat the inputs of another one. Equal inputs will be kept on one side")
    assert "1 of these inputs stand with different answers" in said
    train, test, run = parts(make, copied())
    assert not set(inputs_of(train)) & set(inputs_of(test))
    assert len(test) > 40
    fit, held = split_again(run, train)
    assert not set(inputs_of(fit)) & set(inputs_of(held))


@pytest.mark.parametrize("kind", ["group", "time"])
def test_a_column_that_is_left_out_may_still_part_the_rows(make: Make, kind: str) -> None:
    column = {"group": "patient_id", "time": "day"}[kind]
    train, test, run = parts(make, visits(), split={"kind": kind, "column": column}, drop_columns=[column, "part"])
    assert not {column, "part"} & {*train[0], *test[0]}
    ages = [{row["age"].split(".")[0] for row in rows} for rows in (train, test)]  # one a patient
    assert kind == "time" or not ages[0] & ages[1]
    assert run.train_here() == 0


def split_again(run: RunFolder, train: list[dict[str, str]]) -> list[list[dict[str, str]]]:
    """The training rows as a training parts them."""
    found = read_holdout(read_job(run.dir)).split([row["ill"] for row in train], frac=0.2, seed=3, classes=True)
    return [[train[row] for row in rows] for rows in found]


def test_groups_hold_in_validation_and_intervals_too(make: Make) -> None:
    train, test, run = parts(make, visits(), split={"kind": "group", "column": "patient_id"}, drop_columns=["part"])
    fit, held = split_again(run, train)
    assert not {row["age"].split(".")[0] for row in fit} & {row["age"].split(".")[0] for row in held}
    groups = sealed_groups(run.sealed, [row["row_id"] for row in test])
    assert groups is not None
    assert len(set(groups)) == len({row["age"].split(".")[0] for row in test})
    score = run.train_here() or run.evaluate_here() or run.json("scorecard.json")
    assert score["test_rows"] == len(test)


def test_validation_is_newer_than_what_was_learned(make: Make) -> None:
    train, _, run = parts(make, visits(), split={"kind": "time", "column": "day"})
    fit, held = split_again(run, train)
    assert max(row["day"] for row in fit) < min(row["day"] for row in held)
    assert 30 <= len(held) <= 45


def test_folds_by_time_go_back_step_by_step() -> None:
    order = np.arange(100)
    folds = Holdout(order=order).splits([""] * 100, 5, frac=0.2, seed=1)
    assert [(int(held[0]), int(held[-1])) for _, held in folds] == [(90, 99), (80, 89), (70, 79), (60, 69), (50, 59)]
    assert all(fit[-1] < held[0] for fit, held in folds)


def tagged_sentences() -> str:
    rows = [{"doc": f"d{at % 12}", "tokens": ["in", f"town{at}"], "tags": ["O", "B-LOC"]} for at in range(60)]
    return "".join(json.dumps(row) + "\n" for row in rows)


def conversations() -> str:
    rows = [{"doc": f"d{at % 12}", "prompt": f"What is {at}?", "completion": f"{at}"} for at in range(60)]
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("recipe", "target", "text"),
    [("token_classification", "tags", tagged_sentences()), ("llm_finetuning", "completion", conversations())],
)
def test_sentences_and_conversations_are_split_by_groups_too(recipe: str, target: str, text: str, make: Make) -> None:
    run = make(text, target, recipe=recipe, settings={}, split={"kind": "group", "column": "doc"})
    assert run.prepare_here() == 0
    test = run.rows("data/test.csv")
    groups = sealed_groups(run.sealed, [row["row_id"] for row in test])
    assert groups is not None
    assert len(test) == 5 * len(set(groups))  # whole documents
    assert len(set(read_holdout(read_job(run.dir)).groups or ())) == 12 - len(set(groups))


def test_that_the_few_possible_inputs_repeat_means_nothing(make: Make, tmp_path: Path) -> None:
    dice = random.Random(4)
    lines = [f"{dice.choice('ab')},{dice.choice('xyz')},{dice.choice(['yes', 'no'])}" for _ in range(200)]
    text = "\n".join(["a,b,ill", *lines]) + "\n"
    assert not [said for said in audited(text, tmp_path)["warnings"] if "one side" in said]
    train, test, _ = parts(make, text)
    assert set(inputs_of(train)) == set(inputs_of(test))
