"""The GPUs of this host, asked of NVML in a process of its own: a driver that hangs must not hang the worker.

`python -m worker.gpus` prints one GPU a line, as JSON. Called by `worker.hostbeat`.
"""

import contextlib
import subprocess
import sys

from agent.domain.orders import GpuInfo
from agent.wire import decode

_LIMIT_S = 5.0


def gpus() -> tuple[GpuInfo, ...]:
    """The GPUs in NVML's order; empty without a driver, or when it does not answer in time."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-m", "worker.gpus"],
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    if done.returncode != 0:
        return ()
    return tuple(decode(GpuInfo, line) for line in done.stdout.splitlines())


def main() -> None:
    """Print them; exits 1 without NVML."""
    import pynvml  # noqa: PLC0415 - only in the child

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        sys.exit(1)
    for number in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(number)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        info = GpuInfo(
            uuid=pynvml.nvmlDeviceGetUUID(handle),
            index=number,
            name=pynvml.nvmlDeviceGetName(handle),
            memory_bytes=memory.total,
            used_bytes=memory.used,
        )
        sys.stdout.write(f"{info.model_dump_json()}\n")


if __name__ == "__main__":
    with contextlib.suppress(ImportError):
        main()
