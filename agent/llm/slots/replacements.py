"""Reads an exact change of a script: what stands there, and what is to stand there instead, both in marks."""

import re

_MARKED = r"[`\"“«„']\s*(.{1,200}?)\s*[`\"”»“']"
_SWAP = re.compile(
    rf"{_MARKED}\s*(?:,?\s*(?:with|by|to|into|for|durch|zu|in|mit|par|en|avec|por|con|a)\s+|\s*(?:->|=>|→|改成|改为|换成|替换为|变成)\s*)"
    rf"{_MARKED}",
    re.IGNORECASE,
)


def replacement_in(asked: str) -> dict[str, str] | None:
    """The text of a script that is to be replaced, and by what."""
    found = _SWAP.search(asked)
    return {"old": found.group(1), "new": found.group(2)} if found else None
