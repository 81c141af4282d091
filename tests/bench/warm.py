"""`python -m tests.bench.warm`: from starting the training step to its first step, warm against a fresh interpreter.

Both behind the same bubblewrap walls, in turn, medians of `ROUNDS` after one that does not count. The supervisor runs
already in both, the data is split, the files are in the page cache. Two scripts as people write them (plain torch, the
Trainer of transformers) and our two recipes as a bundle holds them. Prints one JSON line.
"""

import contextlib
import io
import json
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.bench.processes import REPO
from tests.bench.progress import say
from tests.bench.rows import Row, compared, median
from tests.worker.warm_host import Host, host
from worker.client.bundle import pack
from worker.recipes.prepare import main as prepare

ROUNDS = 5
TIMES = 10
PEER = "fresh interpreter"

TORCH = """
import torch
torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
inputs, wanted = torch.randn(64, 32), torch.randint(0, 2, (64,))
for step in range(1, 4):
    loss = torch.nn.functional.cross_entropy(network(inputs), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, loss.item(), flush=True)
"""
TRAINER = """
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments
class Say(TrainerCallback):
    def on_step_end(self, args, state, control, **more):
        print("step", state.global_step, flush=True)
rows = [{"input_ids": torch.arange(16), "attention_mask": torch.ones(16, dtype=torch.long), "labels": row % 2}
        for row in range(64)]
network = BertForSequenceClassification(BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2,
    num_attention_heads=2, intermediate_size=64, max_position_embeddings=32))
arguments = TrainingArguments("out", max_steps=3, per_device_train_batch_size=8, report_to=[], save_strategy="no",
    disable_tqdm=True)
Trainer(model=network, args=arguments, train_dataset=rows, callbacks=[Say()]).train()
"""
RECIPES = {
    "text_classification": ("docstrings.csv", "library", "transformers"),
    "tabular_classification": ("doctor_visits.csv", "visited_doctor", "tabular"),
}


def measure() -> Sequence[Row]:
    """Four comparisons. Goals stand for the two scripts; the recipes also read and prepare their data in that time."""
    with tempfile.TemporaryDirectory() as folder, host(Path(folder), "torch", "transformers", "tabular") as place:
        rows = []
        for name, script in {"torch": TORCH, "transformers": TRAINER}.items():
            warm, cold = _in_turn(place, {"train": script}, f"{name} script", sets=[name], mark="step 1")
            rows.append(_row(f"start to first step, {name} script", warm, cold, TIMES))
        for recipe, (file, target, name) in RECIPES.items():
            data = (REPO / "examples" / file).read_bytes()
            files = {"recipe": recipe, "target": target, "name": file}
            warm, cold = _in_turn(place, files, recipe, data=data, sets=[name], until_first_row=True)
            rows.append(_row(f"start to first step, recipe {recipe}", warm, cold, 1))
    return rows


def _row(name: str, warm: Sequence[float], cold: Sequence[float], times: float) -> Row:
    return compared(name, ours=median(warm), peer=median(cold), peer_name=PEER, unit="s", at_least=times)


def _in_turn(
    place: Host, what: Mapping[str, str], name: str, *, data: bytes = b"", **asked: object
) -> tuple[list[float], list[float]]:
    warm: list[float] = []
    cold: list[float] = []
    for number in range(1 + ROUNDS):
        for is_warm, times in ((True, warm), (False, cold)):
            run = place.run_folder() if data else place.run_folder(**what)
            if data:
                _lay_out(run, what, data)
            own = {"TRAINYARD_RUN_DIR": str(run), "TRAINYARD_RUN_ID": run.name, "TRAINYARD_ATTEMPT": "1"}
            done = place.step(run, warm=is_warm, env=own | {"TRAINYARD_SUPERVISED": "2"}, **asked)
            if done["warm"] is not is_warm or done["first_s"] < 0:
                raise RuntimeError(f"{name}: {done}")
            times.append(done["first_s"])
        say(f"warm start: {name}, round {number} of {ROUNDS}: warm {warm[-1]:.3f} s, cold {cold[-1]:.2f} s")
    return warm[1:], cold[1:]


def _lay_out(run: Path, what: Mapping[str, str], data: bytes) -> None:
    """The bundle as a supervisor unpacks it, with the data split."""
    with tarfile.open(fileobj=io.BytesIO(pack(what["recipe"])[1])) as tar:
        tar.extractall(run, filter="data")
    (run / "data").mkdir()
    (run / "data/source.csv").write_bytes(data)
    dataset = {"sha256": "0" * 64, "name": what["name"], "size_bytes": len(data)}
    spec = {
        "task": what["recipe"],
        "recipe": what["recipe"],
        "dataset": dataset,
        "target": what["target"],
        "host": "here",
    }
    config = {"run": run.name, "spec": spec | {"bundle_sha256": "0" * 64}, "data": "data/source.csv"}
    (run / "config.json").write_text(json.dumps(config))
    with contextlib.redirect_stdout(sys.stderr), tempfile.TemporaryDirectory() as sealed:
        code = prepare(["--run-dir", str(run), "--sealed-dir", sealed])
    if code != 0:
        raise RuntimeError((run / "error.json").read_text())


if __name__ == "__main__":
    print(json.dumps([asdict(row) for row in measure()]))
