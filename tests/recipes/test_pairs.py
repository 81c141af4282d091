"""Summaries and translations: which columns are pairs, what is measured, and small networks trained on real pairs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from agent.domain.pictures import Table as TablePicture
from agent.domain.results import Results
from examples.number_words import english, french
from examples.task_data import documented
from tests.recipes.folders import RunFolder, make_run
from worker.recipes.common.predict import main as predict_here
from worker.recipes.common.table import read_table
from worker.recipes.inspect import audit
from worker.recipes.pairs.bleu import Bleu
from worker.recipes.pairs.finding import summary_pair, translation_pair
from worker.recipes.pairs.rouge import Rouge, rouge
from worker.recipes.pairs.simple import Lead, learned_dictionary

SMALL = {"max_steps": 20, "hidden_size": 32, "layers": 1, "heads": 2, "vocabulary": 400, "max_target_tokens": 16}
NUMBERS = "english,french\n" + "".join(f"{english(number)},{french(number)}\n" for number in range(1000, 1120))


def table(tmp_path: Path, text: str) -> object:
    (tmp_path / "pairs.csv").write_text(text, encoding="utf-8")
    return read_table(tmp_path / "pairs.csv")


@pytest.mark.parametrize(
    ("said", "wanted", "scores"),
    [
        ("the cat sat", "the cat sat", (1.0, 1.0, 1.0)),
        ("The cat, sat!", "the cat sat", (1.0, 1.0, 1.0)),
        ("the cat", "the cat sat down", (2 / 3, 0.5, 2 / 3)),
        ("sat cat the", "the cat sat", (1.0, 0.0, 1 / 3)),
        ("dog", "cat", (0.0, 0.0, 0.0)),
        ("", "cat", (0.0, 0.0, 0.0)),
        ("東京です", "東京だ", (4 / 7, 0.4, 4 / 7)),
    ],
)
def test_rouge_is_what_it_is_by_hand(said: str, wanted: str, scores: tuple[float, float, float]) -> None:
    assert rouge(said, wanted) == pytest.approx(scores)


def test_remarks_on_where_a_text_comes_from_are_not_translated(tmp_path: Path) -> None:
    rows = "".join(f"word {n}\tWort {n}\tCC-BY 2.0 (France) Attribution: #{n}\n" for n in range(30))
    (tmp_path / "pairs.tsv").write_text(f"a\tb\tfrom\n{rows}")
    report = audit(read_table(tmp_path / "pairs.tsv"), task="translation")
    assert (report["text_column"], report["suggested_target"]) == ("a", "b")


def test_a_measure_of_chosen_rows_is_that_of_these_rows() -> None:
    said, wanted = ["a b c", "one two three", "x"], ["a b d", "one two three", "y"]
    for measure in (Rouge(), Bleu()):
        rows = measure.statistics(said, wanted)
        some = measure.scores(rows[np.array([1])])
        assert some == pytest.approx(measure.scores(measure.statistics(said[1:2], wanted[1:2])))
    assert Bleu().scores(Bleu().statistics(said[1:2], wanted[1:2]))["chrf"] == pytest.approx(100.0)


def test_columns_that_are_pairs(tmp_path: Path) -> None:
    long = "A long report about the weather of this week and what it did to the harvest, "
    rows = "".join(f'"{long}part {at}.",short words {at},w{at}\n' for at in range(20))
    assert summary_pair(table(tmp_path, f"article,headline,id\n{rows}")) == ("article", "headline")  # type: ignore[arg-type]
    assert summary_pair(table(tmp_path, f"a,b,id\n{rows}")) is None  # type: ignore[arg-type]
    assert summary_pair(table(tmp_path, f"a,b,id\n{rows}"), asked=True) == ("a", "b")  # type: ignore[arg-type]
    pairs = "".join(f"good morning {at},guten Morgen {at}\n" for at in range(20))
    for names in ("en,de", "text_en,text_de", "English,German"):
        source, target = names.split(",")
        assert translation_pair(table(tmp_path, f"{names}\n{pairs}")) == (source, target)  # type: ignore[arg-type]
    assert translation_pair(table(tmp_path, f"de,en\n{pairs}")) == ("en", "de")  # type: ignore[arg-type]
    assert translation_pair(table(tmp_path, f"source,target\n{pairs}")) == ("source", "target")  # type: ignore[arg-type]


def test_the_audit_says_what_is_written_from_what_and_what_is_wrong(tmp_path: Path) -> None:
    report = audit(table(tmp_path, NUMBERS + "one,un\none,un\n"))  # type: ignore[arg-type]
    assert (report["suggested_task"], report["suggested_target"]) == ("translation", "french")
    assert report["text_column"] == "english"
    assert any("“french” is written from “english”" in said for said in report["warnings"])
    assert any("1 row repeats the text of another one" in said for said in report["warnings"])
    same = "english,french\n" + "".join(f"word number {at},word number {at}\n" for at in range(20))
    (said,) = audit(table(tmp_path, same), target="french", task="translation")["problems"]  # type: ignore[arg-type]
    assert "is the same as “english” in 20 of 20 rows" in said
    lone = "french\n" + "".join(f"mot numéro {at}\n" for at in range(20))
    (said,) = audit(table(tmp_path, lone), target="french", task="translation")["problems"]  # type: ignore[arg-type]
    assert "There is no column with the text" in said


def test_writers_without_a_network() -> None:
    assert Lead(2).texts(["One. Two! Three?", "Only one"]) == ["One. Two!", "Only one"]
    known = learned_dictionary(["the red house", "the blue house", "a red car"], ["la rouge", "la bleue", "une rouge"])
    assert known.texts(["the red house"]) == ["la rouge"]
    assert "rouge" in known.texts(["red sky"])[0]


@pytest.fixture(scope="module")
def translated(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    run = make_run(tmp_path_factory.mktemp("translation"), NUMBERS, "french", recipe="translation", settings=SMALL)
    run.all_steps_here()
    return run


def test_a_translator_is_measured_beside_a_copy_and_a_dictionary(translated: RunFolder) -> None:
    card = translated.json("scorecard.json")
    assert (card["metric"], card["higher_is_better"], card["test_rows"]) == ("chrf", True, 24)
    scores = {score["name"]: score["value"] for score in card["baselines"]}
    assert scores["dictionary"] > scores["copy"] + 20
    kept = translated.json("artifacts/metrics.json")["chosen"]
    assert {score["name"] for score in card["not_kept"]} == {"network"} - {kept}
    low, high = card["interval"]
    assert low <= card["model"]["value"] <= high
    results = Results.model_validate_json((translated.dir / "results.json").read_bytes())
    samples = results.found.pictures[0].picture  # type: ignore[union-attr]
    assert isinstance(samples, TablePicture)
    assert samples.columns[:3] == ("read", "reference", "this model")
    rows = [row for row in translated.metrics() if "train_loss" in row["values"]]
    assert [row["step"] for row in rows] == list(range(1, 21))


def test_what_it_predicts_alone_is_what_was_measured(
    translated: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = translated.rows("predictions/model.csv")
    test = {row["row_id"]: row for row in translated.rows("data/test.csv")}
    (tmp_path / "new.csv").write_text("english\n" + "".join(f"{test[row['row_id']]['english']}\n" for row in held))
    artifacts = translated.dir / "artifacts"
    assert predict_here([str(tmp_path / "new.csv"), "--out", str(tmp_path / "out.csv")], folder=artifacts) == 0
    said = read_table(tmp_path / "out.csv").columns["prediction"]
    assert said == [row["label"] for row in held]
    assert not [path for path in artifacts.rglob("*") if path.suffix in {".pkl", ".bin", ".pt"}]
    (tmp_path / "rows.json").write_text(json.dumps([{"english": "one thousand two"}]))
    capsys.readouterr()
    assert predict_here(["--json", str(tmp_path / "rows.json")], folder=artifacts) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert answer["kind"] == "text"


def test_summaries_are_measured_beside_first_sentences(tmp_path: Path) -> None:
    pairs = documented("scipy.stats")[:100]
    lines = "".join(f"{json.dumps({'text': text, 'summary': summary})}\n" for text, summary in pairs)
    run = make_run(tmp_path, lines, "summary", recipe="summarization", settings={**SMALL, "max_source_tokens": 64})
    card = run.all_steps_here()
    assert card["metric"] == "rouge_l"
    (lead,) = card["baselines"]
    assert lead["name"] == "lead"
    assert 0.05 < lead["value"] < 0.6
    assert set(card["all_metrics"]) == {"rouge_1", "rouge_2", "rouge_l"}
