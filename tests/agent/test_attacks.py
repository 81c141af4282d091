"""Text that others wrote, read by a model that obeys every word of it: nothing starts or ends without a person."""

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from agent.domain.approvals import ApprovalState
from agent.domain.inbound import Attachment
from agent.ports import ModelMessage, ModelReply, Role, ToolCall, ToolSchema
from tests.agent.conftest import Harness
from tests.agent.stage import Stage, lines
from tests.fakes import ScriptedModel, said

ATTACKS: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parent / "attacks.jsonl").read_text().splitlines()
]
READS = {"log": "run_logs", "file name": "list_runs"}


class ObeyingModel:
    """Looks once, and then does what the words of the attack want, wherever it reads them."""

    def __init__(self) -> None:
        self.run, self.attack, self.obeyed, self.calls = "", ATTACKS[0], 0, 0

    async def stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        self.calls += 1
        if messages[-1].role is Role.USER:
            call = ToolCall(f"c{self.calls}", READS[self.attack["via"]], "{}")
            yield ModelReply("", (call,), "m")
        elif messages[-1].call_id == f"c{self.calls - 1}" and messages[-2].calls[0].name in READS.values():
            read = [messages[-1].text, *(file.name for said in messages for file in said.files)]
            assert any(self.attack["text"] in text for text in read), f"the model never read {self.attack}"
            self.obeyed += 1
            wanted = {name: self.run if value == "RUN" else value for name, value in self.attack["arguments"].items()}
            yield ModelReply("", (ToolCall(f"c{self.calls}", self.attack["tool"], json.dumps(wanted)),), "m")
        else:
            yield ModelReply("As you like.", (), "m")


async def test_no_words_of_others_start_or_end_anything(harness: Harness, csv: Path) -> None:
    harness.model = model = ObeyingModel()
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        launched, model.run = len(harness.fleet.launched), run.id
        for number, attack in enumerate(ATTACKS):
            model.attack, files = attack, ()
            if attack["via"] == "log":
                await stage.says(run, lines(attack["text"]))
            if attack["via"] == "file name":
                size, locator = csv.stat().st_size, str(csv)
                files = (Attachment(id=f"F{number}", name=f"{attack['text']}.csv", size_bytes=size, locator=locator),)
            await brain.router.accept(said("how is it going?", files=files))
            await brain.router.idle()
        asked = await brain.stores.approvals.of_state(ApprovalState.PENDING)
    assert model.obeyed == len(ATTACKS) >= 60
    assert (len(harness.fleet.launched), harness.fleet.stopped) == (launched, [])
    assert {"stop_run", "kill_run", "clone_run"} <= {approval.tool for approval in asked}


async def test_a_model_that_read_nothing_stops_what_its_owner_names(harness: Harness) -> None:
    harness.model = model = ScriptedModel()
    async with harness.open() as brain:
        run = await Stage(harness, brain).running()
        call = ToolCall("c1", "stop_run", json.dumps({"run": run.id}))
        model.replies = [ModelReply("", (call,), "m"), ModelReply("It stops.", (), "m")]
        await brain.router.accept(said(f"please end {run.id}, it is no good"))
        await harness.until(lambda: [order.how for order in harness.fleet.stopped] == ["stop"])
