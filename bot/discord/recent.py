"""A dictionary that forgets its oldest entries. A cache: whatever it lacks can be found elsewhere."""

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The last `size` entries that were written."""

    def __init__(self, size: int = 2000) -> None:
        self._size = size
        self._kept: OrderedDict[K, V] = OrderedDict()

    def put(self, key: K, value: V) -> None:
        """Remember, and forget the oldest if there are too many."""
        self._kept[key] = value
        self._kept.move_to_end(key)
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)

    def get(self, key: K) -> V | None:
        """What was written, unless it is forgotten."""
        return self._kept.get(key)

    def pop(self, key: K) -> V | None:
        """The same, and forget it."""
        return self._kept.pop(key, None)
