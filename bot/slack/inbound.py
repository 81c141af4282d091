"""From what Slack delivers to `Inbound`. Pure: one function a kind of delivery, None for what is not for us.

Slack delivers one mention twice, as `app_mention` and as `message`, with different event ids; both carry the same
`twin`.
"""

import html
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agent.commands.words import split
from agent.domain.content import END_ANSWER
from agent.domain.inbound import Attachment, Clicked, Commanded, Inbound, Person, Said, Thread
from agent.domain.redaction import without_secrets
from bot.menus import chosen
from bot.slack.dialogs import submitted

Payload = Mapping[str, Any]

SPOKEN = {"", "file_share", "thread_broadcast", "me_message"}  # subtypes of `message` that a person has said
MARKUP = re.compile(r"<([^<>|]+)(?:\|([^<>]*))?>")
BANG = "!train"
STOPPED = "agent_session_stopped"
DIRECT = "D"  # how the ids of direct messages begin


@dataclass(frozen=True, slots=True)
class Self:
    """Who we are in this workspace."""

    user_id: str
    bot_id: str
    team_id: str
    enterprise_id: str = ""  # where the app is installed for a whole organisation


def sender_of(body: Payload, me: Self) -> str:
    """The workspace that a delivery is of where it is another one than ours, else empty."""
    if body.get("type") == "event_callback":
        team = _tenant(body, me)
    else:
        team = str(body.get("team_id") or (body.get("team") or {}).get("id") or me.team_id)
    enterprise = body.get("enterprise_id") or (body.get("enterprise") or {}).get("id")
    ours = team == me.team_id or bool(me.enterprise_id and enterprise == me.enterprise_id)
    return "" if ours else team


def interpret(body: Payload, me: Self) -> Inbound | None:
    """What a person did, or None."""
    if body.get("type") == "event_callback":
        event = body.get("event") or {}
        return _stopped(body, event, me) if event.get("type") == STOPPED else _event(body, event, me)
    if "command" in body:
        return _command(body, me)
    if body.get("type") == "block_actions":
        return _click(body, me)
    if body.get("type") == "view_submission":
        return submitted(body, tenant=str((body.get("team") or {}).get("id") or me.team_id))
    return None


def plain_text(text: str, *, me: str) -> str:
    """Slack's markup as the person saw it, without the mention of us."""

    def shown(found: re.Match[str]) -> str:
        target, label = found.group(1), found.group(2) or ""
        if target == f"@{me}":
            return ""
        if target[0] in "@#":
            return target[0] + (label or target[1:]).lstrip("@#")
        if target[0] == "!":
            return label or "@" + target[1:].split("^", 1)[0]
        address = target.removeprefix("mailto:")
        return address if label in {"", address} or address.endswith("//" + label) else f"{label} ({address})"

    return html.unescape(MARKUP.sub(shown, text)).strip()


def _event(body: Payload, event: Payload, me: Self) -> Inbound | None:
    if event.get("type") not in {"app_mention", "message"} or event.get("subtype", "") not in SPOKEN:
        return None
    person = event.get("user")
    if not person or person == me.user_id or event.get("bot_id") or event.get("hidden"):
        return None
    ts, channel = str(event.get("ts", "")), str(event.get("channel", ""))
    text = plain_text(str(event.get("text", "")), me=me.user_id)
    words = split(text)
    banged = bool(words) and words[0].lower() == BANG
    named = event["type"] == "app_mention" or banged or event.get("channel_type") == "im" or _names(event, me.user_id)
    if not ts or not channel or not (named or event.get("thread_ts")):
        return None
    tenant = _tenant(body, me)
    # Direct messages are one conversation, but for threads that people or the platform make in them.
    thread_id = str(event.get("thread_ts") or ("" if event.get("channel_type") == "im" else ts))
    files = tuple(_attachment(file) for file in event.get("files") or ())
    external = bool(body.get("is_ext_shared_channel")) and (event.get("user_team") or event.get("team")) != tenant
    return Inbound(
        event_id=str(body.get("event_id", "")),
        twin=f"{channel}:{ts}",
        thread=Thread(platform="slack", tenant=tenant, channel=channel, thread_id=thread_id),
        person=Person(platform="slack", tenant=tenant, id=str(person), name=_name(event), external=external),
        act=Commanded(words=words[1:]) if banged and not files else Said(text=text, attachments=files),
        mentions_bot=named,
        at=_when(ts),
    )


def _stopped(body: Payload, event: Payload, me: Self) -> Inbound:
    """The Stop button that Slack shows beside our status; whose guest it was in a shared channel, it does not say."""
    tenant, channel = _tenant(body, me), str(event["channel"])
    external = bool(body.get("is_ext_shared_channel"))
    return Inbound(
        event_id=str(body.get("event_id", "")),
        thread=Thread(platform="slack", tenant=tenant, channel=channel, thread_id=str(event.get("thread_ts", ""))),
        person=Person(platform="slack", tenant=tenant, id=str(event["user"]), external=external),
        act=Clicked(action=END_ANSWER.action, subject=END_ANSWER.subject),
        at=_when(str(event.get("event_ts", ""))),
    )


def _command(body: Payload, me: Self) -> Inbound:
    tenant = str(body.get("team_id") or me.team_id)
    person = Person(
        platform="slack",
        tenant=tenant,
        id=str(body["user_id"]),
        name=str(body.get("user_name", "")),
    )
    return Inbound(
        event_id=str(body["trigger_id"]),
        thread=Thread(platform="slack", tenant=tenant, channel=str(body["channel_id"])),
        person=person,
        act=Commanded(words=split(plain_text(str(body.get("text", "")), me=me.user_id))),
        reply_handle=str(body.get("response_url", "")),
        at=datetime.now(UTC),
    )


def _click(body: Payload, me: Self) -> Inbound | None:
    action: Payload = next(iter(body.get("actions") or ()), {})
    act = _chosen(action) if action.get("type") == "multi_static_select" else _pressed(action)
    if act is None:
        return None
    user, container = body.get("user") or {}, body.get("container") or {}
    message, channel = body.get("message") or {}, body.get("channel") or {}
    tenant = str((body.get("team") or {}).get("id") or me.team_id)
    ts = str(container.get("message_ts") or message.get("ts") or "")
    place = str(channel.get("id") or container.get("channel_id") or "")
    alone = container.get("is_ephemeral") or place.startswith(DIRECT)
    thread_id = message.get("thread_ts") or container.get("thread_ts") or ("" if alone else ts)
    action_ts = str(action.get("action_ts", ""))
    return Inbound(
        event_id=f"{ts}:{action_ts}:{user.get('id', '')}",
        thread=Thread(
            platform="slack",
            tenant=tenant,
            channel=place,
            thread_id=str(thread_id),
        ),
        person=Person(
            platform="slack",
            tenant=tenant,
            id=str(user.get("id", "")),
            name=str(user.get("name") or user.get("username") or ""),
            external=str(user.get("team_id") or tenant) != tenant,
        ),
        act=act,
        reply_handle=str(body.get("response_url", "")),
        at=_when(action_ts),
    )


def _pressed(action: Payload) -> Clicked | None:
    version, _, rest = str(action.get("value", "")).partition(":")
    parts = rest.split(":")
    if version != "v1" or len(parts) != 3:
        return None
    return Clicked(action=parts[0], subject=parts[1], digest=parts[2])


def _chosen(action: Payload) -> Clicked | None:
    """A choice in a menu, in the order in which it was made."""
    options = action.get("selected_options") or ()
    values = [option.get("value") if isinstance(option, dict) else None for option in options]
    return chosen(str(action.get("action_id", "")), values)


def _tenant(body: Payload, me: Self) -> str:
    """The workspace that has installed us, which in a shared channel need not be the author's."""
    installed: Payload = next(iter(body.get("authorizations") or ()), {})
    return str(installed.get("team_id") or body.get("context_team_id") or body.get("team_id") or me.team_id)


def _attachment(file: Payload) -> Attachment:
    url = "" if file.get("file_access") == "check_file_info" else str(file.get("url_private_download") or "")
    if without_secrets(url)[1]:
        url = ""  # asked for again when the file is fetched
    return Attachment(
        id=str(file.get("id", "")),
        name=str(file.get("name") or file.get("title") or file.get("id") or "file"),
        size_bytes=int(file.get("size") or 0),
        media_type=str(file.get("mimetype") or ""),
        locator=json.dumps({"id": file.get("id", ""), "url": url}),
    )


def _names(event: Payload, me: str) -> bool:
    """A mention in the text, or one that stands only in the rich text; quotes do not count."""
    return f"<@{me}" in str(event.get("text", "")) or any(
        node.get("type") == "user" and node.get("user_id") == me for node in _nodes(event.get("blocks") or [])
    )


def _nodes(node: object) -> Iterator[Payload]:
    if isinstance(node, list):
        for child in node:
            yield from _nodes(child)
    elif isinstance(node, dict) and node.get("type") != "rich_text_quote":
        yield node
        yield from _nodes(node.get("elements"))


def _name(event: Payload) -> str:
    profile = event.get("user_profile") or {}
    return str(profile.get("display_name") or profile.get("real_name") or "")


def posted_at(ts: str) -> datetime | None:
    """When a message was posted, by Slack's clock; None for what is no address of a message."""
    try:
        return datetime.fromtimestamp(float(ts), UTC)
    except ValueError:
        return None


def _when(ts: str) -> datetime:
    return posted_at(ts) or datetime.now(UTC)
