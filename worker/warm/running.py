"""Makes a forked process into what `python train.py` or `python -m module` would have been, and runs it.

Owns the differences between a fork and a fresh interpreter: environment, arguments, path, streams, random states, what
libraries remembered of the environment. Standard library only, loaded by its path. Called by `worker.warm.zygote`.
"""

import atexit
import importlib.machinery
import importlib.util
import io
import os
import random
import runpy
import signal
import sys
import tempfile
import types


def become(argv: list[str], env: dict[str, str]) -> None:
    """Take over arguments and environment, and forget what the zygote shares with its other children."""
    os.environ.clear()  # noqa: TID251 - becoming another program means having its environment
    os.environ.update(env)  # noqa: TID251
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN if number == signal.SIGPIPE else signal.SIG_DFL)  # as Python starts
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()
    tempfile.tempdir = None
    _reseed_libraries()
    _tell_libraries(env)
    sys.orig_argv = list(argv)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()


def _reseed_libraries() -> None:
    """What a fresh interpreter seeds from the system."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        numpy.random.seed()
    if torch is not None:
        torch.default_generator.seed()  # not torch.seed: that would also seed devices, which start with a fixed one
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.current_process().authkey = os.urandom(32)


def _tell_libraries(env: dict[str, str]) -> None:
    """huggingface_hub reads its switch for working offline once, when it is imported."""
    constants = sys.modules.get("huggingface_hub.constants")
    if constants is not None:
        words = (env.get("HF_HUB_OFFLINE") or env.get("TRANSFORMERS_OFFLINE") or "").upper()
        constants.HF_HUB_OFFLINE = words in {"1", "ON", "YES", "TRUE"}  # type: ignore[attr-defined]


def run(argv: list[str]) -> None:
    """Execute `argv` (its first entry is the interpreter) as `__main__`; what it raises goes up as it is."""
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=__builtins__, __annotations__={})
    sys.modules["__main__"] = main
    if argv[1] == "-m":
        sys.argv = ["-m", *argv[3:]]
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - a plain string, as the interpreter has it
        runpy._run_module_as_main(argv[2])  # type: ignore[attr-defined]  # noqa: SLF001 - what `python -m` itself calls
        return
    path = os.path.abspath(argv[1])  # noqa: PTH100 - what the interpreter does: links stay
    sys.argv = argv[1:]
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))  # noqa: PTH120
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    main.__dict__.update(__file__=path, __loader__=loader, __cached__=None, __spec__=None)
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, main.__dict__)  # noqa: S102 - this is what it is for


def report(error: BaseException, *, own_files: frozenset[str]) -> int:
    """Print a traceback as the interpreter would, without our frames; the exit code, or the end by SIGINT."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in own_files:
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)
    if isinstance(error, KeyboardInterrupt):
        atexit._run_exitfuncs()  # noqa: SLF001 - what the interpreter does before it ends itself
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return 1
