"""A finished model that answers as a job: on which engine, with or without a GPU, as the card says before it begins."""

from dataclasses import dataclass

import pytest

from agent.domain.events import Ended
from agent.domain.runs import Artifact, Outcome, Run, RunSpec, RunState
from tests.agent.conftest import Harness
from tests.agent.engine import SPEC
from tests.agent.stage import Stage
from tests.agent.test_changing import card_of, facts
from tests.agent.test_own_scripts import attach
from tests.fakes import FakeFleet, clicked, host, said

READER = SPEC.model_copy(
    update={
        "task": "text_classification",
        "recipe": "text_classification",
        "text_column": "health",
        "target": "visited_doctor",
    }
)
LEFT = Artifact(sha256="a" * 64, size_bytes=3, files=("model.py", "predict.py"))


@dataclass(frozen=True, slots=True)
class Sites:
    """The usual engine with a GPU, and another with two."""

    harness: Harness
    cloud: FakeFleet


@pytest.fixture
def sites(harness: Harness) -> Sites:
    cloud = FakeFleet()
    cloud.name = "cloud"
    cloud.infos = (host("cloud-1", gpus=2, engine="cloud"),)
    harness.fleet.infos = (host("gpu-1", gpus=1),)
    harness.others = (cloud,)
    return Sites(harness, cloud)


async def finished(stage: Stage, spec: RunSpec) -> Run:
    """A run that succeeded, with a model that can be asked."""
    run = await stage.running(spec)
    return await stage.says(run, Ended(outcome=Outcome(state=RunState.SUCCEEDED, seconds=60.0, artifact=LEFT)))


@pytest.mark.parametrize("verb", ["evaluate", "batch"])
async def test_a_network_answers_on_a_free_gpu_of_the_engine_that_was_named(sites: Sites, verb: str) -> None:
    async with sites.harness.open() as brain:
        stage = Stage(sites.harness, brain)
        run = await finished(stage, READER)
        files = attach(sites.harness.folder, october__csv="age,health,visited_doctor\n30,good,yes\n")
        await brain.router.accept(said(f"{verb} {run.id} engine=cloud", files=files))
        asked = await stage.asked()
        assert facts(asked)["Engine"] == "cloud"
        assert facts(asked)["Host"].startswith("cloud-1, 1 GPU")
        await brain.router.accept(clicked(card_of(asked).buttons[0]))
        await sites.harness.until(lambda: bool(sites.cloud.launched))
        spec = sites.cloud.launched[0].spec
        assert (spec.engine, spec.host, spec.gpus) == ("cloud", "cloud-1", 1)


async def test_a_model_of_a_table_and_one_that_is_to_use_no_gpu_get_none(sites: Sites) -> None:
    async with sites.harness.open() as brain:
        stage = Stage(sites.harness, brain)
        table, text = await finished(stage, SPEC), await finished(stage, READER)
        files = attach(sites.harness.folder, october__csv="age,health,visited_doctor\n30,good,yes\n")
        await brain.router.accept(said(f"batch {table.id}", files=files))
        assert facts(await stage.asked())["Host"].startswith("gpu-1, CPU")
        await brain.router.accept(clicked(sites.harness.adapter.button("reject")))
        assert "equal to 1" in await stage.tells(f"batch {text.id} gpus=2")
        await brain.router.accept(said(f"batch {text.id} gpus=0"))
        await stage.settled()
        assert facts(await stage.asked())["Host"].startswith("gpu-1, CPU")


async def test_a_model_is_kept_up_on_the_engine_that_was_named(sites: Sites) -> None:
    async with sites.harness.open() as brain:
        stage = Stage(sites.harness, brain)
        run = await finished(stage, READER)
        await brain.router.accept(said(f"serve {run.id} engine=cloud gpus=1"))
        shown = facts(await stage.asked())
        assert shown["Engine"] == "cloud"
        assert shown["Host"].startswith("cloud-1, 1 GPU")
