"""The answers of a model that writes text. Copied beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

ADDED = ["prediction"]


@dataclass(frozen=True)
class Texts:
    """One text for each row."""

    texts: Sequence[str]

    def cells(self) -> Iterator[list[str]]:
        """What each row gets in the columns of `ADDED`."""
        for text in self.texts:
            yield [text]

    def said(self) -> list[dict[str, Any]]:
        """One answer a row."""
        return [{"kind": "text", "text": text} for text in self.texts]
