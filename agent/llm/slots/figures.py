"""Reads a number as people write it."""

import math
import re

from agent.domain.errors import BadRequest

# All that stands together with a number, so that no part of it is taken for the whole.
NUMBER = r"(?<![\w.,/+-])(?!\d+(?:st|nd|rd|th)\b)(?P<number>[-+]?\.?\d(?:[\w%]|[.,/+*^-](?=[\d-]))*(?:\s%)?)"
PLAIN = NUMBER.replace("?P<number>", "")  # as a group without a name
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")


def figure(said: str) -> float | int:
    """20000, 20,000, 20k, 0.1, 0,1 or 1e-4. Raises `BadRequest` where it is anything else."""
    plain = said.lower().removesuffix("k")
    thousands = plain != said.lower()
    plain = plain.replace(",", "") if _THOUSANDS.fullmatch(plain) else plain.replace(",", ".")
    try:
        value = float(plain) * (1000 if thousands else 1)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadRequest(f"I cannot read `{said[:40]}` as a number. Write it like 0.01, 1e-4, 20 or 20k.")
    return int(value) if value.is_integer() and ("." not in plain or thousands) else value
