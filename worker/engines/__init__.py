"""The engines, found by name: `worker/engines/<name>/parts.py` makes one from the settings.

Each has `NEEDS_REDIS` and `parts(given)`. A new engine is a folder here; `tests/engines` has the contract that it
keeps. Nothing of an engine is loaded before it is asked for. Called by the bot's composition root.
"""

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast

from agent.domain.errors import BadRequest
from agent.domain.prices import Prices
from agent.ports import Blobs, EngineParts


@dataclass(frozen=True, slots=True)
class Given:
    """What the bot has for its engines.

    `redis_url` is empty where no engine needs one; `environment` is for processes that run training on this machine;
    a worker that was started with the bot may take `own_worker_s` to begin; `prices` are those of our own hosts.
    """

    home: Path
    redis_url: str
    blobs: Blobs
    environment: Mapping[str, str]
    own_worker_s: float = 0.0
    prices: Prices = field(default_factory=Prices)


class EngineModule(Protocol):
    """The module `worker/engines/<name>/parts.py`."""

    NEEDS_REDIS: bool

    def parts(self, given: Given) -> EngineParts:
        """The engine and what stands beside it; nothing is connected yet."""


def names() -> Sequence[str]:
    """Every engine that there is."""
    return sorted(found.name for found in pkgutil.iter_modules(__path__) if found.ispkg)


def need_redis(engines: Sequence[str]) -> bool:
    """Whether one of these does. Raises `BadRequest` for one that there is not."""
    return any(engine_module(name).NEEDS_REDIS for name in engines)


def engine_module(name: str) -> EngineModule:
    """The module of one engine. Raises `BadRequest`, which names those there are."""
    if name not in names():
        raise BadRequest(f"There is no engine `{name}`. Engines: {', '.join(names())}.")
    return cast("EngineModule", importlib.import_module(f"worker.engines.{name}.parts"))
