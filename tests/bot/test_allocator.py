"""The bot's process takes its memory from one heap, however many threads it has."""

import ctypes
import subprocess
import sys

import pytest

HEAPS = """
import ctypes, sys, threading
from bot.allocator import use_one_heap

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
if sys.argv[1] == "one":
    assert use_one_heap()
together = threading.Barrier(4)

def take():
    together.wait(30)
    assert libc.malloc(50_000)
    together.wait(30)

threads = [threading.Thread(target=take) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.fdopen.restype = ctypes.c_void_p
out = libc.fdopen(1, b"w")
libc.malloc_info(0, ctypes.c_void_p(out))
libc.fflush(ctypes.c_void_p(out))
"""


def heaps(wanted: str) -> int:
    told = subprocess.run(
        [sys.executable, "-c", HEAPS, wanted], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    return told.count("<heap nr=")


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="this C library is not glibc")
def test_threads_share_one_heap() -> None:
    assert heaps("as it is") > 1, "the setting would not be needed"
    assert heaps("one") == 1
