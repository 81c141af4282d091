"""Pausing, resuming, stopping and changing runs, with real processes; and who may order it."""

import asyncio
import importlib.util
import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from agent.domain.errors import Unavailable
from agent.domain.events import Logged, Measured, Noted, Saved
from agent.domain.orders import GpuInfo, InspectOrder, LaunchOrder, PredictOrder, StopOrder
from agent.domain.runs import ExitClass, FinishedModel, JobKind, RunState
from tests.worker.conftest import ENDLESS, GOOD, HEAD, LIMIT_S, PREPARE, Yard, eventually, opened
from tests.worker.test_launch import pass_queue, send
from worker.client.keys import load_or_create, sign
from worker.engines.hosts.fleet import CeleryFleet
from worker.host.processes import children_of, descendants_of
from worker.sandbox.tiers import why_not
from worker.supervisor.steps import steps_for

# Counts on from its newest checkpoint, and saves one when it is asked to end, as the runtime does.
SAVING = """
step = max((int(path.name[5:]) for path in pathlib.Path("checkpoints").glob("step_*")), default=0)
def meta(status):
    pathlib.Path("meta.json").write_text(json.dumps({"model": "tiny", "total_steps": 3, "status": status}))
def checkpoint():
    aside = pathlib.Path(f"checkpoints/.step_{step}")
    aside.mkdir(parents=True)
    (aside / "state").write_bytes(bytes(1000))
    aside.rename(f"checkpoints/step_{step}")
def save(*_):
    checkpoint()
    meta("stopped")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
meta("running")
"""
LOOP = """
while not pathlib.Path("go-on").exists():
    step += 1
    metric(step, loss=1.0)
    time.sleep(0.05)
finish()
meta("completed")
"""
COUNTED = b"print('preparing now')\n" + PREPARE


def steps_of(yard: Yard, run: str, *, attempt: int = 1) -> list[int]:
    bodies = [event.body for event in yard.events(run, attempt=attempt)]
    return [row.step for body in bodies if isinstance(body, Measured) for row in body.rows]


def notes_of(yard: Yard, run: str, *, attempt: int = 1) -> list[str]:
    return [event.body.text for event in yard.events(run, attempt=attempt) if isinstance(event.body, Noted)]


async def test_a_paused_run_goes_on_where_it_was(yard: Yard) -> None:
    files = {"worker/recipes/prepare.py": COUNTED}
    await yard.launch(yard.order("r-pause0", SAVING + LOOP, files=files))
    yard.running("r-pause0")
    await yard.stop(StopOrder(run="r-pause0", attempt=1, how="pause"))
    paused = yard.outcome("r-pause0")
    assert (paused.state, paused.exit_code, paused.reason) == (RunState.PAUSED, 0, "Paused on request.")
    assert paused.checkpoint_step in (last := steps_of(yard, "r-pause0")[-1], last + 1)
    saved = [event.body for event in yard.events("r-pause0") if isinstance(event.body, Saved)]
    assert [one.step for one in saved] == [paused.checkpoint_step]
    assert saved[0].size_bytes >= 1000
    yard.gone("r-pause0")

    folder = yard.folder("r-pause0")
    labels, log = (folder.sealed / "labels.csv").stat().st_mtime_ns, folder.log.read_bytes()
    rows = (folder.path / "metrics.jsonl").read_bytes()
    await yard.launch(yard.order("r-pause0", SAVING + LOOP, attempt=2, files=files))
    yard.running("r-pause0", attempt=2)
    (folder.path / "go-on").touch()
    assert yard.outcome("r-pause0", attempt=2).state is RunState.SUCCEEDED
    assert steps_of(yard, "r-pause0", attempt=2)[0] == paused.checkpoint_step + 1
    assert (folder.sealed / "labels.csv").stat().st_mtime_ns == labels
    assert folder.log.read_bytes().startswith(log)
    assert (folder.path / "metrics.jsonl").read_bytes().startswith(rows)
    assert folder.log.read_text().count("preparing now") == 1
    assert not list(folder.path.glob("train_v*.py"))
    assert not (folder.ballast.exists())


async def test_a_host_that_shuts_down_is_no_wish_of_people(yard: Yard) -> None:
    """What ends all processes of a host asks the supervisor too; the run must be able to go on by itself."""
    await yard.launch(yard.order("r-downs0", SAVING + LOOP))
    yard.running("r-downs0")
    os.kill(yard.supervisor_pid("r-downs0"), signal.SIGTERM)
    outcome = yard.outcome("r-downs0")
    assert (outcome.state, outcome.exit_class) == (RunState.FAILED, ExitClass.PREEMPTED)
    assert "SIGTERM" in outcome.reason
    assert outcome.checkpoint_step is not None
    yard.gone("r-downs0")


# As the runtime does: listens once, and saves for longer than a shutdown takes to reach all processes.
LISTENING_ONCE = SAVING.replace("def save(*_):", "def save():").replace(
    "signal.signal(signal.SIGTERM, save)",
    """asked = False
def on_term(number, _):
    global asked
    asked = True
    signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGTERM, on_term)""",
)
SLOWLY = LOOP.replace("    step += 1\n", "    step += 1\n    if asked:\n        time.sleep(1.5)\n        save()\n")


@pytest.mark.parametrize("sandbox", [pytest.param("none", marks=pytest.mark.faults), "bwrap"])
async def test_a_shutdown_that_asks_every_process_lets_the_run_save(tmp_path: Path, sandbox: str) -> None:
    if sandbox == "bwrap" and (why := why_not("bwrap")):
        pytest.skip(f"LOUD: bubblewrap does not work here: {why}")
    with opened(tmp_path / "yard", sandbox=sandbox) as host:
        host.start_worker()
        await host.launch(host.order("r-downs1", LISTENING_ONCE + SLOWLY))
        host.running("r-downs1")
        time.sleep(0.5)  # until its supervisor has seen that it listens
        supervisor = host.supervisor_pid("r-downs1")
        asked = [supervisor, *descendants_of(supervisor)]
        assert len(asked) > (1 if sandbox == "none" else 3)
        for pid in asked:
            os.kill(pid, signal.SIGTERM)
        outcome = host.outcome("r-downs1")
        assert (outcome.exit_class, outcome.exit_code) == (ExitClass.PREEMPTED, 0), outcome
        assert outcome.checkpoint_step is not None
        host.gone("r-downs1")


async def test_a_folder_that_is_removed_ends_its_run_at_once(yard: Yard) -> None:
    """What lies at its path afterwards is somebody else's, and nothing is written there."""
    await yard.launch(yard.order("r-remove", LISTENING_ONCE + LOOP))
    yard.running("r-remove")
    folder = yard.folder("r-remove")
    while folder.path.exists():  # its program still writes there: a file may come between the looks of one removal
        shutil.rmtree(folder.path, ignore_errors=True)
    folder.path.mkdir()
    outcome = yard.outcome("r-remove")
    assert (outcome.state, outcome.exit_class) == (RunState.FAILED, ExitClass.KILLED), outcome
    assert "was removed" in outcome.reason
    numbers = [event.seq for event in yard.events("r-remove")]
    assert numbers == list(range(1, len(numbers) + 1))
    yard.gone("r-remove")
    assert not {"outcome.json", "sent.json", "output.log"} & set(os.listdir(folder.path))  # noqa: PTH208 - names


async def test_a_program_that_only_starts_the_training_lets_it_save(yard: Yard) -> None:
    wrapper = "import subprocess\nsubprocess.run([sys.executable, '-m', 'worker.real'], check=True)\n"
    files = {"worker/real.py": (HEAD + SAVING + LOOP).encode()}
    await yard.launch(yard.order("r-wraps0", wrapper, files=files))
    yard.running("r-wraps0")
    await yard.stop(StopOrder(run="r-wraps0", attempt=1, how="pause"))
    outcome = yard.outcome("r-wraps0")
    assert (outcome.state, outcome.exit_code) == (RunState.PAUSED, 0), outcome
    assert outcome.checkpoint_step is not None
    yard.gone("r-wraps0")


async def test_helpers_that_listen_are_not_asked_in_the_place_of_the_program(yard: Yard) -> None:
    """Workers of a data loader are forked and have a handler; the program has none, and ends at once."""
    loader = """
import multiprocessing
def load():
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    time.sleep(600)
multiprocessing.get_context("fork").Process(target=load, daemon=True).start()
step = 0
"""
    await yard.launch(yard.order("r-loads0", loader + LOOP))
    yard.running("r-loads0")
    await asyncio.sleep(1.0)  # some looks at who listens
    await yard.stop(StopOrder(run="r-loads0", attempt=1, how="stop"))
    outcome = yard.outcome("r-loads0")
    assert (outcome.state, outcome.exit_code) == (RunState.STOPPED, -15), outcome
    yard.gone("r-loads0")


async def test_a_program_that_was_asked_stands_before_those_that_it_forked(yard: Yard) -> None:
    """They have its handler too, and still listen when it does no more; it does not survive the end of one."""
    listening = LISTENING_ONCE.replace("    asked = True\n", "    asked = True\n    os.getpid() == me or os._exit(1)\n")
    script = "me = os.getpid()\nsignal.signal(signal.SIGCHLD, lambda *_: os._exit(9))\n" + listening
    await yard.launch(yard.order("r-forks0", script + "os.fork() or time.sleep(600)\n" + SLOWLY))
    yard.running("r-forks0")
    supervisor = yard.supervisor_pid("r-forks0")
    (program,) = children_of(supervisor)
    assert len(children_of(program)) == 1
    for pid in (program, supervisor):
        os.kill(pid, signal.SIGTERM)
    outcome = yard.outcome("r-forks0")
    assert (outcome.exit_class, outcome.exit_code) == (ExitClass.PREEMPTED, 0), outcome
    assert outcome.checkpoint_step is not None
    yard.gone("r-forks0")


def together_and_one_by_one(*names: str) -> pytest.MarkDecorator:
    """All at once in the quick suite, each by itself in `make test-faults`."""
    one_by_one = [pytest.param((name,), marks=pytest.mark.faults) for name in names]
    return pytest.mark.parametrize("names", [names, *one_by_one], ids=["all", *names])


@together_and_one_by_one("meta.json", "stop.json", "sent.json", "spool-9.jsonl")
async def test_a_pipe_in_the_place_of_a_file_holds_nobody_up(yard: Yard, names: tuple[str, ...]) -> None:
    """Whoever opened it would wait for ever: the supervisor could not be stopped, nor the host take other orders."""
    run = f"r-pipe-{names[-1][:4]}-{len(names)}"
    laid = (
        f"start()\nfor name in {names!r}:\n    if name == 'meta.json':\n        os.unlink(name)\n    os.mkfifo(name)\n"
    )
    await yard.launch(yard.order(run, laid + "metric(1, loss=1.0)\ntime.sleep(600)\n"))
    yard.running(run)
    await yard.stop(StopOrder(run=run, attempt=1, how="kill"))
    assert yard.outcome(run, limit_s=20).state is RunState.STOPPED
    yard.gone(run)


@together_and_one_by_one("stop.json", "outcome.json", "sent.json", ".ballast", "spool-1.jsonl")
async def test_a_folder_in_the_place_of_a_file_holds_nobody_up(yard: Yard, names: tuple[str, ...]) -> None:
    """No file can be renamed to where a folder lies: no order to stop would arrive, and no next attempt begin."""
    run = f"r-dir-{names[-1].strip('.')[:4]}-{len(names)}"
    laid = f"start()\nfor name in {names!r}:\n    if os.path.isfile(name):\n        os.unlink(name)\n"
    laid += "    os.makedirs(name + '/deep')\n"
    await yard.launch(yard.order(run, laid + "metric(1, loss=1.0)\ntime.sleep(600)\n"))
    yard.running(run)
    await yard.stop(StopOrder(run=run, attempt=1, how="kill"))
    assert yard.outcome(run, limit_s=20).state is RunState.STOPPED
    yard.gone(run)
    await yard.launch(yard.order(run, GOOD, attempt=2))
    assert yard.outcome(run, attempt=2, limit_s=20).state is RunState.SUCCEEDED
    assert not any(yard.folder(run).path.joinpath(name, "deep").exists() for name in names)


async def test_a_pause_before_training_loses_nothing(yard: Yard) -> None:
    slow = b"import os, time\nmark = os.environ['TRAINYARD_RUN_DIR'] + '/go-on'\n"
    slow += b"while not os.path.exists(mark):\n    time.sleep(0.05)\n" + PREPARE
    files = {"worker/recipes/prepare.py": b"print('begun', flush=True)\n" + slow}
    await yard.launch(yard.order("r-pause1", GOOD, files=files))
    log = yard.folder("r-pause1").log
    eventually(lambda: log.exists() and "begun" in log.read_text(), what="the first step")
    await yard.stop(StopOrder(run="r-pause1", attempt=1, how="pause"))
    outcome = yard.outcome("r-pause1")
    assert (outcome.state, outcome.checkpoint_step) == (RunState.PAUSED, None)
    (yard.folder("r-pause1").path / "go-on").touch()
    await yard.launch(yard.order("r-pause1", GOOD, attempt=2, files=files))
    assert yard.outcome("r-pause1", attempt=2).state is RunState.SUCCEEDED
    assert yard.folder("r-pause1").log.read_text().count("begun") == 2


async def test_a_pause_that_comes_too_late_lets_the_run_succeed(yard: Yard) -> None:
    late = "signal.signal(signal.SIGTERM, lambda *_: pathlib.Path('go-on').touch())\n" + ENDLESS
    await yard.launch(yard.order("r-pause2", late))
    yard.running("r-pause2")
    await yard.stop(StopOrder(run="r-pause2", attempt=1, how="pause"))
    outcome = yard.outcome("r-pause2")
    assert outcome.state is RunState.SUCCEEDED
    assert outcome.scorecard is not None


async def test_a_pause_that_cannot_save_says_so(yard: Yard) -> None:
    broken = "def save(*_):\n    raise RuntimeError('no room for it')\nsignal.signal(signal.SIGTERM, save)\n"
    await yard.launch(yard.order("r-pause3", broken + ENDLESS))
    yard.running("r-pause3")
    await yard.stop(StopOrder(run="r-pause3", attempt=1, how="pause"))
    outcome = yard.outcome("r-pause3")
    assert (outcome.state, outcome.checkpoint_step) == (RunState.PAUSED, None)
    assert "instead of saving" in outcome.reason
    assert outcome.traceback[-1] == "RuntimeError: no room for it"


def test_a_kill_after_a_stop_does_not_wait_and_each_rung_is_told(host: Yard) -> None:
    host.extra = {"TRAINYARD_CHECKPOINT_GRACE_S": "600"}
    host.launch_here(host.order("r-ladder", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + ENDLESS))
    host.running("r-ladder")
    host.stop_here(StopOrder(run="r-ladder", attempt=1))
    eventually(lambda: notes_of(host, "r-ladder"), what="the first phase")
    host.stop_here(StopOrder(run="r-ladder", attempt=1, how="kill"))
    host.stop_here(StopOrder(run="r-ladder", attempt=1, how="pause"))  # weaker: changes nothing
    outcome = host.outcome("r-ladder")
    assert (outcome.state, outcome.exit_code) == (RunState.STOPPED, -signal.SIGKILL)
    first, last = notes_of(host, "r-ladder")
    assert "SIGTERM" in first
    assert "600 s" in first
    assert "SIGKILL" in last
    assert "[trainyard] It was killed (SIGKILL)" in host.folder("r-ladder").log.read_text()


async def test_a_new_script_keeps_the_old_one(yard: Yard) -> None:
    for attempt in (1, 2, 3):
        script = f"print('script {attempt}')\n" + GOOD
        await yard.launch(yard.order("r-script", script, attempt=attempt))
        assert yard.outcome("r-script", attempt=attempt).state is RunState.SUCCEEDED
    folder = yard.folder("r-script").path
    for number, name in enumerate(("train_v1.py", "train_v2.py", "train.py"), start=1):
        assert f"script {number}" in (folder / name).read_text()


async def test_another_split_is_prepared_anew(yard: Yard) -> None:
    files = {"worker/recipes/prepare.py": COUNTED}
    await yard.launch(yard.order("r-split0", GOOD, files=files))
    assert yard.outcome("r-split0").state is RunState.SUCCEEDED
    await yard.launch(yard.order("r-split0", GOOD, attempt=2, files=files, seed=8))
    assert yard.outcome("r-split0", attempt=2).state is RunState.SUCCEEDED
    folder = yard.folder("r-split0")
    assert folder.log.read_text().count("preparing now") == 2
    for attempt, split, prepared in (
        (3, {}, 2),
        (4, {"boot_id": "before"}, 3),
    ):  # the split of a machine that restarted
        known = json.loads((folder.sealed / "split.json").read_bytes())
        (folder.sealed / "split.json").write_text(json.dumps(known | split))
        await yard.launch(yard.order("r-split0", GOOD, attempt=attempt, files=files, seed=8))
        assert yard.outcome("r-split0", attempt=attempt).state is RunState.SUCCEEDED
        assert folder.log.read_text().count("preparing now") == prepared


async def test_only_the_bots_stop_orders_count(yard: Yard) -> None:
    await yard.launch(yard.order("r-sign00", ENDLESS))
    yard.running("r-sign00")
    order = StopOrder(run="r-sign00", attempt=1)
    signed = sign(order, load_or_create(yard.keys))
    for forged in (
        order,
        signed.model_copy(update={"how": "kill"}),
        sign(order, load_or_create(yard.home / "keys-of-another-bot")),
    ):
        send(yard, forged, task="trainyard.stop")  # type: ignore[arg-type]
    pass_queue(yard)
    assert not yard.folder("r-sign00").stop.exists()
    before = len(steps_of(yard, "r-sign00"))
    eventually(lambda: len(steps_of(yard, "r-sign00")) > before + 3, what="a run that goes on")
    send(yard, signed, task="trainyard.stop")  # type: ignore[arg-type]
    assert yard.outcome("r-sign00").state is RunState.STOPPED
    assert "signature does not fit" in (yard.home / "worker.log").read_text()


async def test_questions_of_strangers_are_not_answered(yard: Yard) -> None:
    stranger = CeleryFleet(yard.server.url, yard.home / "keys-of-another-bot", yard.blobs)
    data = yard.blobs.put_bytes(b"x,y\n1,a\n", name="data.csv")
    with pytest.raises(Unavailable, match=r"refused to look at this file: the order's signature does not fit .*Copy"):
        await stranger.inspect(InspectOrder(dataset=data))
    with pytest.raises(Unavailable, match="refused to predict"):
        await stranger.predict(PredictOrder(artifact_sha256="0" * 64, rows=({"x": "1"},)))
    await stranger.close()


def launched_here(yard: Yard, order: LaunchOrder, *gpus: GpuInfo) -> str:
    launcher = yard.launcher(ask_gpus=lambda: gpus)
    return launcher.launch(sign(order, load_or_create(yard.keys)))


def gpu(uuid: str, **more: object) -> GpuInfo:
    return GpuInfo.model_validate({"uuid": uuid, "index": 0, "name": "test", "memory_bytes": 1, **more})


def test_an_attempt_sees_the_gpus_of_its_order(yard: Yard) -> None:
    script = "print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['CUDA_DEVICE_ORDER'])\n" + GOOD
    order = yard.order("r-gpu000", script, gpus=1).model_copy(update={"gpu_uuids": ("GPU-b",)})
    assert launched_here(yard, order, gpu("GPU-a"), gpu("GPU-b", foreign_bytes=400 * 1024**2)) == "ready"
    assert yard.outcome("r-gpu000").state is RunState.SUCCEEDED
    assert "GPU-b PCI_BUS_ID" in yard.folder("r-gpu000").log.read_text()


@pytest.mark.parametrize(
    ("run", "here", "why"),
    [
        ("r-gpu-a", gpu("GPU-b", foreign_bytes=600 * 1024**2), "others hold 600 MiB"),
        ("r-gpu-b", gpu("GPU-b", sick="its driver reported Xid 79"), "Xid 79"),
        ("r-gpu-c", gpu("GPU-a"), "not there"),
    ],
)
def test_a_gpu_that_cannot_be_used_is_refused_to_try_elsewhere(yard: Yard, run: str, here: GpuInfo, why: str) -> None:
    order = yard.order(run, GOOD, gpus=1).model_copy(update={"gpu_uuids": ("GPU-b",)})
    assert launched_here(yard, order, here) == "refused"
    outcome = yard.outcome(run)
    assert (outcome.state, outcome.exit_class) == (RunState.FAILED, ExitClass.PREEMPTED)
    assert why in outcome.reason
    assert launched_here(yard, order, gpu("GPU-b")) == "repeated"


def needs_torch() -> None:
    """Without loading it here: the ranks do."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("there is no torch")


RANKS = """
rank = int(os.environ["RANK"])
sys.stdout.write(f"rank {rank} of {os.environ['WORLD_SIZE']}\\n")
if rank == 0:
    start()
    metric(1, loss=1.0)
    finish()
"""


TWO: dict[str, Any] = {"gpus": 2, "task": "text_classification"}


@pytest.mark.faults  # the quick tier has two ranks that are asked to save
def test_two_gpus_are_two_ranks(yard: Yard) -> None:
    needs_torch()
    order = yard.order("r-ranks0", RANKS, **TWO).model_copy(update={"gpu_uuids": ("GPU-a", "GPU-b")})
    assert launched_here(yard, order, gpu("GPU-a"), gpu("GPU-b")) == "ready"
    assert yard.outcome("r-ranks0").state is RunState.SUCCEEDED
    log = yard.folder("r-ranks0").log.read_text()
    assert "rank 0 of 2" in log
    assert "rank 1 of 2" in log


def test_what_trains_no_network_or_trains_nothing_is_one_process(yard: Yard) -> None:
    for more in (
        {"gpus": 2},
        {**TWO, "job": JobKind.EVALUATION, "model": FinishedModel(run="r-made00", sha256="0" * 64, size_bytes=1)},
    ):
        step = steps_for(yard.folder("r-one000"), yard.order("r-one000", "", **more)).train
        assert (step.ranks, step.argv[1:]) == (0, ("train.py",))


def test_of_a_failed_rank_its_own_traceback_is_told(yard: Yard) -> None:
    needs_torch()
    script = "if os.environ['RANK'] == '1':\n    {}['no such key']\ntime.sleep(60)\n"
    order = yard.order("r-ranks1", script, **TWO).model_copy(update={"gpu_uuids": ("GPU-a", "GPU-b")})
    launched_here(yard, order, gpu("GPU-a"), gpu("GPU-b"))
    outcome = yard.outcome("r-ranks1")
    assert (outcome.exit_class, outcome.exit_code) == (ExitClass.USER_ERROR, 1), outcome
    assert outcome.traceback[-1] == "KeyError: 'no such key'"
    assert "KeyError" in outcome.reason


def test_ranks_are_asked_to_save_themselves(yard: Yard) -> None:
    needs_torch()
    first = "sys.stdout.write(f\"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}\\n\")\nsys.stdout.flush()\n"
    saving = SAVING.replace("checkpoint()\n    meta", "os.environ['RANK'] == '0' and checkpoint()\n    meta")
    script = first + saving + LOOP
    order = yard.order("r-ranks2", script, **TWO).model_copy(update={"gpu_uuids": ("GPU-a", "GPU-b")})
    yard.launch_here(order, ask_gpus=lambda: (gpu("GPU-a"), gpu("GPU-b")))
    yard.running("r-ranks2")
    yard.stop_here(StopOrder(run="r-ranks2", attempt=1, how="pause"))
    outcome = yard.outcome("r-ranks2")
    assert (outcome.state, outcome.exit_code) == (RunState.PAUSED, 0), outcome
    assert outcome.checkpoint_step is not None
    log = yard.folder("r-ranks2").log.read_text()
    assert "rank 0 of 2" in log
    assert "rank 1 of 2" in log
    yard.gone("r-ranks2")


async def test_an_end_that_nobody_asked_for_is_a_preemption(yard: Yard) -> None:
    asked = "step = 4\n" + SAVING.replace("step = max", "_ = max") + "os.kill(os.getpid(), signal.SIGTERM)\n"
    await yard.launch(
        yard.order("r-pre000", asked),
        yard.order("r-pre001", "sys.exit(75)\n"),
        yard.order("r-pre002", "sys.exit(143)\n"),
    )
    for run, step in (("r-pre000", 4), ("r-pre001", None), ("r-pre002", None)):
        outcome = yard.outcome(run)
        assert (outcome.state, outcome.exit_class) == (RunState.FAILED, ExitClass.PREEMPTED), outcome
        assert outcome.checkpoint_step == step


async def test_a_loss_that_is_no_number_may_be_allowed(yard: Yard) -> None:
    script = "start()\nfor step in range(9):\n    metric(step, loss=float('nan'))\n    time.sleep(0.1)\nfinish()\n"
    await yard.launch(yard.order("r-nan-on", script, on_nan="go_on"))
    assert yard.outcome("r-nan-on").state is RunState.SUCCEEDED
    (note,) = notes_of(yard, "r-nan-on")
    assert "no number 3 times running" in note


async def test_the_budget_of_the_order_limits_the_time(yard: Yard) -> None:
    order = yard.order("r-budget", SAVING + LOOP, max_hours=5.0).model_copy(update={"budget_s": 2.0})
    await yard.launch(order)
    outcome = yard.outcome("r-budget")
    assert outcome.exit_class is ExitClass.KILLED
    assert outcome.checkpoint_step is not None
    assert "0.000556 hours" in outcome.reason


async def test_secrets_reach_the_training_only_and_no_log(yard: Yard) -> None:
    place = yard.home / "secrets"
    place.mkdir(exist_ok=True)
    value = "s3cret-value-of-the-test"
    (place / "MY_TOKEN").touch(mode=0o600)
    (place / "MY_TOKEN").write_text(value + "\n")
    script = f"assert os.environ['MY_TOKEN'] == {value!r}\nprint('token', os.environ['MY_TOKEN'])\n"
    script += "raise ValueError('bad token ' + os.environ['MY_TOKEN'])\n"
    prepare = b"import os\nassert 'MY_TOKEN' not in os.environ\n" + PREPARE
    files = {"worker/recipes/prepare.py": prepare}
    await yard.launch(yard.order("r-secret", script, files=files, secrets=("MY_TOKEN",)))
    outcome = yard.outcome("r-secret")
    assert outcome.exit_class is ExitClass.USER_ERROR
    assert "bad token [secret: granted]" in outcome.reason
    folder = yard.folder("r-secret")
    for path in (folder.log, folder.spool, folder.outcome, folder.path / "supervisor.log"):
        assert value not in path.read_text(), path
    await yard.launch(yard.order("r-secre2", GOOD, secrets=("NOT_HERE",)))
    assert "keeps no secret NOT_HERE" in yard.outcome("r-secre2").reason


async def test_a_beat_tells_what_the_step_uses(yard: Yard) -> None:
    await yard.launch(yard.order("r-usage0", "x = b'x' * 80_000_000\n" + ENDLESS))

    def used() -> int:
        beats = [event.body for event in yard.events("r-usage0") if event.body.kind == "beat"]
        return max((beat.usage.memory_bytes for beat in beats if beat.usage), default=0)

    eventually(lambda: used() > 80_000_000, limit_s=LIMIT_S, what="a beat with memory")
    (yard.folder("r-usage0").path / "go-on").touch()
    assert yard.outcome("r-usage0").state is RunState.SUCCEEDED


async def test_a_supervisor_says_who_it_is(yard: Yard) -> None:
    await yard.launch(yard.order("r-who000", ENDLESS))
    yard.running("r-who000")
    who = json.loads(yard.folder("r-who000").supervisor.read_bytes())
    assert who["pid"] == yard.supervisor_pid("r-who000")
    assert os.path.exists(f"/proc/{who['pid']}")  # noqa: PTH110 - a path of the kernel
    (yard.folder("r-who000").path / "go-on").touch()
    assert yard.outcome("r-who000").state is RunState.SUCCEEDED
    logged = [event.body for event in yard.events("r-who000") if isinstance(event.body, Logged)]
    assert not any("ending" in line for body in logged for line in body.lines)


HUB = """
import socket
assert os.environ["HTTPS_PROXY"] == os.environ["https_proxy"]
host, port = os.environ["HTTPS_PROXY"].removeprefix("http://").split(":")
with socket.create_connection((host, int(port)), timeout=10) as way:
    way.sendall(b"CONNECT example.com:443 HTTP/1.1\\r\\nHost: example.com\\r\\n\\r\\n")
    print("answer", way.recv(64).split(b"\\r\\n")[0].decode(), flush=True)
"""


async def test_behind_walls_with_a_way_to_the_hubs_a_run_saves_when_paused(tmp_path: Path) -> None:
    if why := why_not("bwrap"):
        pytest.skip(f"LOUD: bubblewrap does not work here: {why}")
    with opened(tmp_path / "yard", sandbox="bwrap") as walled:
        walled.start_worker()
        await walled.launch(walled.order("r-hub000", HUB + SAVING + LOOP, network="hub", sandbox="bwrap"))
        walled.running("r-hub000")
        await walled.stop(StopOrder(run="r-hub000", attempt=1, how="pause"))
        outcome = walled.outcome("r-hub000")
        assert (outcome.state, outcome.exit_code) == (RunState.PAUSED, 0), outcome
        assert outcome.checkpoint_step is not None
        assert "answer HTTP/1.1 403" in walled.folder("r-hub000").log.read_text()
        walled.gone("r-hub000")


async def test_a_network_policy_that_a_host_cannot_keep_is_refused(yard: Yard) -> None:
    await yard.launch(yard.order("r-hub001", GOOD, network="hub"))
    outcome = yard.outcome("r-hub001")
    assert outcome.state is RunState.FAILED
    assert "cannot keep the network policy hub" in outcome.reason
