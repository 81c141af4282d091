"""How bad a line of a training log is, by cheap rules. Pure; called for each line when it is stored."""

import re
from typing import Literal

Level = Literal["error", "warning", "info"]
# What loggers, Python and CUDA write: "ERROR:", "[error]", "Traceback (most recent call last):", "ValueError: …".
_ERROR = re.compile(
    r"\b(error|critical|fatal|exception|traceback|segmentation fault|out of memory|core dumped|killed)\b"
    r"|\b[A-Z]\w*(Error|Exception)\b",
    re.IGNORECASE,
)
_WARNING = re.compile(
    r"\b(warn|warning|deprecated|deprecationwarning|nan|overflow|retry|retrying)\b|\w+Warning\b", re.IGNORECASE
)
_HARMLESS = re.compile(r"\b(0|no) (errors?|warnings?)\b|\berror[ _](rate|bars?)\b|\b\w+_error\b", re.IGNORECASE)
_SAYS_SO = re.compile(r"(?:^|[\s\[|])(DEBUG|INFO|NOTICE)(?:[\]:|\s]|$)")
_LONGEST = 2000  # characters that are looked at


def level_of(line: str) -> Level:
    """`error`, `warning` or `info`. A line that calls itself INFO or DEBUG near its start is believed."""
    head = _HARMLESS.sub("", line[:_LONGEST])
    if _SAYS_SO.search(head[:80]):
        return "info"
    if _ERROR.search(head):
        return "error"
    return "warning" if _WARNING.search(head) else "info"
