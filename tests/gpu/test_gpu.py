"""What only a GPU shows: what a host tells of it, who may use it, what a run on it says, and how it fails there.

`make test-gpu` runs these, and the task types that use a GPU, on a host with one.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.domain.orders import GpuInfo
from agent.domain.runs import ENDED, ExitClass, Run, RunState
from agent.domain.tasks import TASKS
from examples.task_data import EXAMPLES
from tests.builds.test_builds import built
from tests.person import Person
from tests.recipes.folders import make_run, texts_csv
from worker.host import gpus as discovery
from worker.host.nvml import NO_NVML
from worker.recipes.language.network import build as build_language
from worker.sandbox import Walls, handed_over, wrap
from worker.sandbox.tiers import why_not
from worker.supervisor.steps import basic_environment

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]
MIB = 2**20
LOOK = """
import os, torch
if torch.cuda.is_available():
    a = torch.ones(64, 64, device="cuda")
    print(torch.cuda.device_count(), float((a @ a).sum()))
else:
    print(0)
"""
TRAINS = """
import time, torch
from trainyard import TrainingRuntime
rt = TrainingRuntime()
model = torch.nn.Linear(4096, 4096).cuda()
print("on", torch.cuda.get_device_name())
until, step = time.monotonic() + {seconds}, 0
while time.monotonic() < until and not rt.should_stop:
    step += 1
    loss = model(torch.randn(4096, 4096, device="cuda")).square().mean()
    loss.backward()
    rt.log_metrics(step=step, loss=loss)
"""
FOUR_BITS = """
import importlib.util, torch
from trainyard import TrainingRuntime
rt = TrainingRuntime()
layer = torch.nn.Linear(256, 256).cuda()
for step in range(1, 4):
    rt.log_metrics(step=step, loss=layer(torch.ones(8, 256, device="cuda")).square().mean())
if importlib.util.find_spec("bitsandbytes"):
    import bitsandbytes
    small = bitsandbytes.nn.Linear4bit(256, 256, compute_dtype=torch.bfloat16, quant_type="nf4").cuda()
    assert torch.isfinite(small(torch.ones(8, 256, device="cuda", dtype=torch.bfloat16))).all()
"""
TOO_LARGE = """
import torch
held = [torch.empty(8 * 2**30, dtype=torch.uint8, device="cuda") for _ in range(64)]
"""
OUT_OF_RANGE = """
import torch
table = torch.nn.Embedding(10, 4).cuda()
table(torch.tensor([11], device="cuda"))
torch.cuda.synchronize()
"""
RESUMES = """
import os, sys
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import torch
from trainyard import TrainingRuntime
from trainyard.adapters import TorchState
torch.use_deterministic_algorithms(True)
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Dropout(0.3), torch.nn.Linear(256, 1)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
rt = TrainingRuntime("r", sys.argv[1])
state = TorchState(model=model, optimizer=optimizer, key="k")
state.resume(rt)
while state.step < 60:
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(torch.randn(32, 64, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    state.step += 1
    if state.step == int(sys.argv[2]):
        rt.save_checkpoint(state.save, step=state.step)
        sys.exit()
torch.save({name: tensor.cpu() for name, tensor in model.state_dict().items()}, sys.argv[3])
"""
LITTLE_MEMORY = """
import torch
torch.cuda.set_per_process_memory_fraction({part})
from worker.recipes.entry import main
main()
"""
HOLDS = "import torch, time; held = torch.ones({bytes} // 4, device='cuda'); print('held', flush=True); time.sleep(300)"


@pytest.fixture(scope="module")
def gpu() -> GpuInfo:
    """The first one of this host."""
    found = discovery.gpus()
    assert found, "this host has no GPU that NVML tells of"
    return found[0]


def test_the_host_tells_of_its_gpus(gpu: GpuInfo) -> None:
    """NVML, and `nvidia-smi` where there is no NVML, say the same."""
    assert gpu.uuid.startswith("GPU-")
    assert gpu.memory_bytes > 1024 * MIB
    assert Path(f"/dev/nvidia{gpu.minor}").exists()
    assert (gpu.sick, gpu.foreign_bytes) == ("", 0)
    by_smi = discovery.look([sys.executable, "-c", f"raise SystemExit({NO_NVML})"]).gpus[0]
    assert (by_smi.uuid, by_smi.name, by_smi.index, by_smi.sick) == (gpu.uuid, gpu.name, gpu.index, "")
    assert abs(by_smi.memory_bytes - gpu.memory_bytes) < 1024 * MIB


@pytest.mark.parametrize("tier", ["bwrap", "landlock", "none"])
def test_a_step_has_the_gpus_that_it_was_given_and_no_others(tier: str, gpu: GpuInfo, tmp_path: Path) -> None:
    if why := why_not(tier) if tier != "none" else "":
        pytest.skip(why)
    (tmp_path / "train.py").write_text(LOOK)

    def printed(minors: tuple[int, ...], visible: str) -> str:
        env = {**basic_environment(tmp_path), "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": visible}
        command = wrap(tier, [sys.executable, "train.py"], Walls(tmp_path, env=env, gpus=minors))
        with handed_over(command) as (full, files):
            done = subprocess.run(
                full, env=dict(command.env or {}), cwd=tmp_path, pass_fds=files, capture_output=True, text=True,
                timeout=120, check=False,
            )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert printed((gpu.minor,), gpu.uuid) == "1 262144.0"
    assert printed((), "") == "0"
    if tier != "none":
        assert printed((), gpu.uuid) == "0", "a script that names a GPU by itself must not get it"


async def test_a_program_runs_on_the_gpu_and_its_use_is_shown(person: Person, tmp_path: Path) -> None:
    await _starts(person, tmp_path, TRAINS.format(seconds=25), "gpus=1")
    run = await person.until(lambda run: run.state in ENDED or (run.usage is not None and _busy(run) > 0.2))
    assert run.usage is not None, run.outcome
    assert run.usage.gpus[0].memory_bytes > 100 * MIB
    run = await person.until(lambda run: run.state in ENDED)
    assert run.state is RunState.SUCCEEDED, run.outcome
    await person.says(f"gpu use of {run.id}")
    shown = await person.sees(
        lambda content: bool(content.card and content.card.picture and "GPU busy" in content.card.picture.alt),
        "chart of its use",
    )
    assert shown.card is not None
    assert shown.card.picture is not None
    if kept := os.environ.get("KEPT"):
        shutil.copy(shown.card.picture.path, kept)


async def test_a_program_that_needs_too_much_memory_is_told_so(person: Person, tmp_path: Path) -> None:
    await _starts(person, tmp_path, TOO_LARGE, "gpus=1")
    run = await person.until(lambda run: run.state in ENDED)
    assert run.outcome is not None
    assert (run.state, run.outcome.exit_class) == (RunState.FAILED, ExitClass.CUDA_OOM)
    assert "The GPU ran out of memory" in run.outcome.reason


async def test_a_fault_of_the_gpu_is_tried_again(person: Person, tmp_path: Path) -> None:
    await _starts(person, tmp_path, OUT_OF_RANGE, "gpus=1")
    run = await person.until(lambda run: run.state in ENDED or bool(run.attempt and run.state is RunState.QUEUED))
    assert run.state is RunState.QUEUED, run.outcome
    assert "The GPU stopped with a fault (device-side assert)" in run.note
    await person.says(f"stop {run.id}")
    await person.until(lambda run: run.state in ENDED)


async def test_a_program_begins_warm_there(person: Person, tmp_path: Path) -> None:
    """Libraries that were loaded ahead have not touched CUDA, so that a fork of them can."""
    if why := why_not("bwrap"):
        pytest.skip(f"nothing begins warm without bubblewrap: {why}")
    seconds: list[float] = []
    for warm in (False, True):
        async with asyncio.timeout(120):
            while warm and "transformers" not in (await person.app.engines.hosts())[0].warm:
                await asyncio.sleep(0.2)
        await _starts(person, tmp_path, FOUR_BITS, "gpus=1")
        begun = time.monotonic()
        before = await person.until(lambda run: run.state not in ENDED)
        run = await person.until(lambda run, one=before.id: run.id == one and (run.step > 0 or run.state in ENDED))
        seconds.append(time.monotonic() - begun)
        run = await person.until(lambda run: run.state in ENDED)
        assert run.state is RunState.SUCCEEDED, run.outcome
        (log,) = (tmp_path / "home").glob(f"hosts/*/runs/{run.id}/supervisor.log")
        assert ("cold_start" in log.read_text()) is not warm, log.read_text()
    print(f"\nclick to first step on a GPU: cold {seconds[0]:.2f} s, warm {seconds[1]:.2f} s")


async def test_a_run_waits_until_others_leave_the_gpu(person: Person, tmp_path: Path) -> None:
    with _held(2048 * MIB):
        async with asyncio.timeout(60):
            while not (await person.app.engines.hosts())[0].gpus[0].foreign_bytes > 1024 * MIB:
                await asyncio.sleep(0.2)
        await _starts(person, tmp_path, TRAINS.format(seconds=3), "gpus=1")
        waiting = await person.until(lambda run: run.state is RunState.QUEUED and bool(run.note))
        assert "GPU" in waiting.note
    run = await person.until(lambda run: run.state in ENDED)
    assert run.state is RunState.SUCCEEDED, run.outcome


def test_a_run_is_not_given_what_a_run_of_ours_holds_as_foreign(gpu: GpuInfo) -> None:
    """What a run of ours holds does not count as somebody else's."""
    with _held(1024 * MIB, TRAINYARD_RUN_DIR="/somewhere"):
        (seen,) = [one for one in discovery.gpus() if one.uuid == gpu.uuid]
    assert seen.used_bytes > 1024 * MIB
    assert seen.foreign_bytes == 0


def test_resumed_is_as_never_interrupted(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(RESUMES)

    def trained(folder: str, stop_at: int) -> Path:
        path = tmp_path / f"{folder}.pt"
        (tmp_path / folder).mkdir(exist_ok=True)
        subprocess.run([sys.executable, "train.py", folder, str(stop_at), str(path)], cwd=tmp_path, check=True,
                       env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])})  # fmt: skip
        return path

    import torch

    whole = torch.load(trained("whole", 0))
    trained("parts", 23)
    resumed = torch.load(trained("parts", 0))
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


@pytest.mark.parametrize("method", ["sft", "dpo", "grpo"])
def test_qlora_on_a_base_of_four_bits(method: str, tmp_path: Path) -> None:
    """A small Llama of this test's own as base: loaded in four bits, tuned, and measured with the adapter on it."""
    pytest.importorskip("bitsandbytes")
    rows = [{"prompt": f"Say {n}", "chosen": f"it is {n}", "rejected": "no"} for n in range(60)]
    shape = {"model": "", "vocabulary": 300, "hidden_size": 128, "layers": 2, "heads": 4}
    language = build_language([row["prompt"] + row["chosen"] for row in rows], shape, longest=96, seed=1)
    language.save(tmp_path / "base")
    settings = {
        "model": str(tmp_path / "base"), "quantization": "4bit", "method": method, "max_steps": 12, "max_length": 96,
        "batch_size": 8, "max_new_tokens": 6, "lora_r": 8, "num_generations": 4, "learning_rate": 1e-3,
    }  # fmt: skip
    names = ("prompt", "chosen", "rejected") if method == "dpo" else ("prompt", "chosen")
    text = "".join(json.dumps({name: row[name] for name in names}) + "\n" for row in rows)
    run = make_run(tmp_path, text, "chosen", recipe="llm_finetuning", text_column="prompt", settings=settings)
    run.prepare()
    run.train()
    run.evaluate()
    card = run.json("scorecard.json")
    assert {"model", "baselines"} <= card.keys()
    assert [row["values"]["loss"] for row in run.metrics() if "loss" in row["values"]]
    assert (run.dir / "artifacts/adapter/adapter_model.safetensors").exists()


@pytest.mark.parametrize("task", [task for task in EXAMPLES if TASKS[task].uses_gpu])
async def test_a_task_type_trains_there(task: str, person: Person, tmp_path: Path) -> None:
    await built(task, person, tmp_path, pause=False)  # most are over too soon for it


def test_a_batch_that_does_not_fit_is_added_up_from_parts(gpu: GpuInfo, tmp_path: Path) -> None:
    """The program may use three GiB, which is too little for 512 texts at once."""
    settings = {"epochs": 1, "batch_size": 512, "max_tokens": 512, "hidden_size": 512, "layers": 8, "heads": 8}
    run = make_run(tmp_path, texts_csv(1200), "library", recipe="text_classification", settings=settings)
    (run.dir / "train.py").write_text(LITTLE_MEMORY.format(part=3 * 1024 * MIB / gpu.memory_bytes))
    run.prepare()
    assert "did not fit into memory" in run.train()
    assert run.metrics()


def _busy(run: Run) -> float:
    return max((gpu.busy for gpu in run.usage.gpus), default=0.0) if run.usage else 0.0


async def _starts(person: Person, folder: Path, program: str, words: str) -> None:
    (folder / "train.py").write_text(program)
    await person.says(f"run train.py {words} @{folder / 'train.py'}")
    await person.card("approval")
    await person.says("approve")


@contextmanager
def _held(size: int, **environment: str) -> Iterator[None]:
    """Another process has that much of the GPU."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS.format(bytes=size)], stdout=subprocess.PIPE, text=True,
        env={**os.environ, **environment},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield
    finally:
        process.kill()
        process.wait()
