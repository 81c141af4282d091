"""What models write instead of the calls that they mean. Pure; repairs only what can mean one thing."""

import json
import re
from collections.abc import Collection
from typing import Any

_FENCE = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL)
_STRING_OR_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
_CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)
_CODE = re.compile(r"```.*?```", re.DOTALL)


def arguments_of(written: str) -> str:
    """A call's arguments as JSON of one object, where it is clear which; else as they were written.

    Taken away are a code fence, commas before an end, a string around the object, and the object's repetition.
    """
    if _object_in(written) is not None:
        return written
    text = _STRING_OR_COMMA.sub(lambda found: found.group(1) or "", _unfenced(written))
    try:
        value, end = json.JSONDecoder().raw_decode(text.strip())
    except (ValueError, RecursionError):
        return written
    rest = text.strip()[end:].strip()
    if isinstance(value, str) and not rest:
        value = _object_in(value)
    if not isinstance(value, dict) or (rest and _object_in(rest) != value):
        return written
    return json.dumps(value, ensure_ascii=False)


def calls_in(text: str, names: Collection[str]) -> tuple[str, list[tuple[str, str]]]:
    """Calls of known tools that stand in a text as `<tool_call>{…}</tool_call>`, and the text without them.

    Small models on servers of one's own write them so. What stands in a code block is an example.
    """
    if "<tool_call>" not in text:
        return text, []
    calls: list[tuple[str, str]] = []

    def take(found: re.Match[str]) -> str:
        said = _object_in(arguments_of(found.group(1))) or {}
        arguments = said.get("arguments", said.get("parameters", {}))
        if said.get("name") not in names or not isinstance(arguments, dict | str):
            return found.group()
        written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        calls.append((said["name"], arguments_of(written)))
        return ""

    code = _CODE.findall(text)
    prose = [_CALL.sub(take, part) for part in _CODE.split(text)]
    parts = [part for pair in zip(prose, [*code, ""], strict=True) for part in pair]
    return ("".join(parts).strip() if calls else text), calls


def _unfenced(text: str) -> str:
    found = _FENCE.fullmatch(text)
    return found.group(1) if found else text


def _object_in(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
