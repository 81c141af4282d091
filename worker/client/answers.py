"""The form of a short answer between processes: `{"ok": …}`, or `{"error": {"kind": "BadData", "text": "…"}}`.

Written by `worker.tasks` and by the local engine's processes, read by the engines. An error that is not an `AppError`
is logged where it happened, with an id for people: this is an edge.
"""

import json
import logging
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from agent.domain.errors import AppError, BadData, NotAllowed, NotFound, Unavailable
from agent.domain.value import Value
from agent.wire import Malformed, decode

_OTHER_VERSION = (
    "A GPU host cannot read this order, since it is of another version than the bot. Update both to the same version."
)

V = TypeVar("V", bound=Value)
log = logging.getLogger(__name__)


class Done(Value):
    """It was done, in a word."""

    word: str = ""


def answered(name: str, act: Callable[[], Value]) -> dict[str, Any]:
    """What `act` answers, or how it failed."""
    try:
        return {"ok": json.loads(act().model_dump_json())}
    except Malformed as error:
        log.warning("%s_malformed why=%s raw=%r", name, error, error.raw[:200])
        return failed("Unavailable", _OTHER_VERSION)
    except AppError as error:
        return failed(type(error).__name__, error.text)
    except Exception:
        number = uuid.uuid4().hex[:8]
        log.exception("%s_broke id=%s", name, number)
        return failed("Unavailable", f"Something broke on the GPU host (id {number} in its log).")


def failed(kind: str, text: str) -> dict[str, Any]:
    """The answer of what did not work."""
    return {"error": {"kind": kind, "text": text}}


def opened(reply: dict[str, Any], answer: type[V]) -> V:
    """What was answered. Raises `BadData`, `NotAllowed`, `NotFound` or `Unavailable`, as the answer says."""
    if "ok" in reply:
        try:
            return decode(answer, json.dumps(reply["ok"]))
        except Malformed as error:
            raise Unavailable("A GPU host gave an answer that this version cannot read. Update the host.") from error
    refusal = reply.get("error") or {}
    text = str(refusal.get("text", "The GPU host gave no reason."))
    match refusal.get("kind"):
        case "BadData":
            raise BadData(text)
        case "NotAllowed":
            raise NotAllowed(text)
        case "NotFound":
            raise NotFound(text)
        case _:
            raise Unavailable(text)
