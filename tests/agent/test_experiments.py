"""Runs as experiments: which stand beside each other, the best so far, the front, and the tool over a real store."""

import math
from datetime import timedelta
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.domain.events import Ended
from agent.domain.pictures import Progress, Scatter, Tree
from agent.domain.runs import Outcome, Run, RunState, Score
from agent.runs.charts.experiments import experiments_of, picture_of, table_of, tree_of, words_of
from charts_render.alt_text import describe
from charts_render.render import render
from tests.agent.conftest import Harness
from tests.agent.engine import SPEC
from tests.agent.facts import CARD
from tests.agent.intents import intent_of
from tests.agent.stage import Stage
from tests.fakes import START, clicked, said

_NUMBERS = count()
_S = RunState


def run_of(
    value: float | None = None,
    *,
    state: RunState = _S.SUCCEEDED,
    seconds: float = 60.0,
    seed: int = 7,
    metric: str = "",
    parent: str = "",
) -> Run:
    number = next(_NUMBERS)
    card = None
    if value is not None:
        card = CARD.model_copy(update={"model": Score(name="model", value=value), "metric": metric or CARD.metric})
    outcome = Outcome(state=state, scorecard=card, seconds=seconds)
    return Run(
        id=f"r-{number:06}",
        session_id="s",
        requester="u",
        state=state,
        spec=SPEC.model_copy(update={"seed": seed, "cloned_from": parent}),
        created_at=START + timedelta(minutes=number),
        outcome=outcome,
        used_s=seconds,
    )


def test_only_what_beats_all_before_it_is_kept() -> None:
    runs = [run_of(0.6), run_of(0.5), run_of(state=_S.FAILED), run_of(0.6), run_of(0.7), run_of(state=_S.RUNNING)]
    found = experiments_of(runs[::-1])
    assert found is not None
    assert [trial.state for trial in found.trials] == [
        "kept", "discarded", "crashed", "discarded", "kept", "running",
    ]  # fmt: skip
    assert [trial.number for trial in found.trials] == [1, 2, 3, 4, 5, 6]
    assert math.isnan(found.trials[2].value)
    assert [run.id for run, _ in found.measured] == [runs[at].id for at in (4, 0, 3, 1)]
    assert f"Best accuracy of 6 experiments: `{runs[4].id}` with 0.7000 after 1 min 00 s of training." == words_of(
        found
    )


def test_what_was_measured_otherwise_does_not_stand_beside_it() -> None:
    runs = [run_of(0.99, seed=1), run_of(0.98, metric="macro_f1"), run_of(state=_S.STOPPED), run_of(0.5)]
    found = experiments_of(runs)
    assert found is not None
    assert [run.id for run in found.runs] == [runs[3].id]
    assert "3 other runs were measured otherwise, or not at all, and are left out." in words_of(found)
    assert experiments_of([run_of(state=_S.FAILED)]) is None
    assert experiments_of([]) is None


def test_a_score_that_is_no_number_ranks_nothing() -> None:
    assert experiments_of([run_of(math.nan), run_of(math.nan)]) is None
    runs = [run_of(0.5), run_of(math.nan)]
    found = experiments_of(runs)
    assert found is not None
    assert [run.id for run, _ in found.measured] == [runs[0].id]
    assert [row[1] for row in table_of(found).rows] == ["0.5000", "–"]
    assert render(picture_of(found)).startswith(b"\x89PNG")


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 1e5)), min_size=2, max_size=30))
def test_nothing_beats_the_front_in_both(given_runs: list[tuple[float, float]]) -> None:
    found = experiments_of([run_of(value, seconds=seconds) for value, seconds in given_runs])
    assert found is not None
    progress, cloud = picture_of(found).pictures
    assert isinstance(progress, Progress)
    assert isinstance(cloud, Scatter)
    size = 60.0 if "minutes" in cloud.x_label else 1.0
    front = set(zip(cloud.groups[0].x, cloud.groups[0].y, strict=True))
    every = {(seconds / size, value) for value, seconds in given_runs}
    best = {
        (cost, value)
        for cost, value in every
        if not any(c <= cost and v >= value and (c, v) != (cost, value) for c, v in every)
    }
    assert front == best
    assert sum(len(group.x) for group in cloud.groups) == len(given_runs)


def test_it_is_drawn_and_said() -> None:
    found = experiments_of([run_of(0.6), run_of(0.5, seconds=20), run_of(state=_S.FAILED), run_of(0.7, seconds=90)])
    assert found is not None
    assert render(picture_of(found)).startswith(b"\x89PNG")
    assert "best accuracy so far" in describe(picture_of(found))
    table = table_of(found)
    assert [row[1] for row in table.rows] == ["0.7000", "0.6000", "0.5000", "–"]
    assert table.rows[3][3] == "failed"


def test_a_tree_shows_what_came_from_what() -> None:
    first = run_of(0.6)
    second = run_of(0.7, parent=first.id)
    third = run_of(state=_S.FAILED, parent=second.id)
    stray = run_of(0.5, parent="r-gone00")
    found = experiments_of([first, second, third, stray])
    assert found is not None
    assert [trial.parent for trial in found.trials] == [None, 1, 2, None]
    spec = tree_of(found, {second.id: "lr 0.1 → 0.3"})
    (tree,) = spec.pictures
    assert isinstance(tree, Tree)
    assert [trial.name for trial in tree.trials] == [first.id, f"{second.id}  lr 0.1 → 0.3", third.id, stray.id]
    assert render(spec).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "asked", ["show the leaderboard", "which is the best run?", "best so far", "plot the score against training time"]
)
def test_plain_words(asked: str) -> None:
    assert intent_of(asked) == "list_experiments"


async def test_the_command_ranks_the_runs_of_the_thread(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        assert "nothing to rank" in (await stage.asks("experiments")).text
        nan = CARD.model_copy(update={"model": Score(name="model", value=math.nan)})
        unmeasured = await stage.running()
        await stage.says(unmeasured, Ended(outcome=Outcome(state=_S.SUCCEEDED, scorecard=nan, seconds=30.0)))
        assert "nothing to rank" in (await stage.asks("experiments")).text
        runs = []
        for value in (0.6, 0.8):
            run = await stage.running()
            card = CARD.model_copy(update={"model": Score(name="model", value=value)})
            runs.append(await stage.says(run, Ended(outcome=Outcome(state=_S.SUCCEEDED, scorecard=card, seconds=30.0))))
        card = (await stage.asks("experiments")).card
        assert card is not None
        assert card.table is not None
        assert [row[0] for row in card.table.rows] == [runs[1].id, runs[0].id, unmeasured.id]
        assert card.picture is not None
        assert "with 0.8000 after 30 s" in card.body
        assert (await stage.asks("leaderboard", "all")).card == card
        assert "takes `all`" in (await stage.asks("experiments", "please")).text


async def test_a_clone_stands_below_what_it_came_from(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        first = await stage.running()
        await stage.says(first, Ended(outcome=Outcome(state=_S.SUCCEEDED, scorecard=CARD, seconds=30.0)))
        harness.clock.forward(60)
        await brain.router.accept(said(f"clone {first.id} lr=0.3"))
        await stage.asked()
        await brain.router.accept(clicked(harness.adapter.button("approve")))
        await harness.until(lambda: len(harness.fleet.launched) > 1)
        second = await brain.stores.runs.get(harness.fleet.launched[-1].run)
        assert second.spec.cloned_from == first.id
        await stage.says(second, Ended(outcome=Outcome(state=_S.SUCCEEDED, scorecard=CARD, seconds=30.0)))
        card = (await stage.asks("experiments")).card
        assert card is not None
        assert "experiments tree" in card.footer
        await stage.asks("experiments", "tree")
        drawn = [one for spec in harness.charts.drawn for one in getattr(spec, "pictures", ()) if isinstance(one, Tree)]
        assert drawn[-1].trials[1].parent == 1
        assert drawn[-1].trials[1].name == f"{second.id}  learning_rate default → 0.3"


async def test_a_result_says_how_often_its_sealed_rows_were_used(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        said = []
        ahead = {"settings": {"horizon": 3}}  # the last steps of a series are sealed
        for change in ({}, {"settings": {"lr": 0.5}}, {"seed": 9}, ahead, {"settings": {"lr": 0.1}}):
            run = await stage.running(SPEC.model_copy(update=change))
            harness.clock.forward(60)
            await stage.says(run, Ended(outcome=Outcome(state=_S.SUCCEEDED, scorecard=CARD, seconds=30.0)))
            card = (await stage.asks("status", run.id)).card
            assert card is not None
            said.append([fact.value.partition(" measured")[0] for fact in card.facts if fact.name == "Sealed rows"])
        assert said == [[], ["1 run was"], [], [], ["2 runs were"]]
