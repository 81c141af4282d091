"""How numbers and classes read on cards."""

from agent.cards import data_card, spec_facts
from agent.domain.datasets import ColumnReport, DataReport, DatasetRef, Leak, Split, TargetReport
from agent.domain.runs import Outcome, RunSpec, RunState, Score, Scorecard
from agent.runs.cards.run_cards import result_card
from tests.agent.test_rules import run_at


def test_the_classes_of_a_target_read_as_counts_with_the_share_of_the_rarest() -> None:
    target = TargetReport(column="fraud", classes=(("0", 2950), ("1", 50)), missing=0, imbalance=59.0)
    report = DataReport(
        dataset=DatasetRef(sha256="0" * 64, name="f.csv", size_bytes=1), rows=3000, columns=(), duplicate_rows=0,
        encoding="utf-8", delimiter=",", preview=(), target=target,
    )  # fmt: skip
    assert data_card(report).facts[-1].value == "fraud: 2,950 × 0, 50 × 1 (1.7 %)"
    leak = Leak(column="code", accuracy=1.0, why="each value goes with one class")
    told = data_card(report.model_copy(update={"leaks": (leak,), "warnings": ("odd",)}))
    assert told.body.splitlines() == [
        "- “code” gives the target away: each value goes with one class. A training leaves it out.", "- odd",
    ]  # fmt: skip
    many = target.model_copy(update={"classes": tuple((f"c{n}", 9 - n) for n in range(7))})
    shown = data_card(report.model_copy(update={"target": many})).facts[-1].value
    assert shown == "fraud: 9 × c0, 8 × c1, 7 × c2, 6 × c3, 5 × c4 and 2 more classes"


def test_what_a_column_holds_reads_as_a_range_or_an_example() -> None:
    price = ColumnReport(name="price", kind="number", missing=0, unique=9, example="1", low=20000.0, high=1234567.5)
    text = ColumnReport(name="text", kind="text", missing=0, unique=9, example="Return element-wise title cased")
    bare = ColumnReport(name="bare", kind="category", missing=9, unique=0, example="")
    report = DataReport(
        dataset=DatasetRef(sha256="0" * 64, name="f.csv", size_bytes=1), rows=9, columns=(price, text, bare),
        duplicate_rows=0, encoding="utf-8", delimiter=",", preview=(),
    )  # fmt: skip
    table = data_card(report).table
    assert table is not None
    assert [row[-1] for row in table.rows] == ["20,000 … 1,234,568", "e.g. Return element-wise tit…", "–"]


def test_a_baseline_that_was_kept_as_the_model_stands_in_the_table_once() -> None:
    baselines = (Score(name="majority", value=0.5), Score(name="linear", value=0.6628))
    score = Scorecard(
        metric="roc_auc", higher_is_better=True, model=Score(name="model", value=0.6628),
        baselines=baselines, all_metrics={"roc_auc": 0.6628}, test_rows=834,
        not_kept=(Score(name="lightgbm", value=0.67),),
    )  # fmt: skip
    note = "Rare classes weighed as much as frequent ones."
    outcome = Outcome(state=RunState.SUCCEEDED, scorecard=score, chosen="linear", notes=(note,))
    card = result_card(run_at(9).model_copy(update={"outcome": outcome, "state": RunState.SUCCEEDED}))
    assert card.table is not None
    assert [row[0] for row in card.table.rows] == ["linear (this run)", "LightGBM (not kept)", "baseline: majority"]
    assert "nothing more complex beat it on the validation part" in card.body  # what was not kept decides nothing
    assert (card.body.count("834"), card.facts) == (1, ())
    assert card.body.endswith(f" {note}")


def test_scores_beside_each_other_have_the_same_decimals() -> None:
    score = Scorecard(
        metric="roc_auc", higher_is_better=True, model=Score(name="model", value=0.7),
        baselines=(Score(name="linear", value=0.6652),), all_metrics={"roc_auc": 0.7, "accuracy": 0.95}, test_rows=400,
    )  # fmt: skip
    run = run_at(9).model_copy(
        update={"outcome": Outcome(state=RunState.SUCCEEDED, scorecard=score), "state": RunState.SUCCEEDED}
    )
    card = result_card(run)
    assert card.title.endswith("ROC AUC 0.7000")
    assert card.table is not None
    assert [row[1] for row in card.table.rows] == ["0.7000", "0.6652"]
    assert "(**linear**, 0.6652) by **0.0348** ROC AUC" in card.body
    assert card.facts[-1].value == "0.9500"


def test_the_test_part_of_a_plan_is_said_as_it_is_taken() -> None:
    def part(task: str, **split: str) -> str:
        data = DatasetRef(sha256="0" * 64, name="f.csv", size_bytes=1)
        way = Split.model_validate(split)
        spec = RunSpec(task=task, recipe=task, dataset=data, split=way, host="h", bundle_sha256="0" * 64)
        return {fact.name: fact.value for fact in spec_facts(spec)}["Test part"]

    assert part("tabular_classification") == "20%, sealed"
    assert part("tabular_classification", kind="given", column="fold") == "as fold says, sealed"
    assert part("time_series_forecasting") == "the last steps of each series, sealed"
    assert part("text_generation") == "20%, of one text its end, sealed"
