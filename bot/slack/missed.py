"""Reads back what people wrote while no event could reach us: channels of which we are a member, and their threads.

Each message becomes what its event would have been, so that `bot.slack.inbound` alone decides what is for us. A mention
in an old thread in which we never spoke is not found: Slack lists no replies of a channel.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

from agent.domain.errors import AppError, TransientError
from agent.domain.rooms import Inbound, Room
from bot.slack.api import SlackApi
from bot.slack.inbound import Payload, Self, interpret

log = logging.getLogger(__name__)

KINDS = "public_channel,private_channel,mpim,im"
PAGE, MOST_PAGES = 200, 10
TRIES, AGAIN_S = 5, 5.0


async def missed(api: SlackApi, me: Self, since: datetime, rooms: Sequence[Room]) -> AsyncIterator[Inbound]:
    """What people said since then that may be for us, in each channel oldest first. Raises `TransientError`."""
    async for channel in _pages(api, "users.conversations", "channels", types=KINDS, exclude_archived=True):
        known = {room.thread for room in rooms if room.channel == channel["id"] and room.thread}
        try:
            said = await _said_in(api, str(channel["id"]), f"{since.timestamp():.6f}", known)
        except TransientError:
            raise
        except AppError as error:
            log.warning("slack.cannot_be_read_back", extra={"channel": channel["id"], "reason": error.text})
            continue
        for message in said:
            inbound = interpret(_event(message, channel, me), me)
            if inbound is not None and inbound.at >= since:
                yield inbound


async def _said_in(api: SlackApi, channel: str, oldest: str, threads: set[str]) -> list[Payload]:
    """Messages and replies of one channel, by time."""
    found: dict[str, Payload] = {}
    async for message in _pages(api, "conversations.history", "messages", channel=channel, oldest=oldest):
        found[str(message["ts"])] = message
        if message.get("reply_count"):
            threads = threads | {str(message["ts"])}
    for thread in sorted(threads):
        try:
            async for reply in _pages(
                api, "conversations.replies", "messages", channel=channel, ts=thread, oldest=oldest
            ):
                found.setdefault(str(reply["ts"]), reply)
        except TransientError:
            raise
        except AppError as error:  # its first message was deleted
            log.info("slack.thread_not_read_back", extra={"channel": channel, "ts": thread, "reason": error.text})
    return [found[ts] for ts in sorted(found, key=float)]


async def _pages(api: SlackApi, method: str, name: str, **arguments: object) -> AsyncIterator[dict[str, Any]]:
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        answer = await _patiently(api, method, limit=PAGE, cursor=cursor, **arguments)
        for entry in answer.get(name) or ():
            yield entry
        cursor = (answer.get("response_metadata") or {}).get("next_cursor")
        if not cursor:
            return


async def _patiently(api: SlackApi, method: str, **arguments: object) -> dict[str, Any]:
    """Nobody waits for this, so it waits as long as Slack asks it to."""
    for _ in range(TRIES):
        try:
            return await api.call(method, **arguments)
        except TransientError as error:
            await asyncio.sleep(error.retry_after_s or AGAIN_S)
    return await api.call(method, **arguments)


def _event(message: Payload, channel: Payload, me: Self) -> Payload:
    team = (me.enterprise_id and channel.get("context_team_id")) or me.team_id
    kind = {"channel_type": "im"} if channel.get("is_im") else {}
    if message.get("thread_ts") == message["ts"]:  # a listing says so of a message that has replies, its event did not
        message = {name: value for name, value in message.items() if name != "thread_ts"}
    return {
        "type": "event_callback",
        "event_id": f"read:{channel['id']}:{message['ts']}",
        "team_id": team,
        "authorizations": [{"team_id": team}],
        "is_ext_shared_channel": bool(channel.get("is_ext_shared")),
        "event": {**message, **kind, "channel": channel["id"]},
    }
