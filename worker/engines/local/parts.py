"""Puts the engine `local` together. Found by `worker.engines`."""

from agent.ports import EngineParts
from worker.engines import Given
from worker.engines.local.engine import LocalEngine
from worker.engines.local.machine import LocalMachine

NEEDS_REDIS = False


def parts(given: Given) -> EngineParts:
    """The machine is the directory and the data service; its events are read from the spools of its runs."""
    machine = LocalMachine(given.home, given.environment)
    engine = LocalEngine(machine, given.home, given.blobs, given.prices)
    return EngineParts(engine, machine, machine, engine, machine.close)
