"""What each set of libraries consists of, and a rehearsal that finds what a training imports late.

Owns the sets' names and contents. Standard library only, loaded by its path; the field's libraries are imported when a
set is loaded. Called by `worker.warm.zygote`; the names are read by `worker.warm.sets`.
Libraries import much on first use (torch its compiler when the first optimizer is made, transformers a model's module).
A rehearsal trains for two steps in a forked process that ends afterwards, and tells which modules it had to load, and
whose source it read: torch keeps the stack of whoever seeds it, with every line.
"""

# ruff: noqa: PLC0415 - the field's libraries are imported when they are wanted

import contextlib
import ctypes
import functools
import gc
import importlib
import json
import linecache
import marshal
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

SETS: dict[str, tuple[str, ...]] = {
    "data": ("numpy", "numpy.random", "sklearn.metrics"),
    "torch": (
        "numpy",
        "torch",
        "torch._dynamo",
        "torch.utils.data",
        "torch.nn.functional",
        "torch.optim.lr_scheduler",
        "safetensors.torch",
    ),
    "tabular": (
        "numpy",
        "scipy.sparse",
        "pandas",
        "sklearn.linear_model",
        "sklearn.pipeline",
        "sklearn.compose",
        "sklearn.preprocessing",
        "sklearn.impute",
        "sklearn.ensemble",
        "sklearn.metrics",
        "sklearn.model_selection",
        "lightgbm",
        "lightgbm.callback",
        "skops.io",
    ),
    "transformers": (
        "numpy",
        "torch",
        "torch._dynamo",
        "torch.utils.data",
        "torch.nn.functional",
        "torch.optim.lr_scheduler",
        "safetensors.torch",
        "pandas",
        "sklearn.feature_extraction.text",
        "sklearn.linear_model",
        "sklearn.pipeline",
        "sklearn.metrics",
        "skops.io",
        "tokenizers",
        "accelerate",
        "transformers",
        "transformers.trainer",
        "transformers.training_args",
        "transformers.models.auto.modeling_auto",
        "transformers.models.auto.tokenization_auto",
        "transformers.models.bert.modeling_bert",
        "transformers.models.roberta.modeling_roberta",
        "transformers.models.distilbert.modeling_distilbert",
        "transformers.data.data_collator",
    ),
}
# Everything that a recipe or a person's script would import anyway: standard library modules that training pulls in.
_COMMON = (
    "argparse", "asyncio", "csv", "ctypes.util", "dataclasses", "difflib", "importlib.metadata", "json",
    "logging.handlers", "mmap", "multiprocessing.connection", "multiprocessing.popen_fork", "multiprocessing.queues",
    "multiprocessing.resource_sharer", "multiprocessing.synchronize", "platform", "secrets", "shutil", "socket",
    "sqlite3", "statistics", "struct", "subprocess", "tarfile", "traceback", "uuid", "zipfile",
)  # fmt: skip
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_LARGE_PAGE = 2 * 1024**2
_MADV_COLLAPSE = 25  # linux/mman.h
_CACHED = type(functools.lru_cache(int))  # an exact type: asking any object for attributes runs code of libraries
_SMALL: dict[str, int] = {
    "vocab_size": 16, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8,
    "max_position_embeddings": 8,
}  # fmt: skip
_FORGET = ("cuda", "gpu", "accelerator", "device", "bf16", "tf32", "env")


def load(name: str) -> list[str]:
    """Import the set; the modules that could not be imported, with the reason."""
    missing = []
    for module in (*_COMMON, *SETS[name]):
        try:
            importlib.import_module(module)
        except Exception as error:  # noqa: BLE001 - a library that is broken or absent must not cost the others
            missing.append(f"{module} ({type(error).__name__}: {error})")
    return missing


def rehearse(name: str) -> list[str]:
    """Train in a forked process and import here what it had to load; the modules. Nothing when it fails.

    Sources that it read are read here too: `linecache` remembers them, and a traceback looks whether they have changed.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _rehearse_and_end(name, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        said = answers.read()
    os.waitpid(pid, 0)
    found: dict[str, list[str]] = json.loads(said) if said else {"modules": [], "sources": []}
    for module in found["modules"]:
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    for source in found["sources"]:
        linecache.getlines(source)
    return found["modules"]


def touch(name: str) -> None:
    """Compute a little in this process: what a library sets up at its first call is then there in each fork.

    With one thread and without a backward pass, because threads do not survive a fork, and autograd refuses to run in a
    fork of a process that it ran in. No GPU is to be seen meanwhile: an optimizer asks CUDA for its stream where there
    is one, and a process that asked CUDA cannot be forked from. So what was remembered meanwhile is forgotten. Numbers
    that it draws change nothing: each fork seeds anew.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return
    known = {id(item): item.cache_info().currsize for item in _caches()}
    threads = torch.get_num_threads()
    visible = os.environ.get(_VISIBLE)  # noqa: TID251 - the zygote's own
    os.environ[_VISIBLE] = ""  # noqa: TID251
    torch.set_num_threads(1)
    try:
        with contextlib.suppress(Exception):  # a library that is broken is told by those who use it
            _TOUCHES[name]()
    finally:
        torch.set_num_threads(threads)
        os.environ.pop(_VISIBLE)  # noqa: TID251
        if visible is not None:
            os.environ[_VISIBLE] = visible  # noqa: TID251
    for item in _caches():
        if item.cache_info().currsize != known.get(id(item), 0):
            item.cache_clear()


def bytecode_of(paths: Sequence[str]) -> list[bytes]:
    """Modules of ours as bytecode, for `touch_names`."""
    found = []
    for path in paths:
        with open(path, "rb") as file:  # noqa: PTH123 - no pathlib needed for one call
            found.append(marshal.dumps(compile(file.read(), path, "exec", dont_inherit=True)))
    return found


def touch_names(bytecode: Sequence[bytes]) -> None:
    """Look up the names in bytecode that a step will load: each lies in a page that a fork copies when it does.

    None of it is executed, and nothing of it stays: what a step loads is its bundle's own.
    """
    for module in bytecode:
        marshal.loads(module)  # noqa: S302 - it comes from `bytecode_of`


def join_pages() -> None:
    """Ask the kernel to keep what was loaded in pages of 2 MB: a fork copies one entry for each instead of 512.

    Linux from 6.1; an older one refuses, and a fork takes longer.
    """
    advise = ctypes.CDLL(None, use_errno=True).madvise
    with open("/proc/self/maps", encoding="ascii") as maps:  # noqa: PTH123 - the kernel's own
        lines = [line.split(maxsplit=5) for line in maps]
    for area, rights, _, _, inode, *name in lines:
        if inode != "0" or "w" not in rights or (name and name[0].startswith("[") and name[0].strip() != "[heap]"):
            continue
        begin, end = (int(word, 16) for word in area.split("-"))
        for place in range(-(-begin // _LARGE_PAGE) * _LARGE_PAGE, end - _LARGE_PAGE + 1, _LARGE_PAGE):
            advise(ctypes.c_void_p(place), ctypes.c_size_t(_LARGE_PAGE), _MADV_COLLAPSE)


def forget_devices() -> None:
    """Drop remembered answers about devices and the environment: those of a run differ from the zygote's."""
    for item in _caches():
        word = str(getattr(item, "__name__", "")).lower()
        if any(part in word for part in _FORGET):
            item.cache_clear()


def _caches() -> "list[functools._lru_cache_wrapper[object]]":
    """Every function that remembers its answers."""
    return [item for item in gc.get_objects() if type(item) is _CACHED]


def is_fit() -> str:
    """Why a fork of this process could not train, empty when it could: CUDA must not have been touched."""
    torch = sys.modules.get("torch")
    if torch is None:
        return ""
    if torch.cuda.is_initialized():
        return "CUDA is initialised"
    return "CUDA was asked for its devices" if torch.cuda._is_in_bad_fork() else ""  # noqa: SLF001 - what torch itself asks


def _rehearse_and_end(name: str, writing: int) -> None:
    known = set(sys.modules)
    code = 1
    try:
        quiet = os.open(os.devnull, os.O_RDWR)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            os.environ.update(CUDA_VISIBLE_DEVICES="", HOME=folder, MPLBACKEND="agg")  # noqa: TID251 - a throw-away process
            _REHEARSALS[name]()
        code = 0
    finally:
        new = sorted(
            module
            for module, loaded in sys.modules.items()
            if module not in known and getattr(loaded, "__spec__", None) is not None
        )
        own = os.path.dirname(__file__)  # noqa: PTH120 - no pathlib needed for one call
        sources = [path for path in linecache.cache if path.startswith("/") and not path.startswith(own)]
        os.write(writing, json.dumps({"modules": new, "sources": sources}).encode()) if len(new) < 2000 else None
        os._exit(code)


def _torch() -> None:
    import torch

    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    data = torch.utils.data.TensorDataset(torch.randn(8, 4), torch.zeros(8, dtype=torch.long))
    for inputs, wanted in torch.utils.data.DataLoader(data, batch_size=4, shuffle=True):
        loss = torch.nn.functional.cross_entropy(network(inputs), wanted)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    torch.save({"network": network.state_dict(), "optimizer": optimizer.state_dict()}, "state.pt")
    torch.load("state.pt", weights_only=True)


def _transformers() -> None:
    import torch
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

    _torch()
    _texts()
    rows = [{"input_ids": torch.arange(4), "labels": 0} for _ in range(4)]
    arguments = TrainingArguments(
        "out", max_steps=2, per_device_train_batch_size=2, report_to=[], use_cpu=True, disable_tqdm=True, save_steps=1
    )
    network = BertForSequenceClassification(BertConfig(**_SMALL))
    Trainer(model=network, args=arguments, train_dataset=rows, callbacks=[TrainerCallback()]).train()


def _touch_torch() -> None:
    import torch

    network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))
    _touch_training(network, lambda: network(torch.randn(8, 4)))


def _touch_transformers() -> None:
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    _touch_torch()
    network = BertForSequenceClassification(BertConfig(**_SMALL))
    words = torch.arange(4).repeat(2, 1)
    _touch_training(network, lambda: network(input_ids=words, attention_mask=torch.ones_like(words)).logits)


def _touch_training(network: "torch.nn.Module", forward: "Callable[[], torch.Tensor]") -> None:
    """All of a step but its backward pass."""
    import torch

    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    outputs = forward()
    torch.nn.functional.cross_entropy(outputs, torch.zeros(len(outputs), dtype=torch.long)).item()
    optimizer.zero_grad()
    for weights in network.parameters():
        weights.grad = torch.zeros_like(weights)
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()


def _texts() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(["a bc", "d ef", "a ef", "d bc"], [0, 1, 0, 1])


def _tabular() -> None:
    import lightgbm
    import numpy as np
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows = np.random.default_rng(0).normal(size=(64, 3))
    labels = (rows[:, 0] > 0).astype(int)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, labels)
    roc_auc_score(labels, model.predict_proba(rows)[:, 1])
    data = lightgbm.Dataset(rows, label=labels)
    lightgbm.train({"objective": "binary", "verbosity": -1, "num_threads": 1}, data, num_boost_round=2)


def _data() -> None:
    import numpy as np
    from sklearn.metrics import accuracy_score, f1_score, log_loss, roc_auc_score

    truth = np.random.default_rng(0).permutation([0, 1] * 8)
    shares = np.full((16, 2), 0.5)
    accuracy_score(truth, truth), f1_score(truth, truth, average="macro"), log_loss(truth, shares)
    roc_auc_score(truth, shares[:, 1])


_REHEARSALS: dict[str, Callable[[], None]] = {
    "data": _data, "torch": _torch, "transformers": _transformers, "tabular": _tabular
}  # fmt: skip
_TOUCHES: dict[str, Callable[[], None]] = {"torch": _touch_torch, "transformers": _touch_transformers}
