"""What each set of libraries consists of.

Owns the sets' names and contents, and whether a process that loaded one is fit to be forked from. Standard library
only, loaded by its path; the field's libraries are imported when a set is loaded. Called by `worker.warm.zygote`; the
names are read by `worker.warm.sets`.
"""

import contextlib
import functools
import gc
import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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
_FOR_TORCH = "sklearn.externals.array_api_compat.torch"  # skops imports all of scikit-learn, and this loads torch
_CACHED = type(functools.lru_cache(int))  # an exact type: asking any object for attributes runs code of libraries
_ASK_NVML = """
import sys, pynvml
pynvml.nvmlInit()
print(*pynvml.nvmlDeviceGetCudaComputeCapability(pynvml.nvmlDeviceGetHandleByIndex(int(sys.argv[1]))))
"""
_ASK_LIMIT_S = 20.0
_FORGET = ("cuda", "gpu", "accelerator", "device", "bf16", "tf32", "env")


def load(name: str) -> list[str]:
    """Import the set; the modules that could not be imported, with the reason."""
    missing = []
    without_torch = "torch" not in SETS[name]
    if without_torch:
        sys.modules[_FOR_TORCH] = None  # type: ignore[assignment]  # as if it were not there
    with contextlib.nullcontext() if without_torch else _devices_without_cuda():
        for module in (*_COMMON, *SETS[name]):
            try:
                importlib.import_module(module)
            except Exception as error:  # noqa: BLE001 - a library that is broken or absent must not cost the others
                missing.append(f"{module} ({type(error).__name__}: {error})")
    if without_torch:
        del sys.modules[_FOR_TORCH]
    return missing


@contextlib.contextmanager
def _devices_without_cuda() -> Iterator[None]:
    """Answer what devices there are without CUDA, and without NVML, whose driver keeps a thread from then on.

    bitsandbytes asks when it is imported, and peft imports it where it is installed.
    """
    try:
        import torch  # noqa: PLC0415 - not in each set
    except ImportError:
        yield
        return
    answers: dict[str, Callable[..., Any]] = {
        "device_count": _count,
        "is_available": lambda: _count() > 0,
        "get_device_capability": _capability,
    }
    by_cuda = {name: getattr(torch.cuda, name) for name in answers}
    loading = True

    def asking(name: str) -> Callable[..., Any]:  # what a library took for itself asks CUDA as soon as it may
        return lambda *asked, **named: (answers if loading else by_cuda)[name](*asked, **named)

    vars(torch.cuda).update({name: asking(name) for name in answers})
    try:
        yield
    finally:
        loading = False
        vars(torch.cuda).update(by_cuda)


def _count() -> int:
    """As `torch.cuda.device_count`: how many GPUs have a device file."""
    return sum(path.name.removeprefix("nvidia").isdigit() for path in Path("/dev").glob("nvidia*"))


def _capability(device: Any = None) -> tuple[int, int]:
    """As `torch.cuda.get_device_capability`, of the device with this number, or of the first.

    Raises: OSError, subprocess.SubprocessError, ValueError.
    """
    number = getattr(device, "idx", getattr(device, "index", device)) or 0
    command = [sys.executable, "-I", "-c", _ASK_NVML, str(number)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_ASK_LIMIT_S)
    major, minor = said.stdout.split()
    return int(major), int(minor)


def forget_devices() -> None:
    """Drop remembered answers about devices and the environment: those of a run differ from the zygote's."""
    for item in gc.get_objects():
        if type(item) is _CACHED and any(part in str(getattr(item, "__name__", "")).lower() for part in _FORGET):
            item.cache_clear()


def is_fit() -> str:
    """Why a fork of this process could not train, empty when it could: CUDA must not have been touched."""
    torch = sys.modules.get("torch")
    if torch is None:
        return ""
    if torch.cuda.is_initialized():
        return "CUDA is initialised"
    return "CUDA was asked for its devices" if torch.cuda._is_in_bad_fork() else ""  # noqa: SLF001 - what torch itself asks
