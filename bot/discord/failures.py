"""The one table from what discord.py raises to what a person may read, with the permission that is missing."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Literal

import aiohttp
import discord

from agent.domain.errors import AppError, BadData, BadRequest, Conflict, NotAllowed, NotFound, RateLimited, Unavailable

Doing = Literal["send", "edit", "open a thread", "read", "write privately"]

# Source: https://discord.com/developers/docs/topics/opcodes-and-status-codes#json, 2026-11
UNKNOWN_CHANNEL, UNKNOWN_MESSAGE, UNKNOWN_WEBHOOK, UNKNOWN_INTERACTION = 10003, 10008, 10015, 10062
SLOW_MODE, TOO_OLD_TO_EDIT, TOO_LARGE, ALREADY_ACKNOWLEDGED = 20016, 30046, 40005, 40060
NO_ACCESS, NO_DMS, NO_PERMISSION, BAD_TOKEN, BAD_FORM, ARCHIVED = 50001, 50007, 50013, 50027, 50035, 50083
THREAD_EXISTS, TOO_MANY_THREADS = 160004, 160006

FINAL_CLOSES = frozenset({4004, 4010, 4011, 4012, 4013, 4014})  # trying again would only cost identifies

NEEDS: dict[Doing, Sequence[str]] = {
    "send": ("view_channel", "send_messages", "send_messages_in_threads", "embed_links", "attach_files"),
    "edit": ("view_channel", "send_messages_in_threads", "embed_links", "attach_files"),
    "open a thread": ("view_channel", "create_public_threads", "send_messages_in_threads"),
    "read": ("view_channel", "read_message_history"),
    "write privately": (),
}
ALL_NEEDS = tuple(dict.fromkeys(name for names in NEEDS.values() for name in names))

REFUSED_LOGIN = "Discord refuses the bot's token. Put a fresh one from the Developer Portal in its place."
GONE = {
    UNKNOWN_CHANNEL: "The channel or thread does not exist any more, or I cannot see it.",
    UNKNOWN_MESSAGE: "The message was deleted.",
    UNKNOWN_WEBHOOK: "The 15 minutes in which Discord lets me answer privately are over.",
    UNKNOWN_INTERACTION: "Discord waited 3 seconds for my acknowledgement and gave up. Please do it again.",
    BAD_TOKEN: "The 15 minutes in which Discord lets me answer privately are over.",
}
REFUSED: dict[int, tuple[type[AppError], str]] = {
    TOO_LARGE: (BadData, "Discord takes files of 10 MiB at most."),
    ALREADY_ACKNOWLEDGED: (Conflict, "This was acknowledged before."),
    NO_DMS: (NotAllowed, "This person's privacy settings refuse direct messages from me."),
    ARCHIVED: (Conflict, "The thread is archived and locked; somebody with “Manage Threads” has to open it."),
    TOO_MANY_THREADS: (Conflict, "The server has reached Discord's limit of active threads; close some."),
}


def in_words(permission: str) -> str:
    """`send_messages_in_threads` as Discord's settings call it."""
    return f"“{permission.replace('_', ' ').title().replace(' In ', ' in ')}”"


def translated(error: BaseException, doing: Doing, lacking: Sequence[str] = ()) -> AppError:
    """What `error` means for people; `lacking` are the permissions that are known to be missing."""
    match error:
        case discord.RateLimited():
            wait_s = error.retry_after
            return RateLimited(f"Discord asks me to wait for {wait_s:.0f} s.", retry_after_s=wait_s)
        case discord.LoginFailure():
            return AppError(REFUSED_LOGIN)
        case discord.PrivilegedIntentsRequired():
            return AppError(
                "The application lacks the Message Content intent. Switch it on in the Developer Portal under Bot, "
                "or choose mention-only mode."
            )
        case discord.ConnectionClosed() if error.code in FINAL_CLOSES:
            return AppError(f"Discord refuses the connection for good (code {error.code}); check token and intents.")
        case discord.ConnectionClosed():
            return Unavailable(f"Discord closed the connection (code {error.code}).")
        case discord.HTTPException():
            return _of_http(error, doing, lacking)
        case TimeoutError():
            return Unavailable("Discord did not answer in time.")
        case discord.DiscordException():
            return AppError(f"The Discord library refuses to {doing}: {error}")
        case _:
            return Unavailable(f"Discord cannot be reached ({type(error).__name__}).")


def _of_http(error: discord.HTTPException, doing: Doing, lacking: Sequence[str]) -> AppError:
    if error.code == TOO_OLD_TO_EDIT:  # comes with status 429
        return Conflict("Discord allows no more edits of this old message for now.")
    if error.status == 429 or error.code == SLOW_MODE:
        return RateLimited("Discord asks me to wait.", retry_after_s=None)
    if error.status >= 500:
        return Unavailable(f"Discord has trouble of its own (HTTP {error.status}).")
    if error.status == 401 and error.code != BAD_TOKEN:
        return AppError(REFUSED_LOGIN)
    if error.code in (NO_ACCESS, NO_PERMISSION):
        names = ", ".join(in_words(name) for name in (lacking or NEEDS[doing]))
        advice = f" Give my role: {names}." if names else ""
        return NotAllowed(f"I lack a permission to {doing} here.{advice}")
    if error.code in GONE:
        return NotFound(GONE[error.code])
    if error.code in REFUSED:
        kind, text = REFUSED[error.code]
        return kind(text)
    if error.status == 413:
        return BadData(REFUSED[TOO_LARGE][1])
    if error.code == BAD_FORM:
        return BadRequest(f"Discord refuses the form of the message: {error.text}")
    return AppError(f"Discord refuses to {doing}: {error.text or error.status} (code {error.code}).")


FOREIGN = (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError)


@asynccontextmanager
async def speaking(
    doing: Doing,
    *,
    limit_s: float,
    lacking: Callable[[], Sequence[str]] = tuple,
) -> AsyncIterator[None]:
    """Around calls to Discord: a time limit, and foreign exceptions translated."""
    try:
        async with asyncio.timeout(limit_s):
            yield
    except FOREIGN as error:
        raise translated(error, doing, lacking()) from error
