"""Names of this host's GPUs, asked of NVML in a process of its own: a driver that hangs must not hang the worker.

`python -m worker.gpus` prints one name a line. Called by `worker.hostbeat`.
"""

import contextlib
import subprocess
import sys

_LIMIT_S = 5.0


def gpu_names() -> tuple[str, ...]:
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
    return tuple(done.stdout.splitlines()) if done.returncode == 0 else ()


def main() -> None:
    """Print the names; exits 1 without NVML."""
    import pynvml  # noqa: PLC0415 - only in the child

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        sys.exit(1)
    for number in range(pynvml.nvmlDeviceGetCount()):
        name = pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(number))
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    with contextlib.suppress(ImportError):
        main()
