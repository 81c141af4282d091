"""The end of every plan for a new run: its cost, its card, and its creation once people approved it."""

import json
from collections.abc import Mapping

from pydantic import Field, JsonValue

from agent.cards import cost_words, shows_all
from agent.domain.content import Card
from agent.domain.runs import RunSpec, RunState
from agent.runs.cards.run_cards import state_text
from agent.runs.life.service import RunService
from agent.runs.pictures.artifacts import ArtifactWriter
from agent.stores import Runs
from agent.tools.tool import Arguments, Caller, Plan, Result


class NewRunArguments(Arguments):
    """What every tool takes that plans a new run."""

    instead: bool = Field(False, description="In place of the plan by this tool that waits.")


def cost_of(exact: Mapping[str, JsonValue]) -> str:
    """What a new run costs, from its exact specification."""
    return cost_words(RunSpec.model_validate(exact["spec"]))


async def planned(
    files: ArtifactWriter, caller: Caller, exact: dict[str, JsonValue], card: Card, *, instead: bool
) -> Plan:
    """The plan with its card; what a platform would cut of that is whole in a file beside it."""
    if shows_all(card):
        return Plan(exact, card, instead=instead)
    text = json.dumps(exact, indent=2, ensure_ascii=False)
    whole = await files.document(text, name="plan.json", about=caller.session_id)
    note = f"**There is more than fits here.** All that is approved is in the file `{whole.name}` with this card."
    return Plan(exact, card.model_copy(update={"body": f"{note}\n\n{card.body}".strip()}), (whole,), instead=instead)


async def start(runs: Runs, service: RunService, caller: Caller, exact: Mapping[str, JsonValue], token: str) -> Result:
    """Create a run from what was approved: its specification and its priority."""
    spec = RunSpec.model_validate(exact["spec"])
    priority = exact.get("priority", 0)
    run = await service.create(
        spec,
        session_id=caller.session_id,
        requester=caller.person.key,
        thread=caller.thread,
        token=token,
        priority=priority if isinstance(priority, int) else 0,
    )
    text = state_text(run)
    if run.state is not RunState.QUEUED and (attempts := await runs.attempts(run.id)):
        text = f"Started `{run.id}` on {attempts[-1].host}; its card follows the training."
    return Result(text, {"run": run.id, "state": run.state.value})
