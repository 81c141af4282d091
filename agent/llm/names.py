"""How models are named: `provider/name` as LiteLLM knows it, or `provider/name@url` on a server of one's own."""

import re

_WITH_URL = re.compile(r"(.+?)@(https?://.+)")


def split_name(name: str) -> tuple[str, str]:
    """LiteLLM's name and the address, which may be empty; a name may hold an @ of its own."""
    found = _WITH_URL.fullmatch(name)
    return (found[1], found[2]) if found else (name, "")
