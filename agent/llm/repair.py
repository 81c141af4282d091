"""What models write instead of the calls that they mean. Pure; repairs only what can mean one thing."""

import json
import re
from collections.abc import Collection
from typing import Any

_FENCE = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL)
_STRING_OR_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
_CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*(?:</tool_call>|\Z)", re.DOTALL)
_TAG = "<tool_call>"
_MAY_BE_CALL = re.compile(r"\s*(?:\{|`{1,2}\Z|```(?:j|js|jso|json)?\s*(?:\{|\Z))")
_CODE = re.compile(r"```.*?```", re.DOTALL)


def arguments_of(written: str) -> str:
    """A call's arguments as JSON of one object, where it is clear which; else as they were written.

    Taken away are a code fence, commas before an end, a string around the object, and the object's repetition; `null`
    is none.
    """
    if is_whole(written):
        return written
    text = _STRING_OR_COMMA.sub(lambda found: found.group(1) or "", _unfenced(written))
    try:
        value, end = json.JSONDecoder().raw_decode(text.strip())
    except (ValueError, RecursionError):
        return written
    rest = text.strip()[end:].strip()
    if isinstance(value, str) and not rest:
        value = _object_in(value)
    elif value is None:
        value = {}
    if not isinstance(value, dict) or (rest and _object_in(rest) != value):
        return written
    return json.dumps(value, ensure_ascii=False)


def is_whole(written: str) -> bool:
    """Whether these are all of a call's arguments."""
    return _object_in(written) is not None


def name_of(written: str, names: Collection[str]) -> str:
    """The tool that is meant by a name in other letters or behind `functions.`; else the name as it was written."""
    bare = written.removeprefix("functions.").lower()
    return written if written in names or bare not in names else bare


class Prose:
    """What may be shown of words while they come: not what may be a call, which has no words of its own in the end."""

    def __init__(self) -> None:
        """Nothing has come yet."""
        self._held = ""
        self._begun = False

    def add(self, piece: str) -> str:
        """What may be shown with this piece; what is held back and is no call is part of the whole answer."""
        self._held += piece
        at = self._call_at()
        words, self._held = self._held[:at], self._held[at:]
        self._begun = self._begun or bool(words.strip())
        return words

    def _call_at(self) -> int:
        if not self._begun and _MAY_BE_CALL.match(self._held):
            return 0
        at = self._held.find(_TAG)
        if at < 0:
            at = self._held.rfind("<")
        may_be = at >= 0 and (self._held.startswith(_TAG, at) or _TAG.startswith(self._held[at:]))
        return at if may_be else len(self._held)


def calls_in(text: str, names: Collection[str]) -> tuple[str, list[tuple[str, str]]]:
    """Calls of known tools that stand in a text as `<tool_call>{…}</tool_call>` or are all of it, and what is left.

    Small models on servers of one's own write them so. What stands in a code block beside words is an example.
    """
    if call := _call_in(_unfenced(text.strip()), names):
        return "", [call]
    if _TAG not in text:
        return text, []
    calls: list[tuple[str, str]] = []

    def take(found: re.Match[str]) -> str:
        call = _call_in(found.group(1), names)
        calls.extend([call] if call else [])
        return "" if call else found.group()

    code = _CODE.findall(text)
    prose = [_CALL.sub(take, part) for part in _CODE.split(text)]
    parts = [part for pair in zip(prose, [*code, ""], strict=True) for part in pair]
    return ("".join(parts).strip() if calls else text), calls


def _call_in(written: str, names: Collection[str]) -> tuple[str, str] | None:
    """The name and the arguments of a call of a known tool that is all of a text."""
    said = _object_in(arguments_of(written)) or {}
    name, arguments = said.get("name"), said.get("arguments", said.get("parameters"))
    if not isinstance(name, str) or not isinstance(arguments, dict | str) or name_of(name, names) not in names:
        return None
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return name_of(name, names), arguments_of(text)


def _unfenced(text: str) -> str:
    found = _FENCE.fullmatch(text)
    return found.group(1) if found else text


def _object_in(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
