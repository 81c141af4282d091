"""Tools that apply a finished model in a job on a host: measure it on other data, or predict every row of a file."""

from collections.abc import Sequence

from pydantic import Field, JsonValue

from agent.cards import at_host, counted, gaps_words, score_words, spec_facts
from agent.domain.content import Card
from agent.domain.datasets import DatasetRef
from agent.domain.errors import BadData, BadRequest
from agent.domain.policy import Effect
from agent.domain.runs import FinishedModel, JobKind, Run, RunSpec
from agent.domain.tasks import TASKS, Answer, metric_label
from agent.ports import Bundles
from agent.runs.engines import Engines
from agent.runs.life.service import RunService
from agent.stores import Runs
from agent.tools.data import DataFiles, finished_run
from agent.tools.tool import Arguments, Caller, Plan, Result, Tool
from agent.tools.training.launching import cost_of, start
from agent.tools.training.placing import place

PLAN_LIMIT_S = 120.0
MEASURED = frozenset({Answer.LABEL, Answer.NUMBER})  # what a finished model is measured in without its training


class ApplyArguments(Arguments):
    """Which model, and which data."""

    run: str | None = Field(
        None, description="Run id; the newest succeeded run of this thread if unsaid.", examples=["r-abc123"]
    )
    file: str | None = Field(None, description="Name of a file attached in this thread; the newest if unsaid.")
    max_hours: float = Field(1.0, gt=0.0, le=720.0)
    gpus: int | None = Field(None, ge=0, le=1, description="1 on a GPU, 0 without one, if the person said so.")
    host: str | None = Field(None, description="A host that the person named.")
    engine: str | None = Field(None, description="The engine that the person named; the usual one if unsaid.")


class ApplyingModels:
    """The tools of this family."""

    def __init__(self, files: DataFiles, runs: Runs, service: RunService, engines: Engines, bundles: Bundles) -> None:
        """`bundles` packs the recipe whose steps do it."""
        self._files = files
        self._runs = runs
        self._service = service
        self._engines = engines
        self._bundles = bundles

    def tools(self) -> Sequence[Tool]:
        """Their declarations."""
        return (
            Tool(
                "evaluate_model",
                "Measure a finished run's model on other data that have the answers, without training; asks for "
                "approval.",
                ApplyArguments,
                Effect.SPEND,
                plan=self.plan_evaluation,
                execute=self.execute,
                limit_s=PLAN_LIMIT_S,
                cost=cost_of,
            ),
            Tool(
                "predict_as_job",
                "Predict every row of a large file with a finished run's model, as a job with its own hours; asks for "
                "approval. `predict` answers small files at once.",
                ApplyArguments,
                Effect.SPEND,
                plan=self.plan_prediction,
                execute=self.execute,
                limit_s=PLAN_LIMIT_S,
                cost=cost_of,
            ),
        )

    async def plan_evaluation(self, caller: Caller, asked: ApplyArguments) -> Plan:
        """The exact evaluation and its card; nothing is started.

        Raises:
            BadData, BadRequest, NotFound: there is no such model, or the data cannot measure it.
        """
        run = await self._model_of(caller, asked)
        spec = run.spec
        if spec.task is None or TASKS[spec.task].answer not in MEASURED:
            measured = ", ".join(task.label for task in TASKS.values() if task.answer in MEASURED)
            raise BadRequest(
                f"`{run.id}` is a {spec.kind}: its model is measured by its own run only. On other data models of "
                f"these task types can be: {measured}. `clone {run.id}` trains on other data and measures there."
            )
        dataset = await self._files.find(caller.session_id, asked.file)
        report = await self._files.report(dataset, spec.target, spec.task)
        if report.problems:
            raise BadData(" ".join(report.problems))
        return await self._plan(run, dataset, asked, JobKind.EVALUATION)

    async def plan_prediction(self, caller: Caller, asked: ApplyArguments) -> Plan:
        """The exact prediction and its card; nothing is started. Raises: BadRequest, NotFound."""
        run = await self._model_of(caller, asked)
        dataset = await self._files.find(caller.session_id, asked.file)
        return await self._plan(run, dataset, asked, JobKind.PREDICTION)

    async def execute(self, caller: Caller, exact: dict[str, JsonValue], token: str) -> Result:
        """Create the approved job; a repetition with the same token finds it."""
        result = await start(self._runs, self._service, caller, exact, token)
        return Result(result.text.replace("follows the training", "says how many rows are done"), result.data)

    async def _model_of(self, caller: Caller, asked: ApplyArguments) -> Run:
        run = await finished_run(self._runs, caller, asked.run)
        if run.outcome is None or run.outcome.artifact is None or "model.py" not in run.outcome.artifact.files:
            raise BadRequest(f"Run `{run.id}` left no model of a recipe, so there is nothing to ask.")
        return run

    async def _plan(self, run: Run, dataset: DatasetRef, asked: ApplyArguments, job: JobKind) -> Plan:
        before, artifact = run.spec, run.outcome.artifact if run.outcome else None
        if artifact is None or before.task is None:
            raise BadRequest(f"Run `{run.id}` left no model of a recipe, so there is nothing to ask.")
        placed = await place(
            self._engines, self._runs, engine=asked.engine, host=asked.host, gpus=asked.gpus, task=before.task
        )
        spec = RunSpec(
            job=job,
            model=FinishedModel(
                run=run.id, sha256=artifact.sha256, size_bytes=artifact.size_bytes, measured=_measured(run)
            ),
            task=before.task,
            recipe=before.recipe,
            dataset=dataset,
            target=before.target,
            text_column=before.text_column,
            seed=before.seed,
            test_frac=1.0,
            host=placed.host.host,
            gpus=placed.gpus,
            max_hours=asked.max_hours,
            network=placed.network,
            sandbox=placed.host.sandbox,
            bundle_sha256=await self._bundles.pack(before.recipe),
        )
        spec = placed.priced(spec)
        card = Card(
            kind="approval",
            title=_question(spec, run.id),
            tone="busy",
            body=_body(spec, run),
            facts=tuple(spec_facts(spec, limits=placed.limits)),
        )
        return Plan({"spec": spec.model_dump(mode="json")}, at_host(card, placed.host))


def _question(spec: RunSpec, run: str) -> str:
    verb = "Measure the model of" if spec.job is JobKind.EVALUATION else "Predict every row with the model of"
    return f"{verb} {run} on {spec.data_words}?"


def _measured(run: Run) -> str:
    """What a run measured, in words; empty where it measured nothing."""
    score = run.outcome.scorecard if run.outcome else None
    if score is None:
        return ""
    rows = f"{counted(score.test_rows, 'sealed row')} of `{run.spec.data_words}`"
    return f"{metric_label(score.metric)} {score_words(score.model.value)} on {rows}"


def _body(spec: RunSpec, run: Run) -> str:
    lines = [f"{number}. {stage}" for number, stage in enumerate(spec.stages, start=1)]
    if spec.job is JobKind.EVALUATION and (measured := _measured(run)):
        lines.append(f"\nWhen it was trained it had {measured}.")
    if gaps := gaps_words(spec.sandbox):
        lines.append(f"\n{gaps}")
    return "\n".join(lines)
