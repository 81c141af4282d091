"""Logging of the bot's process: constant event names with fields, secrets scrubbed in one place."""

import logging
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import structlog

from agent.domain.redaction import without_secrets

QUIET = ("slack_bolt", "slack_sdk", "discord", "aiohttp", "celery", "kombu", "amqp", "matplotlib", "PIL", "asyncio")


def scrub(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace what looks like a token in every text of an event."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = without_secrets(value)[0]
    return event


def configure(level: str, file: Path | None) -> None:
    """Log to `file`, or to standard error as text for people."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
    handler: logging.Handler = logging.FileHandler(file) if file else logging.StreamHandler(sys.stderr)
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        scrub,
    ]
    renderer: Any = structlog.processors.LogfmtRenderer(bool_as_flag=False) if file else _for_people()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer]
        )
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _for_people() -> Any:
    return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
