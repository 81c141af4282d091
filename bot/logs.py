"""Logging of the bot's process: constant event names with fields, secrets scrubbed in one place."""

import json
import logging
import sys
from datetime import UTC, datetime
from pathlib import Path

from typing_extensions import override

from agent.domain.redaction import without_secrets

QUIET = ("slack_bolt", "slack_sdk", "discord", "aiohttp", "celery", "kombu", "amqp", "matplotlib", "PIL", "asyncio")
_OWN = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime", "taskName"}


class Line(logging.Formatter):
    """One line an event: UTC time, level, its words, then logger and fields as `name=value`; a traceback below."""

    @override
    def formatMessage(self, record: logging.LogRecord) -> str:
        fields = {"logger": record.name} | {name: value for name, value in vars(record).items() if name not in _OWN}
        pairs = " ".join(f"{name}={_quoted(str(value))}" for name, value in fields.items())
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        return f"{at} {record.levelname.lower():<7} {record.message}  {pairs}"

    @override
    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))[0]


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False) if not value or set(value) & set(' "\n=') else value


def configure(level: str, file: Path | None) -> None:
    """Log to `file`, or to standard error."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
    handler: logging.Handler = logging.FileHandler(file) if file else logging.StreamHandler(sys.stderr)
    handler.setFormatter(Line())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
