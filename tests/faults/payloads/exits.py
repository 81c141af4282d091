"""Ends in the way that its seed says."""

import ctypes
import os
import signal
import sys

from worker.recipes.prelude import metric, seed, start

start()
metric(1, loss=1.0)
print("about to end", flush=True)
match seed():
    case 1:
        sys.exit(1)
    case 3:
        sys.exit(3)
    case 9:
        os.kill(os.getpid(), signal.SIGKILL)
    case 11:
        ctypes.string_at(0)
    case 15:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    case 101:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB")
    case 102:
        raise RuntimeError(
            "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE)"
        )
    case 103:
        raise RuntimeError("CUDA error: device-side assert triggered")
    case 104:
        raise MemoryError
    case 105:
        raise OSError(28, "No space left on device")
