"""Reads back what people wrote while no event could reach us: channels of which we are a member, and their threads.

Each message becomes what its event would have been, so that `bot.slack.inbound` alone decides what is for us. Slack
lists no replies of a channel, but says at a thread's first message when the last one came. A mention in a thread that
began earlier than `PARENTS` and in which we never spoke is not found.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from agent.domain.errors import AppError, TransientError
from agent.domain.inbound import Inbound, Thread
from bot.slack.api import SlackApi
from bot.slack.inbound import Payload, Self, interpret

log = logging.getLogger(__name__)

KINDS = "public_channel,private_channel,mpim,im"
PAGE, MOST_PAGES = 200, 10
PARENTS = timedelta(days=7)  # how old the first message of a thread may be that nobody knows of
TRIES, AGAIN_S = 5, 5.0


async def missed(api: SlackApi, me: Self, since: datetime, threads: Sequence[Thread]) -> AsyncIterator[Inbound]:
    """What people said since then that may be for us, in each channel oldest first. Raises `TransientError`."""
    async for channel in _pages(api, "users.conversations", "channels", types=KINDS, exclude_archived=True):
        known = {thread.thread_id for thread in threads if thread.channel == channel["id"] and thread.thread_id}
        try:
            said = await _said_in(api, str(channel["id"]), since, known)
        except TransientError:
            raise
        except AppError as error:
            log.warning("slack.cannot_be_read_back", extra={"channel": channel["id"], "reason": error.text})
            continue
        for message in said:
            inbound = interpret(_event(message, channel, me), me)
            if inbound is not None and inbound.at >= since:
                yield inbound


async def _said_in(api: SlackApi, channel: str, since: datetime, known: set[str]) -> list[Payload]:
    """Messages of one channel since then and replies in its threads, by time; `known` are threads of ours."""
    found: dict[str, Payload] = {}
    threads, begin = set(known), _ts(since - PARENTS)
    async for message in _pages(api, "conversations.history", "messages", channel=channel, oldest=begin):
        ts = str(message["ts"])
        if float(ts) >= since.timestamp():
            found[ts] = message
        if float(message.get("latest_reply") or 0) >= since.timestamp():
            threads.add(ts)
        else:  # nothing was said in it
            threads.discard(ts)
    for thread_id in sorted(threads):
        try:
            async for reply in _pages(
                api, "conversations.replies", "messages", channel=channel, ts=thread_id, oldest=_ts(since)
            ):
                found.setdefault(str(reply["ts"]), reply)
        except TransientError:
            raise
        except AppError as error:  # its first message was deleted
            log.info("slack.thread_not_read_back", extra={"channel": channel, "ts": thread_id, "reason": error.text})
    return [found[ts] for ts in sorted(found, key=float)]


def _ts(moment: datetime) -> str:
    return f"{moment.timestamp():.6f}"


async def _pages(api: SlackApi, method: str, name: str, **arguments: object) -> AsyncIterator[dict[str, Any]]:
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        answer = await _with_retry(api, method, limit=PAGE, cursor=cursor, **arguments)
        for entry in answer.get(name) or ():
            yield entry
        cursor = (answer.get("response_metadata") or {}).get("next_cursor")
        if not cursor:
            return


async def _with_retry(api: SlackApi, method: str, **arguments: object) -> dict[str, Any]:
    """Call again after as long as Slack asks for, since no person waits for the answer."""
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
