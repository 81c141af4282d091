"""How the people of a workspace are known: their display names, asked of Slack once each and kept for a while.

Deliveries name a person by an id alone, or by a user name. Called before what they did is stored.
"""

import asyncio
from collections import OrderedDict

from agent.domain.errors import AppError, TransientError
from agent.domain.inbound import Person
from bot.slack.api import SlackApi

KEPT = 1_000  # people
WAIT_S = 1.0  # Slack wants its acknowledgement within three


class Names:
    """Asks `users.info`."""

    def __init__(self, api: SlackApi) -> None:
        """`api` carries the bot's token."""
        self._api = api
        self._known: OrderedDict[str, str] = OrderedDict()

    async def named(self, person: Person) -> Person:
        """The same person by display name, or as the delivery named them where Slack does not say in time."""
        if person.id not in self._known:
            try:
                async with asyncio.timeout(WAIT_S):
                    self._known[person.id] = _display_name(await self._api.call_once("users.info", user=person.id))
            except (TransientError, TimeoutError):
                return person
            except AppError:  # refused: asked again when it is forgotten
                self._known[person.id] = ""
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        name = self._known[person.id]
        return person.model_copy(update={"name": name}) if name else person


def _display_name(answer: dict[str, object]) -> str:
    user = answer.get("user")
    user = user if isinstance(user, dict) else {}
    profile = user.get("profile") or {}
    return str(profile.get("display_name") or profile.get("real_name") or user.get("real_name") or user.get("name", ""))
