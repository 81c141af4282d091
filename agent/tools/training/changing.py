"""Tools that change what runs, so that people are asked first: a new training script, and a copy of a run with changes.

`plan` makes everything exact and shows what differs; nothing is stopped, started or written before the approval, and a
script with a syntax error is refused before anybody is asked. Called through the dispatcher.
"""

import contextlib
from collections.abc import Mapping, Sequence

from pydantic import Field, JsonValue

from agent.cards import at_host
from agent.domain.content import Document
from agent.domain.datasets import DatasetRef
from agent.domain.errors import BadData, BadRequest
from agent.domain.orders import HostInfo
from agent.domain.policy import Effect
from agent.domain.redaction import without_secrets
from agent.domain.runs import ENDED, PRIORITIES, Network, RunSpec, Script
from agent.ports import Blobs, Bundles
from agent.runs.affording import Affording
from agent.runs.engines import Engines
from agent.runs.life.refusals import with_new_program
from agent.runs.life.service import RunService
from agent.runs.pictures.artifacts import ArtifactWriter
from agent.stores import Runs
from agent.tools.data import DataFiles
from agent.tools.finding import named_or_newest
from agent.tools.runs.control import Control
from agent.tools.tool import Arguments, Caller, Plan, Result, Tool
from agent.tools.training.attached import data_named, requirements_named
from agent.tools.training.change_cards import clone_card, update_card
from agent.tools.training.command_lines import SHORT_NAMES, arguments_of, with_options, with_settings
from agent.tools.training.launching import NewRunArguments, cost_of, planned, start
from agent.tools.training.placing import estimate_s, place
from agent.tools.training.programs import environment_in
from agent.tools.training.scripts import Replacement, check, diff_of, refuse_marks, replaced

SCRIPT_BYTES = 1_000_000
PLAN_LIMIT_S = 120.0


class UpdateArguments(Arguments):
    """Change the training script of a run; people approve the diff first. Give one kind of change."""

    run: str | None = Field(None, description="Run id; the newest run of this thread if unsaid.")
    script: str | None = Field(None, description="The whole new train.py.")
    file: str | None = Field(None, description="Name of an attached file with the whole new train.py.")
    replace: tuple[Replacement, ...] = Field(
        (),
        description="Exact texts of the present train.py and what they become.",
        examples=[[{"old": "lr = 0.1", "new": "lr = 0.01"}]],
    )
    why: str = Field("", max_length=500, description="One sentence: what this mends.")


class CloneArguments(NewRunArguments):
    """A new run like an earlier one, with changes; people approve it first. Leave out what stays the same."""

    run: str | None = Field(None, description="Run id of the original; the newest run of this thread if unsaid.")
    settings: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="Hyperparameters to change; null takes the recipe's default.",
        examples=[{"learning_rate": 0.05, "rounds": None}],
    )
    file: str | None = Field(None, description="Name of another attached data file to train on.")
    target: str | None = Field(None, description="Another column to predict.")
    arguments: str | None = Field(
        None,
        description="Options of an own program's command line to add or change, such as --lr 0.1; its others stay. "
        "A line that begins with another word, or with -- alone, is the whole line.",
    )
    data: tuple[str, ...] | None = Field(None, description="Names of all attached files that an own program reads.")
    requirements: str | None = Field(None, description="Name of another attached requirements.txt, of an own program.")
    environment: dict[str, str] | None = Field(None, description="Variables to add or change, of an own program.")
    secrets: tuple[str, ...] | None = Field(None, description="Names of all of the host's secrets that it needs.")
    seed: int | None = None
    test_frac: float | None = Field(None, gt=0.0, lt=0.9)
    max_hours: float | None = Field(None, gt=0.0, le=720.0)
    gpus: int | None = Field(None, ge=0, le=64)
    network: Network | None = None
    host: str | None = None
    engine: str | None = None
    auto_resume: bool | None = None
    priority: str | None = Field(None, description="high, normal or low.", pattern="^(high|normal|low)$")
    repack: bool = Field(False, description="Take the recipe's code as it is now, not the original run's.")


class Changing:
    """The tools of this family."""

    def __init__(  # noqa: PLR0913 - a change touches all of these
        self,
        runs: Runs,
        service: RunService,
        control: Control,
        bundles: Bundles,
        engines: Engines,
        data: DataFiles,
        blobs: Blobs,
        files: ArtifactWriter,
        affording: Affording,
    ) -> None:
        """`control` knows whose run it is; `blobs` has what people attached; `files` hands over long diffs."""
        self._runs = runs
        self._service = service
        self._control = control
        self._bundles = bundles
        self._engines = engines
        self._data = data
        self._blobs = blobs
        self._files = files
        self._affording = affording

    def tools(self) -> Sequence[Tool]:
        """Their declarations."""
        return (
            Tool(
                "update_script",
                "Change a run's train.py (whole text, attached file, or exact replacements) and ask for approval of "
                "the diff. A live run is paused with a checkpoint; the old script is kept. Read it with run_script.",
                UpdateArguments,
                Effect.SPEND,
                plan=self.plan_update,
                execute=self.update,
                limit_s=PLAN_LIMIT_S,
                cost=_cost_of_update,
            ),
            Tool(
                "clone_run",
                "Plan a new run like an earlier one with changes (settings, data, seed, hours …) and ask for approval.",
                CloneArguments,
                Effect.SPEND,
                plan=self.plan_clone,
                execute=self.clone,
                limit_s=PLAN_LIMIT_S,
                cost=cost_of,
            ),
        )

    async def plan_update(self, caller: Caller, asked: UpdateArguments) -> Plan:
        """The exact new script and its diff; nothing is stopped or changed.

        Raises:
            BadRequest: the script is no Python program, or changes nothing.
            Conflict, NotAllowed, NotFound: it is not the time, the person or the run for it.
        """
        run = await named_or_newest(self._runs, caller, asked.run)
        await self._control.owned(caller, run, "change its program; `clone` makes a run of your own from it")
        with_new_program(run)  # refused now, not after people were asked
        entry = run.spec.entry
        before = await self._bundles.read(run.spec.bundle_sha256, entry)
        after = await self._asked_for(caller, asked, before)
        check(after, name=entry)
        refuse_marks(before, after)
        if after == before:
            raise BadRequest(f"This is the script that run `{run.id}` has already; nothing would change.")
        new = await self._bundles.replace(run.spec.bundle_sha256, {entry: after})
        diff = diff_of(before, after, name=entry)
        exact: dict[str, JsonValue] = {"run": run.id, "bundle_sha256": new, "was": run.spec.bundle_sha256}
        whole: tuple[Document, ...] = ()
        if diff.cut:
            whole = (await self._files.document(diff.text, name=f"{run.id}-changes.diff", about=run.id),)
        return Plan(exact, update_card(run, diff, why=asked.why, kinds=without_secrets(after)[1]), whole)

    async def _asked_for(self, caller: Caller, asked: UpdateArguments, before: str) -> str:
        """The new script from whichever kind of change was given."""
        given = [name for name in ("script", "file", "replace") if getattr(asked, name)]
        if len(given) > 1:
            raise BadRequest(f"Give the change once: these say it twice: {', '.join(given)}.")
        if asked.replace:
            return replaced(before, asked.replace)
        if asked.script:
            return asked.script if asked.script.endswith("\n") else asked.script + "\n"
        return await self._attached(await self._data.script(caller.session_id, asked.file))

    async def _attached(self, file: DatasetRef) -> str:
        if file.size_bytes > SCRIPT_BYTES:
            raise BadData(f"`{file.name}` has {file.size_bytes:,} bytes; a training script may have {SCRIPT_BYTES:,}.")
        path = await self._blobs.get(file.sha256)
        try:
            return path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise BadData(f"`{file.name}` is not UTF-8 text (byte {error.start:,}). Save it as UTF-8.") from error

    async def update(self, _caller: Caller, exact: dict[str, JsonValue], _token: str) -> Result:
        """Give the run its approved script. Raises `Conflict` when the run has another script than was shown."""
        run_id, new, was = (str(exact[name]) for name in ("run", "bundle_sha256", "was"))
        run = await self._runs.get(run_id)
        async with self._affording.again(run) if run.state in ENDED else contextlib.nullcontext():
            text = await self._service.update_script(run_id, new, was=was)
        after = await self._runs.get(run_id)
        return Result(text, {"run": run_id, "state": after.state.value})

    async def plan_clone(self, caller: Caller, asked: CloneArguments) -> Plan:
        """The exact new run and what differs from the original; nothing is started."""
        original = await named_or_newest(self._runs, caller, asked.run)
        if (model := original.spec.model) is not None:
            raise BadRequest(
                f"`{original.id}` trained nothing. `evaluate {model.run}` and `batch {model.run}` ask its model again; "
                f"`clone {model.run}` trains one like it."
            )
        spec, host = await self._changed(caller, original.spec, asked)
        spec = spec.model_copy(update={"cloned_from": original.id})
        priority = PRIORITIES[asked.priority] if asked.priority else 0
        exact: dict[str, JsonValue] = {
            "spec": spec.model_dump(mode="json"),
            "priority": priority,
            "clone_of": original.id,
        }
        card = clone_card(original, spec, priority=priority, limits=host.limits_with(spec.gpus))
        return await planned(self._files, caller, exact, at_host(card, host), instead=asked.instead)

    async def _changed(self, caller: Caller, before: RunSpec, asked: CloneArguments) -> tuple[RunSpec, HostInfo]:
        """The original's specification with what was asked otherwise, and a host that can keep to it."""
        settings = before.settings | {SHORT_NAMES.get(name, name): value for name, value in asked.settings.items()}
        changes: dict[str, object] = {
            "settings": {name: value for name, value in settings.items() if value is not None}
        }
        for name in ("seed", "test_frac", "max_hours", "gpus", "network", "secrets", "auto_resume"):
            if (value := getattr(asked, name)) is not None:
                changes[name] = value
        if before.script is not None:
            changes["script"] = await self._program(caller, before, before.script, asked)
        else:
            changes |= await self._recipe(caller, before, asked)
        spec = before.model_copy(update=changes)
        placed = await place(
            self._engines,
            self._runs,
            engine=asked.engine or before.engine,
            host=asked.host,
            gpus=spec.gpus,
            network=spec.network,
            secrets=spec.secrets,
            preferred_host=before.host,
        )
        host = placed.host
        spec = RunSpec.model_validate(spec.model_dump() | {"host": host.host, "sandbox": host.sandbox})
        return await self._checked(placed.priced(spec), host), host

    async def _program(self, caller: Caller, spec: RunSpec, before: Script, asked: CloneArguments) -> Script:
        """Somebody's own program with what it is given otherwise. Raises `BadRequest`, `NotFound`."""
        session_id, changes = caller.session_id, dict[str, object]()
        settings = {name: value for name, value in asked.settings.items() if value is not None}
        program = await self._bundles.read(spec.bundle_sha256, spec.entry) if settings else ""
        line = with_settings(before, settings, program)
        changes["arguments"] = line if asked.arguments is None else with_options(line, arguments_of(asked.arguments))
        if asked.environment is not None:
            changes["environment"] = before.environment | environment_in(asked.environment)
        names = (asked.file,) if asked.file else asked.data
        if names is not None:
            changes["data"] = await data_named(self._data, session_id, names)
        if asked.requirements is not None:
            changes["requirements"] = await requirements_named(self._data, self._blobs, session_id, asked.requirements)
        return before.model_copy(update=changes)

    async def _recipe(self, caller: Caller, before: RunSpec, asked: CloneArguments) -> dict[str, object]:
        """Data, target and code of a recipe where they change. Raises `BadData`, `BadRequest`, `NotFound`."""
        if asked.arguments is not None:
            raise BadRequest("This run is of a recipe, which takes settings, such as `lr=0.1`, and no arguments.")
        for name in ("data", "requirements", "environment"):
            if getattr(asked, name) is not None:
                raise BadRequest(f"This run is of a recipe, which takes no `{name}`. Other data are `file=…`.")
        changes: dict[str, object] = {"bundle_sha256": await self._bundles.pack(before.recipe)} if asked.repack else {}
        dataset = await self._data.find(caller.session_id, asked.file) if asked.file else before.dataset
        target = asked.target or before.target
        if dataset is None or (dataset, target) == (before.dataset, before.target):
            return changes
        report = await self._data.report(dataset, target, before.task)
        if report.problems:
            raise BadData(" ".join(report.problems))
        known = {column.name for column in report.columns} - {target}
        dropped = dict.fromkeys((*before.drop_columns, *(leak.column for leak in report.leaks)))
        dropped_here = tuple(name for name in dropped if name in known)
        return changes | {"dataset": dataset, "target": target, "drop_columns": dropped_here}

    async def _checked(self, spec: RunSpec, host: HostInfo) -> RunSpec:
        """It with its time; a script of somebody's own knows settings of its own. Raises `BadData`: it cannot work."""
        if spec.script is not None:
            return spec
        usual = await self._bundles.read(await self._bundles.pack(spec.recipe), spec.entry)
        if await self._bundles.read(spec.bundle_sha256, spec.entry) != usual:
            await self._data.checked(spec.model_copy(update={"settings": {}}))
            return spec
        report = await self._data.checked(spec)
        return spec.model_copy(update={"estimate_s": estimate_s(report, spec, host)})

    async def clone(self, caller: Caller, exact: dict[str, JsonValue], token: str) -> Result:
        """Create the approved run; a repetition with the same token finds it."""
        return await start(self._runs, self._service, caller, exact, token)


def _cost_of_update(exact: Mapping[str, JsonValue]) -> str:
    return f"what is left of the hours that were approved for {exact['run']}"
