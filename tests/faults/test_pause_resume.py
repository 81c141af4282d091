"""Interrupted in the chat and gone on equals never interrupted, bit for bit: both recipes, from the csv to the result.

Real Redis, worker, supervisor, sandbox and bot; a person says and clicks. The GPU is one that a stand-in for
`nvidia-smi` tells of, because only its lease matters here: the training runs on the CPU.
"""

import json
import os
import random
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.faults.site import Site, eventually, opened
from tests.faults.test_worker_and_supervisor import supervisors
from tests.worker.conftest import processes_naming

LIMIT_S = 240.0
BY = "train_loss"  # what every training step logs once, and nothing else
SMI = '#!/bin/sh\ncase "$1" in *query-gpu*) echo "GPU-0, 0, NVIDIA L4, 23034, 0, 0";; esac\n'


WORDS = ("red", "blue", "green", "amber", "pink", "teal", "grey", "lime", "gold", "navy")


def table() -> str:
    """Numbers whose product decides, which a linear model cannot see."""
    dice = random.Random(3)
    rows = [[dice.gauss(0, 1) for _ in range(5)] for _ in range(4000)]
    lines = [",".join(f"{x:.4f}" for x in row) + (",yes" if row[0] * row[1] > 0 else ",no") for row in rows]
    return "a,b,c,d,e,kind\n" + "\n".join(lines) + "\n"


def texts() -> str:
    """Sentences whose first word decides, which a bag of words cannot see."""
    dice = random.Random(3)
    rows = [[dice.choice(WORDS) for _ in range(9)] for _ in range(500)]
    lines = [f"{' '.join(row)},{'warm' if row[0] in WORDS[:5] else 'cold'}" for row in rows]
    return "sentence,kind\n" + "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Case:
    """A recipe, slowed down so that there is time to interrupt it; `total` steps of training."""

    recipe: str
    data: Callable[[], str]
    words: str
    total: int
    gpus: int
    chosen: str


TABLE = Case(
    "tabular_classification",
    table,
    "train a model that predicts `kind` with learning rate 0.02 and 800 rounds and patience 9999",
    800,
    0,
    "lightgbm",
)
TEXT = Case(
    "text_classification",
    texts,
    "train a text model that predicts `kind` with learning rate 0.002 and 24 epochs and patience 999",
    264,
    1,
    "encoder",
)
BOTH = pytest.mark.parametrize("case", [TABLE, TEXT], ids=["lightgbm", "torch"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    tools = tmp_path_factory.mktemp("tools")
    (tools / "nvidia-smi").write_text(SMI)
    (tools / "nvidia-smi").chmod(0o755)
    with opened(tmp_path_factory.mktemp("site") / "home", sandbox="auto") as found:
        found.extra = {"PATH": f"{tools}:{os.environ['PATH']}", "TRAINYARD_CHECKPOINT_GRACE_S": "60"}
        found.start_worker()
        found.start_bot()
        yield found


@dataclass(frozen=True)
class Asked:
    """A run and the thread in which somebody asked for it."""

    site: Site
    case: Case
    thread: str
    run: str

    def says(self, text: str, *, files: tuple[Path, ...] = ()) -> None:
        self.site.says(text, thread=self.thread, files=files)

    def reaches(self, share: float) -> int:
        """Wait until the database has this share of the steps; the step."""
        return self.site.progresses(self.run, beyond=round(self.case.total * share), limit_s=LIMIT_S)

    def ends_well(self) -> None:
        assert self.site.ends(self.run, limit_s=LIMIT_S)["state"] == "succeeded", self.site.result(self.run)

    @property
    def folder(self) -> Path:
        return self.site.folder(self.run).path

    @property
    def leases(self) -> list[str]:
        return [row["uuid"] for row in self.site.rows("SELECT uuid FROM gpu_lease WHERE run_id = ?", self.run)]

    @property
    def logged(self) -> dict[int, list[int]]:
        """attempt -> the steps that were stored of it."""
        found: dict[int, list[int]] = {}
        for attempt in self.site.attempts(self.run):
            steps = [row.step for row in self.site.stored(self.run, attempt) if BY in row.values]
            if steps:
                found[attempt["number"]] = steps
        return found

    @property
    def curve(self) -> dict[int, dict[str, float]]:
        """What is known of each step in the end."""
        found: dict[int, dict[str, float]] = {}
        for line in (self.folder / "metrics.jsonl").read_text().splitlines():
            row = json.loads(line)
            found.setdefault(row["step"], {}).update(row["values"])
        return found

    @property
    def made(self) -> dict[str, bytes]:
        """Models and predictions, byte for byte."""
        kept = [*(self.folder / "predictions").glob("*.csv")]
        about = {"README.md", "config.json", "metrics.json", "environment.json", "environment.txt"}
        kept += [path for path in (self.folder / "artifacts").rglob("*") if path.is_file() and path.name not in about]
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in kept}


def ask(site: Site, case: Case, thread: str) -> Asked:
    """Attach the data, say what is wanted, approve."""
    data = site.home / f"{thread}.csv"
    data.write_text(case.data())
    site.says(case.words, files=[data], thread=thread)
    card = site.sees("Approve", thread=thread, limit_s=LIMIT_S)
    site.clicks(card, "Approve")
    eventually(lambda: site.runs_of(thread), what="the run")
    return Asked(site, case, thread, site.runs_of(thread)[0])


WHOLE: dict[str, Asked] = {}


@pytest.fixture
def whole(site: Site, case: Case) -> Asked:
    """The run that nobody interrupts; one of each recipe for all tests."""
    if case.recipe not in WHOLE:
        asked = ask(site, case, f"whole-{case.recipe}")
        asked.ends_well()
        assert asked.logged == {1: list(range(1, case.total + 1))}
        assert site.result(asked.run)["chosen"] == case.chosen
        WHOLE[case.recipe] = asked
    return WHOLE[case.recipe]


def assert_same(one: Asked, other: Asked) -> None:
    """The same numbers on the way, the same weights, model, predictions and measured score."""
    first, second = one.site.result(one.run), other.site.result(other.run)
    assert first["scorecard"] == second["scorecard"]
    assert first["chosen"] == second["chosen"]
    assert one.made.keys() == other.made.keys()
    assert [name for name, data in one.made.items() if other.made[name] != data] == []
    assert len(one.made) >= 3
    assert one.curve.keys() == other.curve.keys()
    assert [step for step, values in one.curve.items() if other.curve[step] != values] == []
    if one.case is TEXT:
        import torch

        ours, theirs = weights(one), weights(other)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    else:
        assert trees(one) == trees(other) != ""


def weights(asked: Asked) -> dict[str, Any]:
    """Tensors of the encoder at its last step, whichever candidate was kept."""
    import torch

    path = asked.folder / f"checkpoints/step_{asked.case.total:08d}/state.pt"
    return torch.load(path, weights_only=True)["parts"]["network"]  # type: ignore[no-any-return]


def trees(asked: Asked) -> str:
    """Of the boosting after its last round, whichever candidate was kept."""
    text = (asked.folder / f"checkpoints/step_{asked.case.total:08d}/lightgbm.txt").read_text()
    return text.partition("\nTree=0\n")[2].partition("\nend of trees")[0]


def once_each(asked: Asked) -> None:
    """Every step was stored once, in order, over all attempts."""
    assert [step for steps in asked.logged.values() for step in steps] == list(range(1, asked.case.total + 1))


@pytest.mark.faults
@BOTH
def test_paused_and_resumed(site: Site, case: Case, whole: Asked) -> None:
    cut = ask(site, case, f"paused-{case.recipe}")
    for share in (0.2, 0.5):
        cut.reaches(share)
        assert len(cut.leases) == case.gpus
        cut.says("pause")
        site.until(cut.run, "paused", limit_s=LIMIT_S)
        assert cut.leases == []
        assert not processes_naming(f"TRAINYARD_RUN_DIR={cut.folder}")
        step = site.run_row(cut.run)["step"]
        saved = site.rows("SELECT step FROM checkpoint WHERE run_id = ? ORDER BY attempt, seq", cut.run)
        assert saved[-1]["step"] == step
        assert (cut.folder / f"checkpoints/step_{step:08d}").is_dir()
        assert step < case.total
        cut.says("resume")
        site.until(cut.run, "running", limit_s=LIMIT_S)
    cut.ends_well()
    assert [row["number"] for row in site.attempts(cut.run)] == [1, 2, 3]
    assert cut.leases == []
    once_each(cut)
    assert_same(whole, cut)


@pytest.mark.faults
@BOTH
def test_its_supervisor_was_killed(site: Site, case: Case, whole: Asked) -> None:
    cut = ask(site, case, f"killed-{case.recipe}")
    cut.reaches(0.3)
    (supervisor,) = supervisors(site, cut.run)
    os.kill(supervisor, signal.SIGKILL)
    with site.explained(cut.run):
        eventually(lambda: len(site.attempts(cut.run)) == 2, what="a second attempt", limit_s=LIMIT_S)
    cut.ends_well()
    stored = [step for steps in cut.logged.values() for step in steps]  # what the dead one left is told by the second
    jumps = (number for number, step in enumerate(stored) if number and step != stored[number - 1] + 1)
    again = next(jumps, len(stored))  # without a jump it was killed right at a checkpoint
    assert stored[:again] == list(range(1, again + 1)), "nothing of the first attempt is lost"
    begun = stored[again] if again < len(stored) else case.total + 1
    assert stored[again:] == list(range(begun, case.total + 1)), "from its last checkpoint on, once each"
    assert stored[-1] == case.total
    assert_same(whole, cut)


@pytest.mark.faults
@BOTH
def test_stopped_and_retried(site: Site, case: Case, whole: Asked) -> None:
    cut = ask(site, case, f"stopped-{case.recipe}")
    cut.reaches(0.3)
    cut.says(f"stop {cut.run}")
    assert site.ends(cut.run, limit_s=LIMIT_S)["state"] == "stopped"
    step = site.run_row(cut.run)["step"]
    assert (cut.folder / f"checkpoints/step_{step:08d}").is_dir()
    cut.says(f"resume {cut.run}")
    site.sees("cannot be resumed", "retry starts it again from its last checkpoint", thread=cut.thread)
    cut.says("retry")
    site.until(cut.run, "running", limit_s=LIMIT_S)
    cut.ends_well()
    once_each(cut)
    assert_same(whole, cut)


@pytest.mark.faults
@BOTH
def test_with_another_script_in_mid_run(site: Site, case: Case, whole: Asked) -> None:
    cut = ask(site, case, f"updated-{case.recipe}")
    cut.reaches(0.1)
    old = (cut.folder / "train.py").read_text()
    new = site.home / f"{case.recipe}.py"
    new.write_text("print('the second version')\n" + old)
    cut.says(f"update {cut.run} with this script", files=(new,))
    card = site.sees("Change the script", "Approve", thread=cut.thread)
    site.clicks(card, "Approve")
    with site.explained(cut.run):
        eventually(lambda: len(site.attempts(cut.run)) == 2, what="a second attempt", limit_s=LIMIT_S)
    cut.ends_well()
    assert (cut.folder / "train_v1.py").read_text() == old
    assert (cut.folder / "train.py").read_text() == new.read_text()
    assert "the second version" in (cut.folder / "output.log").read_text()
    once_each(cut)
    assert_same(whole, cut)
