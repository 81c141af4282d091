"""Memory of the bot's process: one heap for all threads, and large blocks are given back at once.

glibc keeps a heap for each of several threads. The bot's threads read and pack what comes from the database; each of
their heaps keeps what its busiest moment took, so that the process grew by 30 MB in twelve minutes although it held no
more. Called once, at the start of a process that stays.
"""

import ctypes

# From malloc.h of glibc: https://man7.org/linux/man-pages/man3/mallopt.3.html
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_LARGE_BYTES = 128 << 10  # what glibc begins with; left alone, it grows with what is freed


def use_one_heap() -> bool:
    """Before the first thread. False where the C library has no such setting (musl, macOS): nothing changes there."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    wanted = ((_M_ARENA_MAX, 1), (_M_MMAP_THRESHOLD, _LARGE_BYTES), (_M_TRIM_THRESHOLD, _LARGE_BYTES))
    return all(mallopt(setting, value) == 1 for setting, value in wanted)
