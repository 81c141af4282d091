"""Bytecode of the large sources that bundles carry, compiled while a supervisor waits for its attempt.

A step begins in a clean folder and writes no bytecode there, so it would compile every module that it imports. What is
laid beside a source here is of the kind "checked hash" (PEP 552): Python compares it with the source and runs what the
source says. So a bundle with other sources than this host's is served as before. Owns what was compiled. Filled by
`worker.supervisor.waiting`, laid out by `worker.supervisor.outputs`.
"""

import importlib.util
import marshal
import time
from collections.abc import Iterator, Mapping

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


def beside(bundle: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Names and contents of bytecode for the files of a bundle that are the same as this host's."""
    for name, (source, bytecode) in _compiled.items():
        if bundle.get(name) == source:
            yield importlib.util.cache_from_source(name), bytecode
