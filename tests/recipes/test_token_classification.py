"""Spans: every way in which tags are written, bad input, and real tokens of Python programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.domain.orders import SpansPrediction
from agent.domain.results import Results
from agent.domain.runs import Scorecard
from examples.task_data import token_classification
from tests.recipes.folders import RunFolder, make_run, predict_within
from worker.recipes.common.predict import main as predict_here
from worker.recipes.common.table import BadData, Table, read_table
from worker.recipes.inspect import audit
from worker.recipes.spans.reading import Tagged, tagged
from worker.recipes.spans.tags import counted, measured, spans_of, tags_of, words_in

SMALL = {"epochs": 4, "hidden_size": 64, "layers": 1, "heads": 2, "vocabulary": 600, "max_tokens": 64}


@pytest.mark.parametrize(
    "tags",
    [
        ["B-PER", "I-PER", "O", "B-LOC", "B-LOC"],
        ["B-PER", "L-PER", "O", "U-LOC", "U-LOC"],
        ["B-PER", "E-PER", "O", "S-LOC", "S-LOC"],
        ["I-PER", "I-PER", "O", "I-LOC", "B-LOC"],
    ],
    ids=["IOB2", "BILOU", "BIOES", "IOB1"],
)
def test_a_span_is_the_same_however_it_is_tagged(tags: list[str]) -> None:
    spans = spans_of(tags)
    assert spans == [(0, 2, "PER"), (3, 4, "LOC"), (4, 5, "LOC")]
    assert tags_of(spans, 5) == ["B-PER", "I-PER", "O", "B-LOC", "B-LOC"]


def test_plain_tags_are_runs_beside_an_o_and_single_words_without_one() -> None:
    assert spans_of(["PER", "PER", "O", "LOC"]) == [(0, 2, "PER"), (3, 4, "LOC")]
    assert spans_of(["N", "N", "V"], plain=True) == [(0, 1, "N"), (1, 2, "N"), (2, 3, "V")]


def test_a_span_is_right_where_both_ends_and_the_label_are() -> None:
    wanted, said = ["B-A", "I-A", "O", "B-B"], ["B-A", "O", "O", "B-B"]
    assert counted(wanted, said, plain=False) == (1, 2, 2)
    found = measured([wanted], [said], plain=False)
    assert found == {"span_f1": 0.5, "precision": 0.5, "recall": 0.5, "accuracy": 0.75}


def table_of(tmp_path: Path, text: str, name: str = "data.csv") -> Table:
    (tmp_path / name).write_text(text)
    return read_table(tmp_path / name)


LISTS = [{"tokens": ["Ada", "of", "Paris"], "ner_tags": ["B-PER", "O", "B-LOC"]}] * 3
SPANS = [{"text": "Ada, of Paris", "spans": [{"start": 0, "end": 3, "label": "PER"}, [8, 13, "LOC"]]}] * 3


@pytest.mark.parametrize(
    ("name", "text", "target", "words"),
    [
        ("a.conll", "Ada B-PER\nof O\nParis B-LOC\n\n" * 3, "tag", ["Ada", "of", "Paris"]),
        ("a.csv", "sent_id,word,ner\n" + "".join(f"{at},Ada,PER\n{at},of,O\n{at},Paris,LOC\n" for at in range(3)),
         "ner", ["Ada", "of", "Paris"]),
        ("a.csv", "Sentence #,Word,Tag\n" + "".join(f"S: {at},Ada,B-PER\n,of,O\n,Paris,B-LOC\n" for at in range(3)),
         "Tag", ["Ada", "of", "Paris"]),
        ("a.conll", "# made by hand\n" + "Ada B-PER\nof O\nParis B-LOC\n\n" * 3, "tag", ["Ada", "of", "Paris"]),
        ("a.json", json.dumps(LISTS), "ner_tags", ["Ada", "of", "Paris"]),
        ("a.csv", "tokens,tags\n" + "Ada of Paris,PER O LOC\n" * 3, "tags", ["Ada", "of", "Paris"]),
        ("a.jsonl", "\n".join(map(json.dumps, SPANS)), "spans", ["Ada", ",", "of", "Paris"]),
    ],
    ids=["conll", "rows", "rows with one number a sentence", "conll with a remark", "lists", "strings", "spans"],
)  # fmt: skip
def test_tags_are_read_however_they_stand_in_a_file(
    name: str, text: str, target: str, words: list[str], tmp_path: Path
) -> None:
    table = table_of(tmp_path, text, name)
    found = tagged(table, target)
    assert [sentence.words for sentence in found.sentences] == [words] * 3
    assert found.labels() == {"PER": 3, "LOC": 3}
    report = audit(table, task="token_classification")
    assert report["suggested_target"] == target
    assert "spans in 3 sentences" in report["target"]["about"]
    assert report["warnings"] or report["problems"]  # that there are too few


def read(tmp_path: Path, text: str, target: str, name: str = "data.jsonl") -> Tagged:
    return tagged(table_of(tmp_path, text, name), target)


@pytest.mark.parametrize(
    ("name", "text", "target", "said"),
    [
        ("a.csv", "id,tags\n" + "1,A B\n" * 3, "tags", "No column beside “tags” holds its tokens"),
        ("a.csv", "token,tag\n" + "x,A\n" * 3, "tag", "No column says to which sentence a token belongs"),
        ("a.csv", "sentence,token,tag\n1,x,A\n1,y,\n", "tag", "Line 3: “tag” is empty"),
        ("a.jsonl", '{"text": "abc", "spans": [{"start": 1, "end": 9, "label": "X"}]}\n' * 2, "spans",
         "Line 1: the span from 1 to 9 does not lie in its text of 3 characters"),
        ("a.jsonl", '{"text": "abc", "spans": [{"start": 1, "end": 2}]}\n' * 2, "spans",
         "Line 1: a span needs start, end and label"),
        ("a.jsonl", "\n".join([json.dumps(LISTS[0])] * 20 + ['{"tokens": ["a"], "ner_tags": ["O", "O"]}']), "ner_tags",
         "Line 21: 1 tokens but 2 tags"),
    ],
)  # fmt: skip
def test_bad_input_gets_a_sentence(name: str, text: str, target: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(BadData, match=said):
        read(tmp_path, text, target, name)


def test_spans_that_overlap_or_cut_a_word_are_said(tmp_path: Path) -> None:
    spans = [[0, 2, "A"], [2, 7, "B"], [8, 9, "C"]]
    found = read(tmp_path, json.dumps({"text": "Adam of x", "spans": spans}) + "\n", "spans")
    assert found.tags == [["B-A", "O", "B-C"]]
    assert found.said == [
        "1 span overlaps an earlier one: left out.",
        "1 span begins or ends within a word: read as whole words.",
    ]


def test_lists_beside_a_moment_are_no_tags(tmp_path: Path) -> None:
    rows = [{"at": f"2026-01-01 00:00:{n:02d}", "kinds": ["a", "b"], "sold": "yn"[n % 2]} for n in range(30)]
    table = table_of(tmp_path, "\n".join(map(json.dumps, rows)), "rows.jsonl")
    assert audit(table)["suggested_task"] == "tabular_classification"


def test_a_table_of_other_things_is_not_taken_for_tags(tmp_path: Path) -> None:
    table = table_of(tmp_path, "tag,size\n" + "".join(f"{'ab'[at % 2]},{at * 1.5}\n" for at in range(40)))
    assert audit(table, target="tag")["suggested_task"] == "tabular_classification"
    assert audit(table)["suggested_task"] != "token_classification"


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    at = tmp_path_factory.mktemp("code")
    data = token_classification(at, lines=400)
    run = make_run(at, data.read_bytes(), "spans", recipe="token_classification", settings=SMALL)
    run.all_steps_here()
    return run


def test_tokens_of_programs_are_found_better_than_by_their_most_frequent_tag(code: RunFolder) -> None:
    card = Scorecard.model_validate(code.json("scorecard.json"))
    assert (card.metric, card.higher_is_better) == ("span_f1", True)
    assert [score.name for score in card.baselines] == ["most_frequent"]
    kept = code.json("artifacts/metrics.json")["chosen"]
    assert {score.name for score in card.not_kept} == {"encoder"} - {kept}
    assert card.model.value > card.baselines[0].value
    assert card.interval is not None
    assert card.interval[0] < card.model.value < card.interval[1]
    names = {name for row in code.metrics() for name in row["values"]}
    assert {"valid_span_f1", "baseline/most_frequent/valid_span_f1", "train_loss"} <= names


def test_no_tag_of_the_test_part_lies_in_the_run(code: RunFolder) -> None:
    assert set(code.rows("data/test.csv")[0]) == {"row_id", "text", "words"}
    assert not (code.dir / "data/source.csv").exists()
    shared = {row["text"] for row in code.rows("data/test.csv")} & {row["text"] for row in code.rows("data/train.csv")}
    assert shared == set()
    assert all(json.loads(row["words"]) == [list(at) for at in words_in(row["text"])]
               for row in code.rows("data/test.csv"))  # fmt: skip


def test_pictures_show_labels_mistakes_and_mixed_up_words(code: RunFolder) -> None:
    found = Results.model_validate(code.json("results.json")).found
    assert found.kind == "pictured"
    assert [shown.view for shown in found.pictures] == ["classes", "mistakes", "confusion"]
    assert "sentences have a word with a wrong tag" in found.words


def test_predicting_alone_gives_the_spans_of_the_run_and_of_a_sentence(
    code: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    artifacts = code.dir / "artifacts"
    assert predict_within(artifacts, str(code.dir / "data/test.csv"), "--out", str(tmp_path / "out.csv")) == 0
    capsys.readouterr()
    run = RunFolder(tmp_path, tmp_path)
    for row, said in zip(run.rows("out.csv"), code.rows("predictions/model.csv"), strict=True):
        places = json.loads(row["words"])
        spans = [[places[first][0], places[behind - 1][1], label]
                 for first, behind, label in spans_of(json.loads(said["label"]))]  # fmt: skip
        assert [[one["start"], one["end"], one["label"]] for one in json.loads(row["prediction"])] == spans
    rows = tmp_path / "rows.json"
    rows.write_text(json.dumps([{"text": "return None"}, {"text": ""}]))
    assert predict_here(["--json", str(rows)], artifacts) == 0
    first, empty = [SpansPrediction.model_validate(one) for one in json.loads(capsys.readouterr().out)]
    assert first.text[first.spans[0].start : first.spans[0].end] == "return"
    assert empty.spans == ()
    assert not list(artifacts.rglob("*.bin"))


def test_a_paused_training_goes_on_to_the_same_weights(code: RunFolder, tmp_path: Path) -> None:
    run = code.copy(tmp_path)
    before = run.rows("predictions/model.csv")
    assert run.train_here() == 0  # every step is in its checkpoint
    assert run.rows("predictions/model.csv") == before


UNIVERSAL = "\n".join(
    [
        "# sent_id = {}",
        *(row + "\t_" * (9 - row.count("\t")) for row in ("1-2\tIt's", "1\tIt\tit\tPRON", "2\t's\tbe\tAUX")),
        "\n",
    ]
)


@pytest.mark.parametrize(
    "text",
    ["".join(map(UNIVERSAL.format, range(3))), "It PRON\n's AUX\n\n" * 3],
    ids=["CoNLL-U", "two columns"],
)
def test_files_of_parts_of_speech_are_token_files(text: str, tmp_path: Path) -> None:
    found = read(tmp_path, text, "tag", "a.txt")
    assert [sentence.words for sentence in found.sentences] == [["It", "'s"]] * 3
    assert found.tags == [["PRON", "AUX"]] * 3


def test_a_zero_among_numbers_is_no_span(tmp_path: Path) -> None:
    rows = [{"tokens": ["Ada", "saw", "it"], "ner_tags": [1, 0, 0]}] * 3
    found = read(tmp_path, "\n".join(map(json.dumps, rows)), "ner_tags")
    assert found.labels() == {"1": 3}
    assert "0 is read as “O”" in found.said[0]


def test_a_line_that_is_no_token_is_named_wherever_it_stands(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"Line 121: a token file has a token and its tag"):
        table_of(tmp_path, "Ada B-PER\nis O\n\n" * 40 + "Lonely\n", "a.conll")


def test_parts_of_speech_are_scored_word_by_word_and_few_sentences_refused(tmp_path: Path) -> None:
    sentence = "The DET\ndog NOUN\nruns VERB\n"
    rows = "".join(f"{at},{line.replace(' ', ',')}\n" for at in range(5) for line in sentence.splitlines())
    run = make_run(tmp_path, f"sentence,token,pos\n{rows}", "pos", recipe="token_classification", settings=SMALL)
    assert tagged(read_table(run.dir / "data/source.csv"), "pos").plain
    assert run.prepare_here() == 65
    assert "There are only 5 sentences; at least 20 are needed" in run.json("error.json")["text"]


def test_a_table_with_a_token_a_row_is_told_from_one_of_classes(tmp_path: Path) -> None:
    rows = [f"{at},{word},{tag}" for at in range(30) for word, tag in (("Anna", "B-PER"), ("sings", "O"))]
    (tmp_path / "a.csv").write_text("\n".join(["sentence_id,word,tag", *rows]) + "\n")
    assert audit(read_table(tmp_path / "a.csv"))["suggested_task"] == "token_classification"
