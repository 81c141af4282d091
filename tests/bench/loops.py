"""Training loops with and without logging, in alternating blocks of one process: `python -m tests.bench.loops KIND`.

Kinds: `torch` (a step of about 3 ms on one CPU thread, each logged by a call) and `trainer` (transformers' Trainer,
with our callback and without). Prints one JSON line: for each round the mean milliseconds of a step under `ours`, under
the control (`control`), and under the same control once more (`again`), in an order drawn anew for each round. Called
by `tests.bench.logging_overhead`.
"""

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from trainyard import TrainingRuntime
from trainyard.adapters import trainer_callback

ROUNDS = {"torch": 120, "trainer": 24}
STEPS = {"torch": 40, "trainer": 60}
LEFT_OUT = 10  # steps at the beginning of a Trainer: its caches
Block = Callable[[str], float]


class Nothing:
    """The control: a log call that does nothing."""

    def log_metrics(self, step: int, **values: object) -> None:
        """Nothing."""


def torch_blocks(folder: Path) -> Block:
    """One network and one optimizer for all blocks; the loss is logged as the tensor's number, which a script needs."""
    network = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256))
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
    inputs, wanted = torch.randn(176, 256), torch.randn(176, 256)
    runtime = TrainingRuntime("bench", folder)
    runtime.start("small network")
    loggers: dict[str, Any] = {"ours": runtime, "control": Nothing(), "again": Nothing()}

    def block(kind: str) -> float:
        logger = loggers[kind]
        began = time.perf_counter()
        for step in range(STEPS["torch"]):
            loss = torch.nn.functional.mse_loss(network(inputs), wanted)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            value = loss.item()
            logger.log_metrics(step=step, train_loss=value, accuracy=0.5, grad_norm=1.5, learning_rate=1e-3, epoch=0.1)
        return (time.perf_counter() - began) / STEPS["torch"] * 1000

    return block


def trainer_blocks(folder: Path) -> Block:
    """A Trainer a block; it computes its own logs at every step in all of them."""
    from transformers import (
        BertConfig,
        BertForSequenceClassification,
        PrinterCallback,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )

    class Clock(TrainerCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.ends: list[float] = []

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.ends.append(time.perf_counter())

    config = BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=64, max_position_embeddings=32)  # fmt: skip
    data = [{"input_ids": list(range(16)), "labels": number % 2} for number in range(64)]
    made = 0

    def block(kind: str) -> float:
        nonlocal made
        made += 1
        arguments = TrainingArguments(
            str(folder / "out"), max_steps=STEPS["trainer"], per_device_train_batch_size=8, logging_steps=1,
            report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True, dataloader_pin_memory=False,
        )  # fmt: skip
        clock, callbacks = Clock(), []
        if kind == "ours":
            callbacks = [trainer_callback(TrainingRuntime(f"r-{made}", folder / f"r-{made}"))]
        trainer = Trainer(
            BertForSequenceClassification(config), arguments, train_dataset=data, callbacks=[*callbacks, clock]
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        first, last = clock.ends[LEFT_OUT], clock.ends[-1]
        return (last - first) / (STEPS["trainer"] - 1 - LEFT_OUT) * 1000

    return block


def main() -> None:
    """Measure one kind."""
    kind = sys.argv[1]
    torch.set_num_threads(1)
    out = os.dup(1)
    os.dup2(2, 1)
    order = ["ours", "control", "again"]
    with tempfile.TemporaryDirectory() as folder:
        block = {"torch": torch_blocks, "trainer": trainer_blocks}[kind](Path(folder))
        for name in order:
            block(name)
        rounds = []
        for _ in range(ROUNDS[kind]):
            random.shuffle(order)
            rounds.append({name: block(name) for name in order})
    os.write(out, (json.dumps(rounds) + "\n").encode())


if __name__ == "__main__":
    main()
