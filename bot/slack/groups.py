"""Who is in which user group of a workspace, asked of Slack and kept for a minute."""

import asyncio

from agent.domain.inbound import Person
from bot.slack.api import SlackApi

KEPT_S = 60.0


class UserGroups:
    """Asks `usergroups.users.list`, which needs the scope `usergroups:read`."""

    def __init__(self, api: SlackApi) -> None:
        """`api` carries the bot's token."""
        self._api = api
        self._known: dict[str, tuple[float, frozenset[str]]] = {}  # by group: until when, and its people

    async def of(self, person: Person, among: frozenset[str]) -> frozenset[str]:
        """Those of these groups that a person is in. Raises as `SlackApi.call` does."""
        return frozenset([group for group in sorted(among) if person.id in await self._people(group)])

    async def _people(self, group: str) -> frozenset[str]:
        now_s = asyncio.get_running_loop().time()
        until_s, people = self._known.get(group, (0.0, frozenset()))
        if now_s >= until_s:
            answer = await self._api.call("usergroups.users.list", usergroup=group)
            people = frozenset(map(str, answer.get("users") or ()))
            self._known[group] = (now_s + KEPT_S, people)
        return people
