"""Reads the environment variables of a person's own program: `EPOCHS=5`. Text in, values out."""

import re

_VARIABLE = re.compile(r"(?<![\w-])([A-Z][A-Z0-9_]+)(?:=|\s+(?:to|auf|à|a)\s+(?=\d))([^\s,;]+)")
_SECRET = re.compile(
    r"(?<![\w-])([A-Z][A-Z0-9_]*_(?:TOKEN|KEY|SECRET|PASSWORD|CREDENTIALS))(?![\w=])"
    r"|\b(?:[sS]ecrets?|[gG]eheimniss?e?|[sS]ecretos?)\s+(?:called\s+|named\s+)?([A-Z][A-Z0-9_]+)(?![\w=])"
)


def environment_in(words: str) -> dict[str, str]:
    """The variables that are stated, by their names in capitals."""
    return {name: value.rstrip(".") for name, value in _VARIABLE.findall(words)}


def secrets_in(words: str) -> tuple[str, ...]:
    """The host's secrets that are named, in capitals."""
    return tuple(dict.fromkeys(filter(None, (name for said in _SECRET.findall(words) for name in said))))


def without_environment(words: str) -> str:
    """The words without those variables, which are no settings."""
    return _VARIABLE.sub(" ", words)
