"""What a result card says of how sure a score is."""

from agent.domain.runs import Score, Scorecard
from agent.runs.cards.run_cards import verdict


def card(value: float, gain: tuple[float, float] | None) -> Scorecard:
    baselines = (Score(name="linear", value=0.70),)
    model = Score(name="model", value=value)
    return Scorecard(
        metric="roc_auc", higher_is_better=True, model=model, baselines=baselines, all_metrics={}, test_rows=200,
        interval=(value - 0.02, value + 0.02), gain=gain,
    )  # fmt: skip


def test_a_gain_that_chance_explains_is_none() -> None:
    said = verdict(card(0.71, (-0.02, 0.04)), "lightgbm")
    assert said.startswith("**Not distinguishable from the baseline linear** (0.7000 ROC AUC)")
    assert "between -0.0200 and +0.0400" in said
    assert said.endswith("Take the simpler one.")


def test_a_sure_gain_says_how_sure() -> None:
    said = verdict(card(0.75, (0.03, 0.07)), "lightgbm")
    assert said.startswith("Better than the best baseline (**linear**, 0.7000) by **0.0500** ROC AUC")
    assert "(95 %: between +0.0300 and +0.0700)" in said


def test_a_result_of_an_earlier_version_has_no_interval() -> None:
    said = verdict(card(0.75, None), "lightgbm")
    assert "95 %" not in said
    assert "by **0.0500** ROC AUC, measured once" in said


def test_worse_beyond_chance_is_said() -> None:
    assert verdict(card(0.60, (-0.12, -0.08)), "lightgbm").startswith("**Not better than the baseline linear**")
