"""The planner explains metrics and terms where nothing else is asked."""

import pytest

from agent.domain.tasks import TASKS, metric_label
from agent.llm.requests.terms import explained


@pytest.mark.parametrize("name", sorted({metric.name for task in TASKS.values() for metric in task.metrics}))
def test_each_metric_that_decides_is_explained(name: str) -> None:
    assert explained(f"what does {metric_label(name)} mean?") is not None


@pytest.mark.parametrize(
    ("words", "begin"),
    [
        ("What is macro F1?", "Macro F1 is the mean"),
        ("what's a baseline again?", "A baseline is"),
        ("explain overfitting to me please", "A model overfits"),
        ("how do I read the confusion matrix?", "The confusion matrix"),
        ("so what does the 95 % interval mean here?", "The 95 % interval"),
        ("what does “TF-IDF” stand for", "TF-IDF counts"),
        ("I don't understand what early stopping is", "Early stopping"),
        ("was bedeutet die Lernrate?", "The learning rate"),
        ("c'est quoi la precision ?", "Precision is"),
        ("¿qué es el recall?", "Recall is"),
        ("什么是混淆矩阵？", "The confusion matrix"),
        ("AUC是什么意思？", "ROC AUC says"),
    ],
)
def test_a_question_for_a_meaning_is_answered(words: str, begin: str) -> None:
    assert (explained(words) or "").startswith(begin)


@pytest.mark.parametrize(
    "words",
    [
        "what is the AUC?",
        "what is the AUC of r-abc123?",
        "what is the best learning rate?",
        "explain the result",
        "what does the model say?",
        "what is in churn.csv?",
        "was ist der Verlust?",
        "show the confusion matrix",
        "what is precision at step 100",
    ],
)
def test_a_question_for_a_value_is_none(words: str) -> None:
    assert explained(words) is None
