"""The tool that runs a program of somebody's own, after people have approved what runs, where, and what it reaches."""

import json
from collections.abc import Sequence
from typing import Literal

from pydantic import Field, JsonValue

from agent.cards import at_host, counted, gaps_words, shows_all, spec_facts
from agent.domain.content import Card, Document
from agent.domain.errors import BadRequest
from agent.domain.orders import Limits
from agent.domain.policy import Effect
from agent.domain.runs import PRIORITIES, JobKind, Network, Run, RunSpec, Script
from agent.ports import Blobs, Bundles
from agent.runs.engines import Engines
from agent.runs.life.service import RunService
from agent.runs.pictures.artifacts import ArtifactWriter
from agent.stores import Runs
from agent.tools.data import DataFiles
from agent.tools.finding import LOOKED_AT, of_thread
from agent.tools.tool import Caller, Plan, Result, Tool
from agent.tools.training.attached import data_named, requirements_named
from agent.tools.training.change_cards import program_facts
from agent.tools.training.command_lines import arguments_of, with_settings
from agent.tools.training.launching import NewRunArguments, cost_of, start
from agent.tools.training.placing import place
from agent.tools.training.programs import REQUIREMENTS, entry_of, environment_in, files_of, requirements_in, secrets_in
from agent.tools.training.scripts import Diff, diff_of, shown_of, warned_of

PLAN_LIMIT_S = 120.0


class OwnScriptArguments(NewRunArguments):
    """Plan a run of an attached program; people approve it before it starts. Leave out what nobody said."""

    file: str | None = Field(None, description="Name of the attached .py or .zip; the newest of this thread if unsaid.")
    entry: str | None = Field(None, description="The program within a zip, such as train.py.")
    data: tuple[str, ...] = Field(
        (), description="Names of attached files that it reads, as data/NAME.", examples=[["rows.csv"]]
    )
    arguments: str = Field("", max_length=4000, description="Its command line.", examples=["--lr 0.1 --epochs 3"])
    settings: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="Settings in words for which it has options.",
        examples=[{"learning_rate": 0.1}],
    )
    environment: dict[str, str] = Field(
        default_factory=dict, description="Environment variables for it; no secrets.", examples=[{"SEED": "1"}]
    )
    requirements: str | None = Field(None, description="Name of an attached requirements.txt, if there is one.")
    max_hours: float = Field(1.0, gt=0.0, le=720.0)
    gpus: int = Field(0, ge=0, le=64, description="GPUs, if the person said how many.")
    network: Network | None = Field(
        None, description="What it may reach: none (usual), hub (model hubs only), open (everything)."
    )
    secrets: tuple[str, ...] = Field(
        (), description="Names of the host's secrets that it needs.", examples=[["HF_TOKEN"]]
    )
    priority: Literal["high", "normal", "low"] = "normal"
    auto_resume: bool = Field(True, description="Whether it is tried again after a lost host, a hang or a GPU fault.")
    host: str | None = Field(None, description="A host that the person named.")
    engine: str | None = Field(None, description="The engine that the person named; the usual one if unsaid.")


class OwnScripts:
    """The tool of this family."""

    def __init__(
        self,
        data: DataFiles,
        runs: Runs,
        service: RunService,
        engines: Engines,
        bundles: Bundles,
        blobs: Blobs,
        files: ArtifactWriter,
    ) -> None:
        """`blobs` has what people attached; `files` hands over programs that are too long for a card."""
        self._data = data
        self._runs = runs
        self._service = service
        self._engines = engines
        self._bundles = bundles
        self._blobs = blobs
        self._files = files

    def tools(self) -> Sequence[Tool]:
        """Its declaration."""
        return (
            Tool(
                "start_script",
                "Plan a run of somebody's own program (an attached .py, or a zip of its folder) on a host and ask for "
                "approval; after it the run starts. Nothing is asked of the program but that it runs.",
                OwnScriptArguments,
                Effect.SPEND,
                plan=self.plan,
                execute=self.execute,
                limit_s=PLAN_LIMIT_S,
                cost=cost_of,
            ),
        )

    async def plan(self, caller: Caller, asked: OwnScriptArguments) -> Plan:
        """The exact run that would be started, and its card; nothing is started.

        Raises:
            BadData, BadRequest, NotFound: the program, its data or its requirements cannot be used as they are.
        """
        script, files = await self._script(caller, asked)
        placed = await place(
            self._engines,
            self._runs,
            engine=asked.engine,
            host=asked.host,
            gpus=asked.gpus,
            network=asked.network,
            secrets=asked.secrets,
        )
        spec = placed.priced(
            RunSpec(
                job=JobKind.SCRIPT,
                script=script,
                host=placed.host.host,
                gpus=placed.gpus,
                max_hours=asked.max_hours,
                network=placed.network,
                secrets=asked.secrets,
                sandbox=placed.host.sandbox,
                auto_resume=asked.auto_resume,
                bundle_sha256=await self._bundles.pack_program(files),
            )
        )
        priority, text = PRIORITIES[asked.priority], files[script.entry].decode("utf-8-sig")
        earlier = await self._earlier(caller, spec)
        before = await self._bundles.read(earlier.spec.bundle_sha256, earlier.spec.entry) if earlier else None
        card = script_card(spec, text, earlier, before, priority=priority, limits=placed.limits)
        if kinds := secrets_in(files):
            card = card.model_copy(update={"body": f"{warned_of(kinds)}\n{card.body}"})
        exact: dict[str, JsonValue] = {"spec": spec.model_dump(mode="json"), "priority": priority}
        whole = await self._whole(caller, spec, text, exact, card, files)
        return Plan(exact, at_host(card, placed.host), whole, instead=asked.instead)

    async def _script(self, caller: Caller, asked: OwnScriptArguments) -> tuple[Script, dict[str, bytes]]:
        """The program with what it is given, and all files of its folder. Raises as `plan`."""
        attached = await self._data.program(caller.session_id, asked.file)
        files = files_of(await self._blobs.get(attached.sha256), attached.name)
        script = Script(
            name=attached.name,
            entry=entry_of(files, asked.entry, attached.name),
            arguments=arguments_of(asked.arguments),
            environment=environment_in(asked.environment),
            data=await data_named(self._data, caller.session_id, asked.data),
            requirements=await self._requirements(caller, asked, files),
        )
        program = files[script.entry].decode("utf-8", errors="replace")
        arguments = with_settings(script, asked.settings, program)
        return script.model_copy(update={"arguments": arguments}), files

    async def execute(self, caller: Caller, exact: dict[str, JsonValue], token: str) -> Result:
        """Create the approved run; a repetition with the same token finds it."""
        return await start(self._runs, self._service, caller, exact, token)

    async def _requirements(
        self, caller: Caller, asked: OwnScriptArguments, files: dict[str, bytes]
    ) -> tuple[str, ...]:
        """Of an attached requirements file, else of the one within the program's folder."""
        if asked.requirements is not None:
            return await requirements_named(self._data, self._blobs, caller.session_id, asked.requirements)
        return requirements_in(files.get(REQUIREMENTS, b"").decode("utf-8-sig", errors="replace"))

    async def _earlier(self, caller: Caller, spec: RunSpec) -> Run | None:
        """The newest run of this thread of a program with the same name, to compare with."""
        for run in await of_thread(self._runs, caller, LOOKED_AT):
            if run.spec.script and spec.script and run.spec.script.name == spec.script.name:
                return run
        return None

    async def _whole(
        self,
        caller: Caller,
        spec: RunSpec,
        text: str,
        exact: dict[str, JsonValue],
        card: Card,
        files: dict[str, bytes],
    ) -> tuple[Document, ...]:
        """What the card does not show whole: the program, a list of the other files, the plan."""
        about = caller.session_id
        found = []
        if shown_of(text).cut:
            found.append(await self._files.document(text, name=spec.entry.replace("/", "-"), about=about))
        if len(files) > 1:
            lines = "".join(f"{len(content):>12,}  {name}\n" for name, content in sorted(files.items()))
            found.append(await self._files.document(lines, name="files.txt", about=about))
        if not shows_all(card):
            plan = json.dumps(exact, indent=2, ensure_ascii=False)
            found.append(await self._files.document(plan, name="plan.json", about=about))
        return tuple(found)


def script_card(
    spec: RunSpec,
    text: str,
    earlier: Run | None,
    before: str | None,
    *,
    priority: int,
    limits: Limits | None,
) -> Card:
    """What runs (or what changed since it ran last), on what, and what it may do."""
    if spec.script is None:
        raise BadRequest("There is no program in this plan.")
    lines = []
    shown: Diff = shown_of(text)
    if earlier is not None and before is not None and before != text:
        shown = diff_of(before, text, name=spec.entry)
        lines.append(f"What changed since `{earlier.id}`: {shown.counts}.")
    elif earlier is not None and before is not None:
        lines.append(f"The program is the same as in `{earlier.id}`.")
    if shown.cut:
        lines.append(f"{counted(shown.cut, 'more line')}: see the file with this card.")
    lines.append("Its syntax was checked; what it does was not. It is measured by nothing but its own numbers.")
    if gaps := gaps_words(spec.sandbox):
        lines.append(f"\n{gaps}")
    return Card(
        kind="approval",
        title=f"Run {spec.script.name}?",
        tone="busy",
        body="\n".join(lines),
        facts=(*program_facts(spec), *spec_facts(spec, priority=priority, limits=limits)),
        log=shown.shown,
    )
