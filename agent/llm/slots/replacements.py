"""Reads an exact change of a script: what stands there, and what is to stand there instead.

Both are in marks, or both assign a value and it is said that the script is meant.
"""

import re

_MARKED = r"[`\"“«„']\s*(.{1,200}?)\s*[`\"”»“']"
_SWAP = re.compile(
    rf"{_MARKED}\s*(?:,?\s*(?:with|by|to|into|for|durch|zu|in|mit|par|en|avec|por|con|a)\s+|\s*(?:->|=>|→|改成|改为|换成|替换为|变成)\s*)"
    rf"{_MARKED}",
    re.IGNORECASE,
)


_ASSIGNED = r"([A-Za-z_][\w.]*\s*=\s*[^\s,;]*[^\s,;.])"
_OTHERWISE = re.compile(
    rf"{_ASSIGNED}\s*(?:with|by|to|into|for|durch|zu|auf|par|en|por|->|=>|→|改成|改为|换成"
    rf"|替换为)\s*{_ASSIGNED}",
    re.IGNORECASE,
)
_CODE = re.compile(r"\b(?:code|script|skript|código|train\.py|source)\b|脚本|代码", re.IGNORECASE)


def replacement_in(asked: str) -> dict[str, str] | None:
    """The text of a script that is to be replaced, and by what."""
    found = _SWAP.search(asked) or (_OTHERWISE.search(asked) if _CODE.search(asked) else None)
    return {"old": found.group(1), "new": found.group(2)} if found else None


def rewrites(asked: str) -> bool:
    """Whether an exact change is said to be one of the script."""
    return bool(_CODE.search(asked)) and replacement_in(asked) is not None
