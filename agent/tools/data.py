"""Tools over data files: the audit, and predictions of a finished model."""

from collections.abc import Sequence

from pydantic import Field, JsonValue

from agent.cards import counted, data_card, size
from agent.domain.content import Document
from agent.domain.datasets import FILE_LIMIT_BYTES, DataReport, DatasetRef
from agent.domain.errors import BadData, BadRequest, NotFound
from agent.domain.orders import (
    AttemptLabel,
    FetchOrder,
    InspectOrder,
    OfImage,
    Prediction,
    Predictions,
    PredictOrder,
)
from agent.domain.policy import Effect
from agent.domain.runs import Run, RunSpec, RunState
from agent.domain.sources import FORMS, source_of, stands_in
from agent.domain.tasks import TASKS, Answer, TaskType
from agent.ports import Blobs, Clock, DataService
from agent.runs.pictures.artifacts import ArtifactWriter
from agent.stores import Conversations, Runs
from agent.tools.answers import ROWS_SHOWN, answer_words, predictions_card, predictions_picture
from agent.tools.finding import LOOKED_AT, named, of_thread
from agent.tools.tool import Arguments, Caller, Result, Tool
from agent.tools.training.programs import REQUIREMENTS

FETCH_LIMIT_S = 660.0
INSPECT_LIMIT_S = 90.0
PREDICT_LIMIT_S = 120.0
WIDE = 40  # columns
REPORTS_KEPT = 200
SCRIPT_ENDING = ".py"


class DataFiles:
    """The data files of a session, and their audits (kept, since a file under a sha256 never changes)."""

    def __init__(self, conversations: Conversations, service: DataService, clock: Clock) -> None:
        """Audits run on a host."""
        self._clock = clock
        self._conversations = conversations
        self._service = service
        self._reports: dict[InspectOrder, DataReport] = {}
        self._shown: dict[tuple[str, str], frozenset[str]] = {}  # warnings by session and file

    async def find(self, session_id: str, name: str | None) -> DatasetRef:
        """A file by name; the newest one when no name is given.

        Raises:
            NotFound: the text names the files that are there.
        """
        files = await self._conversations.files(session_id)
        if name is not None and files:
            return _named(files, name)
        data = [file for file in files if file.name != REQUIREMENTS and not file.is_program]
        if not data:
            raise NotFound(
                "There is no data file in this thread yet. Attach one to a message (csv, json, parquet, xlsx, text, "
                "a zip of images), or say where it is, such as https://…/houses.csv or hf:owner/name."
            )
        return data[0]

    async def fetch(self, session_id: str, address: str) -> tuple[DatasetRef, tuple[str, ...]]:
        """Store what an address names as a file of the session; it, and what people should know.

        Raises:
            BadRequest, BadData, NotAllowed, NotFound, Unavailable: the text says what to do.
        """
        order = FetchOrder(source=source_of(address), limit_bytes=FILE_LIMIT_BYTES)
        fetched = await self._service.fetch_data(order)
        await self._conversations.add_file(session_id, fetched.dataset, self._clock.now())
        return fetched.dataset, fetched.notes

    async def script(self, session_id: str, name: str | None) -> DatasetRef:
        """A Python file by name; the newest one when no name is given. Raises `NotFound`."""
        files = await self._conversations.files(session_id)
        if name is not None and files:
            return _named(files, name)
        scripts = [file for file in files if file.name.lower().endswith(SCRIPT_ENDING)]
        if not scripts:
            raise NotFound("Attach the new `train.py` to a message, or say which text to replace with which.")
        return scripts[0]

    async def program(self, session_id: str, name: str | None) -> DatasetRef:
        """A Python file or a zip by name; the newest one when no name is given. Raises `NotFound`."""
        files = await self._conversations.files(session_id)
        if name is not None and files:
            return _named(files, name)
        programs = [file for file in files if file.is_program]
        if not programs:
            raise NotFound("There is no program in this thread yet. Attach a .py file, or a zip of your folder.")
        return programs[0]

    async def report(self, dataset: DatasetRef, target: str | None, task: TaskType | None) -> DataReport:
        """The audit of a file, with classes and leaks when the target is known or can be guessed."""
        order = InspectOrder(dataset=dataset, target=target, task=task)
        if order not in self._reports:
            report = await self._service.inspect(order)
            self._keep(order, report)
            if target is None and report.target is not None:  # the guess was audited too
                guessed = order.model_copy(update={"target": report.target.column, "task": report.suggested_task})
                self._keep(guessed, report)
            return report
        return self._reports[order]

    async def checked(self, spec: RunSpec) -> DataReport:
        """The audit for a planned run. Raises `BadData` with the sentence with which one of its steps would fail."""
        if spec.dataset is None:
            raise BadRequest("There are no data to look at in this plan.")
        order = InspectOrder(dataset=spec.dataset, target=spec.target, task=spec.task, plan=spec)
        return await self._service.inspect(order)

    def shown(self, session_id: str, report: DataReport) -> None:
        """People of this session see the card of this audit."""
        self._shown[session_id, report.dataset.sha256] = frozenset(report.warnings)
        while len(self._shown) > REPORTS_KEPT:
            del self._shown[next(iter(self._shown))]

    def unseen(self, session_id: str, report: DataReport) -> tuple[str, ...]:
        """Its warnings that no card of the session has shown, as far as is remembered."""
        seen = self._shown.get((session_id, report.dataset.sha256), frozenset())
        return tuple(warning for warning in report.warnings if warning not in seen)

    def _keep(self, order: InspectOrder, report: DataReport) -> None:
        self._reports[order] = report
        while len(self._reports) > REPORTS_KEPT:
            del self._reports[next(iter(self._reports))]  # the oldest


def _named(files: Sequence[DatasetRef], name: str) -> DatasetRef:
    for file in files:
        if file.name.lower() == name.lower():
            return file
    known = ", ".join(f"`{file.name}`" for file in files)
    raise NotFound(f"There is no file `{name}` in this thread. Files here: {known}.")


class InspectArguments(Arguments):
    """Look at a data file."""

    file: str | None = Field(None, description="Name of a file attached in this thread; the newest if unsaid.")
    target: str | None = Field(None, description="Column to predict, if the person named one.")
    about: str | None = Field(
        None,
        description="What the person wants to predict in their own words, if they named no column exactly.",
        examples=["who visits a doctor"],
    )
    task: TaskType | None = Field(None, description="Task type, if it is clear from the request.")


class FetchArguments(Arguments):
    """Fetch data that nobody attached."""

    address: str = Field(description=f"Where the data are: {FORMS}.", examples=["hf:stanfordnlp/imdb"])


class PredictArguments(Arguments):
    """Predict with a finished run's model."""

    run: str | None = Field(None, description="Run id; the newest succeeded run of this thread if unsaid.")
    file: str | None = Field(
        None, description="Name of an attached file with the rows to predict, or an image or zip of them."
    )
    rows: tuple[dict[str, str], ...] = Field(
        (),
        description="Rows as column name to value, instead of a file; an empty value is unknown.",
        examples=[[{"age": "30", "health": "good"}]],
    )
    text: str | None = Field(None, description="One text to answer for, with a model that reads texts.")
    horizon: int | None = Field(None, ge=1, description="How many steps ahead, with the model of a forecast.")


class Data:
    """The tools of this family."""

    def __init__(
        self, files: DataFiles, runs: Runs, service: DataService, blobs: Blobs, artifacts: ArtifactWriter
    ) -> None:
        """Everything is read on a host; `blobs` has what a host wrote for people, `artifacts` draws."""
        self._artifacts = artifacts
        self._files = files
        self._runs = runs
        self._service = service
        self._blobs = blobs

    def tools(self) -> Sequence[Tool]:
        """Their declarations."""
        return (
            Tool(
                "inspect_dataset",
                "Audit an attached data file: rows, columns, types, missing values, duplicates, imbalance, leaks.",
                InspectArguments,
                Effect.READ,
                run=self.inspect,
                limit_s=INSPECT_LIMIT_S,
            ),
            Tool(
                "fetch_data",
                "Fetch data from the web, Hugging Face, Kaggle or a host's disk; then it is like an attached file.",
                FetchArguments,
                Effect.WRITE,
                run=self.fetch,
                limit_s=FETCH_LIMIT_S,
                cut=True,  # a host that has begun stores a file that nobody asks for
                own=_gave_address,
            ),
            Tool(
                "predict",
                "Predict with the model of a finished run, for the rows of an attached csv or for rows given here.",
                PredictArguments,
                Effect.READ,
                run=self.predict,
                limit_s=PREDICT_LIMIT_S,
                beside=False,  # each loads its model on a host
            ),
        )

    async def inspect(self, caller: Caller, asked: InspectArguments) -> Result:
        """The audit of a file."""
        dataset = await self._files.find(caller.session_id, asked.file)
        report = await self._files.report(dataset, asked.target, asked.task)
        if asked.target is None and asked.about is not None:
            from agent.tools.targets import target_in  # noqa: PLC0415 - a start does not wait for its patterns

            meant, _ = target_in(
                asked.about, [of.name for of in report.columns if of.kind not in {"image", "datetime"}]
            )
            if meant not in (None, report.suggested_target):
                report = await self._files.report(dataset, meant, asked.task)
        self._files.shown(caller.session_id, report)
        return Result(report_text(report), _for_model(report), data_card(report))

    async def fetch(self, caller: Caller, asked: FetchArguments) -> Result:
        """Data from an address, as a file of the thread."""
        dataset, notes = await self._files.fetch(caller.session_id, asked.address)
        origin = dataset.origin.shown if dataset.origin else asked.address
        text = " ".join((f"I fetched `{dataset.name}` ({size(dataset.size_bytes)}) from {origin}.", *notes))
        return Result(text, {"file": dataset.name})

    async def predict(self, caller: Caller, asked: PredictArguments) -> Result:
        """Predictions for a file or for rows."""
        run = await finished_run(self._runs, caller, asked.run)
        if run.outcome is None or run.outcome.artifact is None:
            raise BadRequest(f"Run `{run.id}` left no model to predict with.")
        if run.spec.script and "predict.py" not in run.outcome.artifact.files:
            raise BadRequest(f"Run `{run.id}` left no `artifacts/predict.py`, so I cannot predict with its model.")
        rows = _rows(run, asked)
        dataset = None if rows else await self._files.find(caller.session_id, asked.file)
        up = await served_at(self._runs, run.id)
        order = PredictOrder(
            artifact_sha256=run.outcome.artifact.sha256,
            dataset=dataset,
            rows=rows,
            serving=up.run if up else "",
            host=up.host if up else "",
        )
        try:
            predictions = await self._service.predict(order)
        except BadData as error:
            does = f"`{run.id}` predicts `{run.spec.subject}`."
            raise BadData(
                f"{error.text} {does} To learn from other data, say “train a model that predicts …”."
            ) from error
        text = answer_words(run, predictions)
        first: list[JsonValue] = [
            row.model_dump(mode="json", exclude=_unread(row)) for row in predictions.rows[:ROWS_SHOWN]
        ]
        card = predictions_card(run, predictions, dataset)
        if (spec := predictions_picture(run, predictions)) is not None:
            picture = await self._artifacts.draw(spec, about=f"predictions/{run.id}")
            card = card.model_copy(update={"picture": picture})
        return Result(text, {"run": run.id, "first_rows": first}, card, await self._handed(run, predictions))

    async def _handed(self, run: Run, predictions: Predictions) -> tuple[Document, ...]:
        """The whole file of predictions, where there is one."""
        file = predictions.file
        if file is None:
            return ()
        path = await self._blobs.get(file.sha256)
        name = f"predictions-{run.id}.csv"
        return (Document(path=str(path), name=name, sha256=file.sha256, size_bytes=file.size_bytes),)


def _unread(answer: Prediction) -> set[str]:
    """Fields that say nothing to a model."""
    return {"thumbnail"} if isinstance(answer, OfImage) and answer.name else {"thumbnail", "name", "size"}


async def _gave_address(caller: Caller, asked: FetchArguments) -> bool:
    """Whether the address stands in the person's own words, so that nobody else can have put data of ours into it."""
    return any(stands_in(asked.address, words) for words in caller.words)


def _rows(run: Run, asked: PredictArguments) -> tuple[dict[str, str], ...]:
    """The rows to answer for that came with the request itself, none where a file has them."""
    if asked.text and not asked.rows:
        return ({run.spec.text_column or "text": asked.text},)
    if not asked.rows and asked.file is None and run.spec.task and TASKS[run.spec.task].answer is Answer.SERIES:
        return ({"horizon": str(asked.horizon or "")},)
    return asked.rows


async def served_at(runs: Runs, model_of: str) -> AttemptLabel | None:
    """The attempt that keeps the model of a run up, where one does."""
    for run, attempt in await runs.live():
        if run.spec.serving and run.spec.serving.run == model_of and run.state is RunState.RUNNING:
            return AttemptLabel(run=run.id, attempt=attempt.number, host=attempt.host)
    return None


async def finished_run(runs: Runs, caller: Caller, run_id: str | None) -> Run:
    """A run that has a model.

    Raises:
        NotFound, BadRequest: there is none; the text says what to do.
    """
    if run_id is not None:
        run = await named(runs, caller, run_id)
        if run.spec.model is not None:
            raise BadRequest(f"`{run.id}` made no model: it used that of `{run.spec.model.run}`, which you may name.")
        if run.state is not RunState.SUCCEEDED:
            raise BadRequest(f"Run `{run.id}` is {run.state.value}, so it has no finished model to predict with.")
        return run
    for run in await of_thread(runs, caller, LOOKED_AT):
        if run.state is RunState.SUCCEEDED and run.spec.makes_model and run.outcome and run.outcome.artifact:
            return run
    raise NotFound("No run of this thread has finished with a model yet. Train one first.")


def _for_model(report: DataReport) -> dict[str, JsonValue]:
    """The audit without the rows; of a wide file each column's name and kind only."""
    data: dict[str, JsonValue] = report.model_dump(mode="json", exclude={"preview", "columns", "effort"})
    wide = len(report.columns) > WIDE
    shown = {"name", "kind"} if wide else None
    return data | {"columns": [column.model_dump(mode="json", include=shown) for column in report.columns]}


def report_text(report: DataReport) -> str:
    """The audit in one sentence; the card has the rest."""
    text = f"`{report.dataset.name}` has {counted(report.rows, 'row')} and {counted(len(report.columns), 'column')}."
    if report.problems:
        text += " It cannot be used as it is: the card says why."
    return text
