"""What each person may do here: the rights that the settings grant, by person, channel and group of the platform.

Asked anew before each decision, so that a person who leaves a group loses its rights at once.
"""

from collections.abc import Mapping
from typing import Protocol

from agent.domain.inbound import Person, Thread
from agent.domain.policy import EVERYBODY, Grants, Right


class Groups(Protocol):
    """A platform that knows who is in which group."""

    async def groups_of(self, person: Person, among: frozenset[str]) -> frozenset[str]:
        """Those of these groups, by id, that the person is in. Raises `TransientError` while nobody can tell."""


class Members:
    """People and their rights."""

    def __init__(self, grants: Grants, platforms: Mapping[str, Groups]) -> None:
        """`platforms` are the adapters by name; one is asked only where a group is granted something."""
        self._grants = grants
        self._platforms = platforms

    @property
    def open(self) -> bool:
        """Whether everybody may talk to the bot."""
        return self._grants.ask == EVERYBODY

    async def rights(self, person: Person, thread: Thread) -> frozenset[Right]:
        """What this person may do in this thread. Raises `TransientError` while a group cannot be looked up."""
        named, groups = self._grants.groups, frozenset[str]()
        platform = self._platforms.get(person.platform)
        if named and platform is not None and not person.external:
            groups = await platform.groups_of(person, named)
        return self._grants.of(person, thread, groups)

    def who(self, right: Right) -> str:
        """Who was given a right, as people write it; `none are set` for nobody."""
        named = sorted(f"`{one.who}{f'@{one.channel}' if one.channel else ''}`" for one in self._grants.holders(right))
        return ", ".join(named) or "none are set"
