"""Bytecode of the large sources that bundles carry, compiled while a supervisor waits for its attempt.

A step begins in a clean folder and writes no bytecode there, so it would compile every module that it imports. What is
laid beside a source here is of the kind "checked hash" (PEP 552): Python compares it with the source and runs what the
source says. So a bundle with other sources than this host's is served as before. Owns what was compiled. Filled by
`worker.supervisor.waiting`, laid out by `worker.supervisor.outputs`.
"""

import contextlib
import importlib.util
import marshal
import time
from pathlib import Path

from worker.client.bundle import sources

_CHECKED_HASH = (0b11).to_bytes(4, "little")

_WORTH_S = 0.001  # writing a file takes about half of that

_compiled: dict[str, tuple[bytes, bytes]] = {}  # source and bytecode by name


def compile_all() -> None:
    """Compile this host's own sources, in some hundredths of a second; those that take long are kept."""
    for name, source in sources().items():
        if not name.startswith("worker/"):  # train.py is a script, which no bytecode is read for
            continue
        began = time.perf_counter()
        code = compile(source, name, "exec", dont_inherit=True)  # Python corrects the name when it loads this
        if time.perf_counter() - began > _WORTH_S:
            head = importlib.util.MAGIC_NUMBER + _CHECKED_HASH + importlib.util.source_hash(source)
            _compiled[name] = source, head + marshal.dumps(code)


def lay(folder: Path) -> None:
    """Put bytecode beside the sources in `folder` that are the same as this host's. A full disk costs only the time."""
    for name, (source, bytecode) in _compiled.items():
        file = folder / name
        with contextlib.suppress(OSError):
            if file.read_bytes() == source:
                place = Path(importlib.util.cache_from_source(str(file)))
                place.parent.mkdir(exist_ok=True)
                place.write_bytes(bytecode)
