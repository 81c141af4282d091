"""The tool that starts training on a data file, after people have approved its exact plan."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, JsonValue

from agent.cards import approval_card, at_host
from agent.domain.datasets import DataReport, Split
from agent.domain.errors import BadData, BadRequest
from agent.domain.orders import HostInfo
from agent.domain.policy import Effect
from agent.domain.runs import PRIORITIES, Network, RunSpec
from agent.domain.tasks import TASKS, TaskType
from agent.ports import Bundles
from agent.runs.engines import Engines
from agent.runs.life.service import RunService
from agent.runs.pictures.artifacts import ArtifactWriter
from agent.stores import Runs
from agent.tools.data import DataFiles
from agent.tools.tool import Caller, Plan, Result, Tool
from agent.tools.training.launching import NewRunArguments, cost_of, planned, start
from agent.tools.training.placing import Placement, estimate_s, place

PLAN_LIMIT_S = 120.0


class TrainArguments(NewRunArguments):
    """Plan a training run; people approve it before it starts. Leave out what nobody said."""

    target: str | None = Field(None, description="Column to predict.")
    file: str | None = Field(None, description="Name of a file attached in this thread; the newest if unsaid.")
    task: TaskType | None = Field(None, description="Task type; guessed from the data if unsaid.")
    text_column: str | None = Field(None, description="Column with the text, for tasks that read one.")
    drop_columns: tuple[str, ...] = Field((), description="Columns to leave out.")
    keep_columns: tuple[str, ...] = Field((), description="Columns to keep although they give the target away.")
    settings: dict[str, JsonValue] = Field(
        default_factory=dict, description="Hyperparameters that the person stated.", examples=[{"epochs": 3}]
    )
    seed: int = 7
    test_frac: float = Field(0.2, gt=0.0, lt=0.9)
    split_by: str | None = Field(
        None,
        description="Column to split by (whole groups, or the newest dates), or `random`; the data decide else.",
    )
    max_hours: float = Field(1.0, gt=0.0, le=720.0)
    gpus: int | None = Field(None, ge=0, le=64, description="GPUs, if the person said how many.")
    network: Network | None = Field(
        None, description="What the training may reach: none (usual), hub (model hubs only), open (everything)."
    )
    secrets: tuple[str, ...] = Field((), description="Names of the host's secrets that the training needs.")
    priority: Literal["high", "normal", "low"] = "normal"
    auto_resume: bool = Field(True, description="Whether it is tried again after a lost host, a hang or a GPU fault.")
    host: str | None = Field(None, description="A host that the person named.")
    engine: str | None = Field(None, description="The engine that the person named; the usual one if unsaid.")


class Training:
    """The tools of this family."""

    def __init__(
        self,
        files: DataFiles,
        runs: Runs,
        service: RunService,
        engines: Engines,
        bundles: Bundles,
        artifacts: ArtifactWriter,
    ) -> None:
        """`bundles` packs the code that an approval is for; `artifacts` hands over long plans."""
        self._files = files
        self._artifacts = artifacts
        self._runs = runs
        self._service = service
        self._engines = engines
        self._bundles = bundles

    def tools(self) -> Sequence[Tool]:
        """Their declarations."""
        return (
            Tool(
                "start_training",
                "Plan a training run on a data file and ask for approval; after it the run starts.",
                TrainArguments,
                Effect.SPEND,
                plan=self.plan,
                execute=self.execute,
                limit_s=PLAN_LIMIT_S,
                cost=cost_of,
            ),
        )

    async def plan(self, caller: Caller, asked: TrainArguments) -> Plan:
        """The exact run that would be started, and its card; nothing is started."""
        target, task, report = await self._understood(caller, asked)
        placed = await place(
            self._engines,
            self._runs,
            engine=asked.engine,
            host=asked.host,
            gpus=asked.gpus if asked.gpus is None else _useful_gpus(asked.gpus, task),
            network=asked.network,
            secrets=asked.secrets,
            task=task,
        )
        if placed.gpus > 1:
            _refuse_apart(placed.gpus, placed.host, placed.network)
        spec = placed.priced(await self._spec(asked, target, task, report, placed))
        checked = await self._files.checked(spec)
        spec = spec.model_copy(update={"estimate_s": estimate_s(checked, spec, placed.host)})
        priority = PRIORITIES[asked.priority]
        exact: dict[str, JsonValue] = {"spec": spec.model_dump(mode="json"), "priority": priority}
        unseen = self._files.unseen(caller.session_id, report)
        card = approval_card(spec, report, plan=spec.stages, priority=priority, warnings=unseen, limits=placed.limits)
        return await planned(self._artifacts, caller, exact, at_host(card, placed.host), instead=asked.instead)

    async def _spec(
        self, asked: TrainArguments, target: str | None, task: TaskType, report: DataReport, placed: Placement
    ) -> RunSpec:
        """What is trained, and where. Raises: BadRequest, BadData."""
        leaks = tuple(leak.column for leak in report.leaks if leak.column not in asked.keep_columns)
        return RunSpec(
            task=task,
            recipe=task,
            dataset=report.dataset,
            target=target,
            text_column=_text_column(asked, report) if TASKS[task].needs_text else None,
            drop_columns=tuple(dict.fromkeys((*asked.drop_columns, *leaks))),
            settings=asked.settings,
            seed=asked.seed,
            test_frac=asked.test_frac,
            split=_split(asked, task, report),
            host=placed.host.host,
            gpus=placed.gpus,
            max_hours=asked.max_hours,
            network=placed.network,
            secrets=asked.secrets,
            sandbox=placed.host.sandbox,
            auto_resume=asked.auto_resume,
            bundle_sha256=await self._bundles.pack(task),
        )

    async def _understood(self, caller: Caller, asked: TrainArguments) -> tuple[str | None, TaskType, DataReport]:
        """Target, task and audit. Raises `BadRequest`, `BadData`, `NotFound` where they cannot be known or used."""
        dataset = await self._files.find(caller.session_id, asked.file)
        report = await self._files.report(dataset, asked.target, asked.task)
        if asked.task is not None and not TASKS[asked.task].needs_target:
            return None, asked.task, _without_target(asked, report)
        target = asked.target or report.suggested_target
        if target is None:
            names = ", ".join(f"`{column.name}`" for column in report.columns)
            raise BadRequest(f"Which column of `{dataset.name}` should be predicted? Its columns: {names}.")
        task = asked.task or report.suggested_task or next(iter(TASKS))
        report = await self._files.report(dataset, target, task)
        if report.problems:
            raise BadData(" ".join(report.problems))
        return target, task, report

    async def execute(self, caller: Caller, exact: dict[str, JsonValue], token: str) -> Result:
        """Create the approved run; a repetition with the same token finds it."""
        return await start(self._runs, self._service, caller, exact, token)


def _without_target(asked: TrainArguments, report: DataReport) -> DataReport:
    """The audit, where a task predicts no column. Raises: BadRequest, BadData."""
    if asked.target is not None:
        raise BadRequest(f"A {TASKS[str(asked.task)].label} predicts no column, so leave `{asked.target}` out.")
    if report.problems:
        raise BadData(" ".join(report.problems))
    return report


_PART_NAMES = frozenset({"split", "part", "subset", "set", "fold"})


def _split(asked: TrainArguments, task: TaskType, report: DataReport) -> Split:
    """How the rows are split: as people said, else as the data suggest. Raises: BadRequest, BadData."""
    if TASKS[task].own_split:
        if asked.split_by is not None:
            raise BadRequest(f"{TASKS[task].label.capitalize()} has a split of its own, so leave `split_by` out.")
        return Split()
    wanted = asked.split_by
    if wanted is None:
        return report.split
    if wanted.lower() in {"random", "chance"}:
        return Split()
    column = next((known for known in report.columns if known.name.lower() == wanted.lower()), None)
    if column is None:
        names = ", ".join(f"`{known.name}`" for known in report.columns)
        raise BadData(f"There is no column `{wanted}` to split by. The columns: {names}; or say `random`.")
    if column.name == report.split.column:
        return report.split
    if column.name.lower() in _PART_NAMES:
        return Split(kind="given", column=column.name)
    return Split(kind="time" if column.kind == "datetime" else "group", column=column.name)


def _text_column(asked: TrainArguments, report: DataReport) -> str:
    column = asked.text_column or report.text_column
    if column is None:
        names = ", ".join(f"`{column.name}`" for column in report.columns)
        raise BadRequest(f"Which column holds the text? The columns: {names}.")
    if column not in {known.name for known in report.columns}:
        names = ", ".join(f"`{known.name}`" for known in report.columns)
        raise BadData(f"There is no text column `{column}`. The columns: {names}.")
    return column


def _useful_gpus(gpus: int, task: TaskType) -> int:
    """Raises: BadRequest for GPUs that would be idle."""
    if gpus > 1 and not TASKS[task].uses_gpu:
        label = TASKS[task].label
        raise BadRequest(
            f"{label[0].upper()}{label[1:]} trains no network, so {gpus} GPUs would be idle: leave `gpus` out."
        )
    return gpus


def _refuse_apart(gpus: int, host: HostInfo, network: Network) -> None:
    """Raises: BadRequest where the processes of several GPUs cannot meet: Landlock takes the loopback from them too."""
    if host.sandbox == "landlock" and network != "open":
        raise BadRequest(
            f"On {host.host}, behind Landlock, the processes of {gpus} GPUs meet with network=open alone: say "
            "that, take one GPU, or install bubblewrap there."
        )
