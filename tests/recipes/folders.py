"""Run folders as a supervisor makes them: own code of the bundle, each step a child process."""

from __future__ import annotations

import ast
import csv
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker import folders
from worker.recipes.common.job import read_job, step
from worker.recipes.common.predict import load_model
from worker.recipes.entry import train
from worker.recipes.evaluate import main as evaluate
from worker.recipes.prepare import main as prepare
from worker.supervisor import workspace

REPO = Path(__file__).resolve().parents[2]
LIMIT_S = 300  # only ends what hangs; six processes may share two processors
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=0")
TABULAR = {"rounds": 40, "early_stopping_patience": 10}
TEXT = {"max_steps": 24, "hidden_size": 32, "layers": 1, "heads": 2, "max_tokens": 32, "vocabulary": 600}


@dataclass(frozen=True)
class RunFolder:
    """One run on disk, with its sealed labels beside it."""

    dir: Path
    sealed: Path

    def child(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a step. `-S` keeps the installed repository off the path, as on a host without Trainyard."""
        env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join([str(self.dir), sysconfig.get_path("purelib")]),
            "TRAINYARD_RUN_DIR": str(self.dir),
            "TRAINYARD_RUN_ID": "01RUN",
            "TRAINYARD_ATTEMPT": "1",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        }
        return subprocess.Popen(
            [sys.executable, "-S", *arguments],
            cwd=self.dir, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def run(self, *arguments: str, code: int = 0) -> str:
        child = self.child(*arguments)
        said, _ = child.communicate(timeout=LIMIT_S)
        assert child.returncode == code, said
        return said

    def train(self, *, code: int = 0) -> str:
        return self.run("train.py", code=code)

    def prepare_here(self) -> int:
        """Prepare within this process, which is quicker; the exit code."""
        return prepare(["--run-dir", str(self.dir), "--sealed-dir", str(self.sealed)])

    def prepare(self) -> None:
        """Prepare in a process of its own."""
        self._elsewhere("prepare_here")

    def evaluate(self) -> None:
        """Measure in a process of its own."""
        self._elsewhere("evaluate_here")

    def _elsewhere(self, step: str) -> None:
        code = (
            "import sys, pathlib; from tests.recipes.folders import RunFolder\n"
            "sys.exit(getattr(RunFolder(*map(pathlib.Path, sys.argv[2:])), sys.argv[1])())"
        )
        subprocess.run(
            [sys.executable, "-c", code, step, str(self.dir), str(self.sealed)], cwd=REPO, check=True, timeout=LIMIT_S,
            env={**os.environ, "TRAINYARD_RUN_DIR": str(self.dir)},
        )  # fmt: skip

    def evaluate_here(self) -> int:
        """Measure as a host does: in a clean folder, with copies of what the evaluation may read."""
        host = folders.RunFolder(self.dir, self.sealed)
        workspace.furnish(host, {}, (self.dir / "config.json").read_bytes())
        workspace.bring_predictions(host)
        code = evaluate(["--run-dir", str(host.workspace), "--sealed-dir", str(host.sealed)])
        for name in ("results.json", "error.json"):
            if (host.workspace / name).is_file():
                shutil.copyfile(host.workspace / name, self.dir / name)
        workspace.take_results(host)
        return code

    def train_here(self) -> int:
        before = signal.getsignal(signal.SIGTERM)
        try:
            return step(self.dir, lambda: train(read_job(self.dir)))
        finally:
            signal.signal(signal.SIGTERM, before)

    def all_steps(self) -> dict[str, Any]:
        """Training is a process of its own; what comes before and after happens in this one."""
        assert self.prepare_here() == 0
        self.train()
        assert self.evaluate_here() == 0
        return self.json("scorecard.json")

    def all_steps_here(self) -> dict[str, Any]:
        assert (self.prepare_here(), self.train_here(), self.evaluate_here()) == (0, 0, 0)
        return self.json("scorecard.json")

    def json(self, name: str) -> Any:
        return json.loads((self.dir / name).read_text(encoding="utf-8"))

    def rows(self, name: str) -> list[dict[str, str]]:
        with (self.dir / name).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def metrics(self) -> list[dict[str, Any]]:
        path = self.dir / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def stop_after(self, steps: int) -> tuple[int, str]:
        """Start training, send SIGTERM once `steps` rows are written, and wait for the end."""
        child = self.child("train.py")
        patience = time.monotonic() + LIMIT_S
        while len(self.metrics()) < steps and child.poll() is None and time.monotonic() < patience:
            time.sleep(0.05)
        child.terminate()
        said, _ = child.communicate(timeout=LIMIT_S)
        return child.returncode, said

    def stop_here_after(self, steps: int) -> int:
        """Train within this process, which stops itself by SIGTERM once `steps` rows are written; the exit code."""

        def watch() -> None:
            patience = time.monotonic() + LIMIT_S
            while len(self.metrics()) < steps and time.monotonic() < patience:
                time.sleep(0.005)
            if getattr(signal.getsignal(signal.SIGTERM), "__name__", "") == "_on_term":  # the runtime listens
                os.kill(os.getpid(), signal.SIGTERM)

        watcher = threading.Thread(target=watch)
        watcher.start()
        code = self.train_here()
        watcher.join()
        return code

    def copy(self, to: Path) -> RunFolder:
        shutil.copytree(self.dir, to / "run")
        shutil.copytree(self.sealed, to / "sealed")
        return RunFolder(to / "run", to / "sealed")


Make = Callable[..., RunFolder]


def make_run(
    at: Path, text: str | bytes, target: str, *, recipe: str = "tabular_classification", **spec: Any
) -> RunFolder:
    """A run's folder with its bundle unpacked and its data in place, before any step."""
    folder = RunFolder(at / "run", at / "sealed")
    (folder.dir / "data").mkdir(parents=True)
    (folder.dir / "data/source.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    for package in ("trainyard", "worker/recipes"):
        shutil.copytree(REPO / package, folder.dir / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPO / "worker/__init__.py", folder.dir / "worker")
    (folder.dir / "train.py").write_text("from worker.recipes.entry import main\n\nmain()\n")
    dataset = {"sha256": "0" * 64, "name": "data.csv", "size_bytes": len(text)}
    full = {"task": recipe, "recipe": recipe, "dataset": dataset, "target": target, "host": "here",
            "bundle_sha256": "0" * 64, "settings": TEXT if recipe.startswith("text") else TABULAR, **spec}  # fmt: skip
    config = {"run": "01RUN", "spec": full, "data": "data/source.csv"}
    (folder.dir / "config.json").write_text(json.dumps(config))
    return folder


def apply_run(at: Path, trained: RunFolder, data: str | bytes, *, job: str) -> RunFolder:
    """A folder for an evaluation alone or a prediction, with the model of a trained run beside its data."""
    spec = trained.json("config.json")["spec"]
    model = {"run": "r-abc123", "sha256": "0" * 64, "size_bytes": 1}
    folder = make_run(at, data, spec["target"], recipe=spec["recipe"], settings={}, job=job, model=model, test_frac=1.0)
    with tarfile.open(folder.dir / "model.tar", "w") as tar:
        for path in (trained.dir / "artifacts").iterdir():
            tar.add(path, path.name)
    return folder


def predict(artifacts: Path, *arguments: str, code: int = 0) -> str:
    """Run predict.py where neither the repository nor Trainyard can be found."""
    env = {
        "PYTHONPATH": sysconfig.get_path("purelib"),
        "PATH": os.environ["PATH"],
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-S", str(artifacts / "predict.py"), *arguments],
        env=env, cwd=artifacts.parent, capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout


def predict_within(artifacts: Path, *arguments: str) -> int:
    """Run predict.py within this process, which is quicker; nothing beside the model may need what is around it."""
    assert imports_of_ours(artifacts) == set()
    load_model(artifacts)  # what predict.py imports is what lies beside it from now on
    spec = importlib.util.spec_from_file_location("predict_beside_a_model", artifacts / "predict.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return int(module.main(list(arguments), artifacts))


OURS = {"agent", "bot", "charts_render", "tests", "trainyard", "worker"}


def imports_of_ours(folder: Path) -> set[str]:
    """The modules of this repository that any line of a folder's programs imports, also within functions."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                found.update(name.name for name in node.names)
            elif isinstance(node, ast.ImportFrom):
                found.add(f"{'.' * node.level}{node.module or ''}")
    return {name for name in found if name.startswith(".") or name.partition(".")[0] in OURS}


def as_csv(rows: list[dict[str, Any]]) -> str:
    lines = [",".join(rows[0]), *(",".join(str(value) for value in row.values()) for row in rows)]
    return "\n".join(lines) + "\n"


def sklearn_csv(name: str) -> str:
    """A data set that comes with scikit-learn, with the class names as target."""
    from sklearn import datasets

    data = getattr(datasets, f"load_{name}")()
    names = [str(column).replace(" ", "_") for column in data.feature_names]
    classes = [str(label) for label in data.target_names]
    return as_csv(
        [{**dict(zip(names, row, strict=True)), "kind": classes[code]}
         for row, code in zip(data.data.tolist(), data.target, strict=True)]
    )  # fmt: skip


def texts_csv(rows: int = 300) -> str:
    lines = (REPO / "examples/docstrings.csv").read_text(encoding="utf-8").splitlines()
    return "\n".join(lines[: rows + 1]) + "\n"
