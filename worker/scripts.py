"""Runs the short scripts, inspect and predict, each in a process with a time and a memory limit.

Owns their command lines and the cache of unpacked models. Knows no Celery. Called by `worker.tasks`.
"""

import csv
import json
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from agent.domain.datasets import DataReport, DatasetRef
from agent.domain.errors import BadData, Unavailable
from agent.domain.orders import (
    BoxesPrediction,
    ClusterPrediction,
    FoundBox,
    InspectOrder,
    LabelPrediction,
    NumberPrediction,
    OfImage,
    Prediction,
    Predictions,
    PredictOrder,
    SpansPrediction,
    StepPrediction,
    TextPrediction,
)
from agent.domain.redaction import hidden
from agent.domain.sources import HubSource
from worker.client.blobs import BlobStore
from worker.folders import HostFolder
from worker.sandbox import Walls, handed_over, wrap
from worker.serving.ask import served_file, served_rows
from worker.supervisor.child import shielded
from worker.supervisor.exits import BAD_DATA_EXIT
from worker.supervisor.outputs import unpack
from worker.supervisor.steps import basic_environment
from worker.warm.sets import expect_run

_MEMORY_BYTES = 8 * 1024**3
_PACKAGES = Path(__file__).resolve().parent.parent  # the folder that holds our packages
_SAID_CHARS = 300
_PREDICTING = "Predicting"
_ROWS_KEPT = 1000  # of the answers; the file has all
_TOP = 5
_IMAGES_BYTES = 2 * 1024**2
_TEXT_CHARS = 1000  # of each text that is kept of a file
_PREDICTION: TypeAdapter[Prediction] = TypeAdapter(Prediction)


class Scripts:
    """Inspect and predict on this host."""

    def __init__(
        self,
        blobs: BlobStore,
        home: HostFolder,
        *,
        tier: str,
        inspect_s: float = 60.0,
        predict_s: float = 120.0,
        rows_s: float = 300.0,
    ) -> None:
        """The limits are seconds of wall-clock time."""
        self._blobs, self._home, self._tier = blobs, home, tier
        self._inspect_s, self._predict_s, self._rows_s = inspect_s, predict_s, rows_s

    def inspect(self, order: InspectOrder) -> DataReport:
        """Audit a file. Raises `BadData`, `NotFound`."""
        if order.plan:
            expect_run(self._home.warm, order.plan.recipe)
        data = self._blobs.get_file(order.dataset.sha256)
        argv = [sys.executable, "-m", "worker.recipes.inspect", "--file", str(data), "--name", order.dataset.name]
        argv += ["--target", order.target] if order.target else []
        argv += ["--task", order.task] if order.task else []
        argv += ["--plan", order.plan.model_dump_json()] if order.plan else []
        with tempfile.TemporaryDirectory(prefix="trainyard-") as folder:
            what = f"Looking at {order.dataset.name}"
            found = self._run(
                argv,
                Path(folder),
                readable=[data, _PACKAGES / "trainyard", _PACKAGES / "worker"],
                limit_s=self._inspect_s,
                what=what,
            )
        shown = {name: hidden(value) for name, value in found.items()}  # cells of people's data are quoted in it
        return DataReport.model_validate_json(json.dumps({**shown, "dataset": order.dataset.model_dump(mode="json")}))

    def predict(self, order: PredictOrder) -> Predictions:
        """Ask the run that keeps the model up, where there is one; else run its own predict.py.

        Raises `BadData`, `NotFound`.
        """
        if order.serving and (found := self._served(order)) is not None:
            return found
        model = self._model(order.artifact_sha256)
        argv = [sys.executable, "-B", str(model / "predict.py")]
        with tempfile.TemporaryDirectory(prefix="trainyard-") as name:
            folder = Path(name)
            if order.dataset is None:
                (folder / "rows.json").write_text(json.dumps([dict(row) for row in order.rows]))
                rows = self._run(
                    [*argv, "--json", "rows.json"], folder, readable=[model], limit_s=self._predict_s, what=_PREDICTING
                )
                found = _counted([_PREDICTION.validate_python({"kind": "label", **row}) for row in rows])
                return found.model_copy(update={"file": self._steps_file(folder, found.rows)})
            data = folder / "given" / _safe(order.dataset.name)  # its name stands in the answer for an image
            data.parent.mkdir()
            shutil.copyfile(self._blobs.get_file(order.dataset.sha256), data)
            try:
                self._run(
                    [*argv, f"given/{data.name}", "--out", "answers.csv"],
                    folder,
                    readable=[model],
                    limit_s=self._predict_s,
                    what=_PREDICTING,
                )
            except BadData as error:
                said = error.text.replace(f"given/{data.name}", data.name)
                raise BadData(said.replace(data.name, f"`{order.dataset.name}`", 1)) from error
            answers = folder / "answers.csv"
            file = self._blobs.put_file(answers, name=f"{Path(order.dataset.name).stem}-predictions.csv")
            found = _counted(_read_answers(answers, _kind_of(model)))
            return found.model_copy(update={"file": file, "rows": _with_images(found.rows, folder)})

    def _served(self, order: PredictOrder) -> Predictions | None:
        """The answers of a model that is kept up here; None where it does not answer."""
        folder = self._home.run(order.serving)
        with tempfile.TemporaryDirectory(prefix="trainyard-") as name:
            if order.dataset is None:
                said = served_rows(folder, order.rows, limit_s=self._predict_s)
                if said is None:
                    return None
                found = _counted([_PREDICTION.validate_python({"kind": "label", **row}) for row in said])
                return found.model_copy(update={"file": self._steps_file(Path(name), found.rows)})
            kind = _kind_of(self._model(order.artifact_sha256))
            data = self._blobs.get_file(order.dataset.sha256)
            answered = served_file(folder, data, order.dataset.name, limit_s=self._predict_s)
            if answered is None:
                return None
            answers = Path(name) / "answers.csv"
            answers.write_text(answered[0], encoding="utf-8", newline="")
            file = self._blobs.put_file(answers, name=f"{Path(order.dataset.name).stem}-predictions.csv")
            found = _counted(_read_answers(answers, kind))
            return found.model_copy(update={"file": file, "rows": _pictured(found.rows, answered[1])})

    def rows(self, data: Path, source: HubSource, work: Path) -> Mapping[str, Any]:
        """One file in `work` of a data set's folder, and what it says of it. Raises `BadData`."""
        argv = [sys.executable, "-m", "worker.fetching.rows", str(data), "--name", source.name]
        argv += ["--config", source.config] if source.config else []
        argv += ["--split", source.split] if source.split else []
        readable = [data, _PACKAGES / "worker"]
        found = self._run(argv, work, readable=readable, limit_s=self._rows_s, what=f"Reading {source.name}")
        return dict(found)

    def _steps_file(self, folder: Path, rows: Sequence[Prediction]) -> DatasetRef | None:
        """A forecast as a csv file; None for other answers."""
        steps = [row for row in rows if isinstance(row, StepPrediction)]
        if not steps:
            return None
        names = (
            ["series", "moment", "value", "low", "high"]
            if any(step.series for step in steps)
            else ["moment", "value", "low", "high"]
        )
        with (folder / "forecast.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(names)
            writer.writerows([getattr(step, name) for name in names] for step in steps)
        return self._blobs.put_file(folder / "forecast.csv", name="forecast.csv")

    def _run(self, argv: Sequence[str], folder: Path, *, readable: list[Path], limit_s: float, what: str) -> Any:
        """The JSON that the script printed, None when it printed nothing."""
        env: Mapping[str, str] = {**basic_environment(folder), "PYTHONPATH": str(_PACKAGES), "CUDA_VISIBLE_DEVICES": ""}
        command = wrap(self._tier, argv, Walls(folder, readable=readable, env=env))
        with handed_over(command) as (full, files):
            process = subprocess.Popen(
                shielded(full, memory_bytes=_MEMORY_BYTES),
                cwd=folder,
                env=dict(env if command.env is None else command.env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=files,
            )
        try:
            said, complaint = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            as_job = ", or let `batch` do it as a job" if what == _PREDICTING else ""
            raise BadData(f"{what} took more than {limit_s:g} s and was ended. Try with fewer rows{as_job}.") from None
        finally:
            _end(process)
        return _answer(process.returncode, said, complaint, what=what)

    def _model(self, sha256: str) -> Path:
        """The folder of an unpacked artifact."""
        tar = self._blobs.get_file(sha256)
        final = self._home.models / sha256
        if not final.exists():
            self._home.models.mkdir(parents=True, exist_ok=True)
            aside = Path(tempfile.mkdtemp(prefix=".aside-", dir=self._home.models))
            try:
                unpack(tar, aside)
                aside.rename(final)
            except OSError:
                if not final.exists():  # another process may have been first
                    raise
            finally:
                shutil.rmtree(aside, ignore_errors=True)
        return final


def _safe(name: str) -> str:
    """A name of a file that is no path and no option."""
    return re.sub(r"[^\w.\- ]", "_", Path(name).name)[-100:].lstrip("-. ") or "rows.csv"


def _with_images(rows: Sequence[Prediction], folder: Path) -> tuple[Prediction, ...]:
    """The answers with the small images that predict.py laid beside them, where it did."""
    path = folder / "answers.images.json"
    if not path.is_file() or path.stat().st_size > _IMAGES_BYTES:
        return tuple(rows)
    return _pictured(rows, json.loads(path.read_text(encoding="utf-8")))


def _pictured(rows: Sequence[Prediction], images: Sequence[Mapping[str, Any]]) -> tuple[Prediction, ...]:
    shown = [
        row.model_copy(
            update={"name": one.get("name", ""), "size": tuple(one["size"]), "thumbnail": one["image"]}
            if isinstance(row, OfImage)
            else {}
        )
        for row, one in zip(rows, images, strict=False)
    ]
    return (*shown, *rows[len(shown) :])


def _kind_of(model: Path) -> str:
    """What a model answers; those that were trained before there was another kind answer labels."""
    about = model / "model.json"
    return str(json.loads(about.read_text(encoding="utf-8")).get("answer", "label")) if about.exists() else "label"


def _counted(answers: Iterable[Prediction]) -> Predictions:
    first: list[Prediction] = []
    counts: Counter[str] = Counter()
    numbers: list[float] = []
    total = 0
    for answer in answers:
        total += 1
        if isinstance(answer, LabelPrediction | ClusterPrediction):
            counts[answer.label] += 1
        elif isinstance(answer, BoxesPrediction):
            counts.update(box.label for box in answer.boxes)
        elif isinstance(answer, SpansPrediction):
            counts.update(span.label for span in answer.spans)
        elif isinstance(answer, NumberPrediction | StepPrediction):
            numbers.append(answer.value)
        if len(first) < _ROWS_KEPT:
            first.append(answer)
    spread = (min(numbers), statistics.median(numbers), max(numbers)) if numbers else None
    return Predictions(rows=tuple(first), total=total, counts=tuple(counts.most_common()), spread=spread)


def _read_answers(path: Path, kind: str) -> Iterator[Prediction]:
    """The columns that predict.py added: `prediction`, then `p_<label>` for each label. Long texts are cut."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        header = next(reader)
        at = len(header) - 1 - header[::-1].index("prediction")
        labels = [name.removeprefix("p_") for name in header[at + 1 :]]
        for row in reader:
            if kind == "number":
                yield NumberPrediction(value=float(row[at]))
                continue
            if kind == "cluster":
                yield ClusterPrediction(cluster=int(row[at]))
                continue
            if kind == "boxes":
                yield BoxesPrediction(boxes=tuple(_box(one) for one in json.loads(row[at])))
                continue
            if kind == "spans":
                text = row[header.index("text")]
                yield SpansPrediction.model_validate({"text": text, "spans": json.loads(row[at])})
                continue
            if kind == "text":
                yield TextPrediction(text=row[at][:_TEXT_CHARS])
                continue
            shares = sorted(zip(labels, map(float, row[at + 1 :]), strict=True), key=lambda pair: -pair[1])
            yield LabelPrediction(label=row[at], probabilities=tuple(shares[:_TOP]))


def _box(one: Mapping[str, Any]) -> FoundBox:
    left, top, width, height = one["box"]
    return FoundBox(label=one["label"], left=left, top=top, width=width, height=height, score=one["score"])


def _answer(code: int, said: bytes, complaint: bytes, *, what: str) -> Any:
    try:
        answer = json.loads(said) if said.strip() else None
    except ValueError:
        answer = None
        code = code or 1
    if code == BAD_DATA_EXIT and isinstance(answer, dict) and "error" in answer:
        raise BadData(str(answer["error"]))
    if code in (-signal.SIGKILL, 128 + signal.SIGKILL) or b"MemoryError" in complaint:
        raise BadData(f"{what} needed more memory than the host has for it. Try with fewer rows.")
    if code != 0:
        lines = complaint.decode(errors="replace").strip().splitlines()
        raise Unavailable(f"{what} broke on the host: {lines[-1][:_SAID_CHARS] if lines else f'exit code {code}'}")
    return answer


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.kill()
    process.communicate()
