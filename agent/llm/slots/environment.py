"""Reads the environment variables of a person's own program: `EPOCHS=5`. Text in, values out."""

import re

_VARIABLE = re.compile(r"(?<![\w-])([A-Z][A-Z0-9_]+)=([^\s,;]+)")


def environment_in(words: str) -> dict[str, str]:
    """The variables that are stated, by their names in capitals."""
    return {name: value.rstrip(".") for name, value in _VARIABLE.findall(words)}


def without_environment(words: str) -> str:
    """The words without those variables, which are no settings."""
    return _VARIABLE.sub(" ", words)
