"""The Web API of the local Slack: one function a method, refusing what Slack refuses."""

import json
import mimetypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.platforms.slack_limits import (
    FILE_BYTES,
    MARKDOWN_CHARS,
    POST_TEXT_CHARS,
    STREAM_S,
    UPDATE_TEXT_BYTES,
)
from tests.platforms.slack_world import Channel, File, Message

if TYPE_CHECKING:
    from tests.platforms.slack_server import SlackServer

Params = dict[str, Any]
METHODS: dict[str, Callable[["SlackServer", Params], dict[str, Any]]] = {}


class Refused(Exception):
    """`ok: false`, with further fields of the answer."""

    def __init__(self, error: str, **more: Any) -> None:
        super().__init__(error)
        self.answer = {"ok": False, "error": error, **more}


def method(name: str):
    def register(function):
        METHODS[name] = function
        return function

    return register


def parsed(params: Params, name: str) -> Any:
    """A parameter that comes as JSON or as JSON text."""
    value = params.get(name)
    if isinstance(value, str) and value:
        try:
            return json.loads(value)
        except ValueError:
            raise Refused("invalid_json") from None
    return value


@method("auth.test")
def auth_test(server: "SlackServer", params: Params) -> dict[str, Any]:
    return {
        "url": server.url,
        "team": "Home",
        "user": "trainyard",
        "team_id": server.team_id,
        "user_id": server.bot_user_id,
        "bot_id": server.bot_id,
        "is_enterprise_install": False,
    }


@method("apps.connections.open")
def connections_open(server: "SlackServer", params: Params) -> dict[str, Any]:
    return {"url": server.socket_url()}


@method("views.open")
def open_view(server: "SlackServer", params: Params) -> dict[str, Any]:
    """docs.slack.dev/reference/methods/views.open: a trigger is good for one view."""
    view, trigger = parsed(params, "view"), params.get("trigger_id", "")
    if trigger not in server.triggers:
        raise Refused("expired_trigger_id" if trigger else "invalid_trigger_id")
    fits = view["type"] == "modal" and 1 <= len(view["title"]["text"]) <= 24 and view.get("submit")
    if not fits or len(view.get("private_metadata", "")) > 3_000 or len(view["blocks"]) > 100:
        raise Refused("invalid_arguments")
    person = server.triggers.pop(trigger)
    server.views.append((person, view | {"id": server.next_id("V")}))
    return {"view": server.views[-1][1]}


@method("chat.postMessage")
def post_message(server: "SlackServer", params: Params) -> dict[str, Any]:
    channel = _writable(server, params)
    _thread(server, channel, params)
    blocks, text = _content(server, params)
    message = Message(
        channel.id,
        server.next_ts(),
        server.bot_user_id,
        text[:POST_TEXT_CHARS],
        params.get("thread_ts") or "",
        blocks,
        parsed(params, "metadata") or {},
        unfurl=_flag(params, "unfurl_links", default=True),
    )
    server.add(message)
    return {"channel": channel.id, "ts": message.ts, "message": server.as_event(message)}


@method("chat.update")
def update(server: "SlackServer", params: Params) -> dict[str, Any]:
    channel = _writable(server, params)
    message = _own(server, channel, params, "cant_update_message")
    if message.streaming and not server.stream_is_over(message):
        raise Refused("cant_update_message")
    blocks, text = _content(server, params)
    if len(text.encode()) > UPDATE_TEXT_BYTES:
        raise Refused("msg_too_long")
    message.edits.append((message.text, message.blocks))
    message.text, message.blocks, message.streaming = text, blocks, False
    message.metadata = parsed(params, "metadata") or message.metadata
    server.announce_change(message)
    return {"channel": channel.id, "ts": message.ts, "text": text, "message": server.as_event(message)}


@method("chat.delete")
def delete(server: "SlackServer", params: Params) -> dict[str, Any]:
    channel = _writable(server, params)
    message = _own(server, channel, params, "cant_delete_message")
    message.deleted = True
    return {"channel": channel.id, "ts": message.ts}


@method("chat.postEphemeral")
def post_ephemeral(server: "SlackServer", params: Params) -> dict[str, Any]:
    channel = _writable(server, params)
    blocks, text = _content(server, params)
    if params.get("user") not in {person.id for person in server.people.values()}:
        raise Refused("user_not_in_channel")
    message = Message(
        channel.id,
        server.next_ts(),
        server.bot_user_id,
        text,
        params.get("thread_ts") or "",
        blocks,
        only_for=params["user"],
    )
    server.whispers.append(message)
    return {"message_ts": message.ts}


@method("chat.startStream")
def start_stream(server: "SlackServer", params: Params) -> dict[str, Any]:
    channel = _writable(server, params)
    if not params.get("thread_ts"):
        raise Refused("invalid_arguments")
    _thread(server, channel, params)
    if channel.kind != "im":
        for name in ("recipient_user_id", "recipient_team_id"):
            if not params.get(name):
                raise Refused(f"missing_{name}")
        person = next((p for p in server.people.values() if p.id == params["recipient_user_id"]), None)
        if person is None or person.external:
            raise Refused("user_not_found")
    message = Message(
        channel.id,
        server.next_ts(),
        server.bot_user_id,
        "",
        params["thread_ts"],
        streaming=True,
        stream_ends_at_s=server.now() + STREAM_S * server.time_scale,
    )
    _grow(message, params)
    server.add(message)
    return {"channel": channel.id, "ts": message.ts}


@method("chat.appendStream")
def append_stream(server: "SlackServer", params: Params) -> dict[str, Any]:
    message = _streaming(server, params)
    if not params.get("markdown_text") and not params.get("chunks"):
        raise Refused("invalid_arguments")
    _grow(message, params)
    return {"channel": message.channel, "ts": message.ts}


@method("chat.stopStream")
def stop_stream(server: "SlackServer", params: Params) -> dict[str, Any]:
    message = _streaming(server, params)
    _grow(message, params)
    blocks = parsed(params, "blocks") or []
    if refusal := server.refused(blocks):
        raise _blocks_refused(*refusal)
    message.blocks.extend(blocks)
    message.metadata = parsed(params, "metadata") or {}
    message.streaming = False
    return {"channel": message.channel, "ts": message.ts, "message": server.as_event(message)}


@method("conversations.replies")
def replies(server: "SlackServer", params: Params) -> dict[str, Any]:
    channel = _channel(server, params)
    thread = server.thread(params.get("ts", ""), channel=channel.name)
    if not thread:
        raise Refused("thread_not_found")
    oldest = float(params.get("oldest") or 0)
    return _page(server, [m for m in thread if m is thread[0] or float(m.ts) > oldest], params)


@method("conversations.history")
def history(server: "SlackServer", params: Params) -> dict[str, Any]:
    channel = _channel(server, params)
    oldest = float(params.get("oldest") or 0)
    top = [m for m in server.messages(channel.name) if m.thread_ts in {"", m.ts} and float(m.ts) > oldest]
    return _page(server, top[::-1], params)


@method("users.conversations")
def users_conversations(server: "SlackServer", params: Params) -> dict[str, Any]:
    ours = [
        {"id": c.id, "name": c.name, "is_im": c.kind == "im", "is_ext_shared": c.shared}
        for c in server.channels.values()
        if c.has_bot
    ]
    start, limit = int(params.get("cursor") or 0), int(params.get("limit") or 100)
    following = str(start + limit) if start + limit < len(ours) else ""
    return {"channels": ours[start : start + limit], "response_metadata": {"next_cursor": following}}


@method("conversations.info")
def conversations_info(server: "SlackServer", params: Params) -> dict[str, Any]:
    channel = _channel(server, params)
    return {"channel": {"id": channel.id, "name": channel.name, "is_ext_shared": channel.shared}}


@method("conversations.open")
def conversations_open(server: "SlackServer", params: Params) -> dict[str, Any]:
    person = next((p for p in server.people.values() if p.id == params.get("users")), None)
    if person is None:
        raise Refused("user_not_found")
    return {"channel": {"id": server.direct(person).id}, "already_open": True}


@method("users.info")
def users_info(server: "SlackServer", params: Params) -> dict[str, Any]:
    person = next((p for p in server.people.values() if p.id == params.get("user")), None)
    if person is None:
        raise Refused("user_not_found")
    profile = {"display_name": person.name.title(), "real_name": f"{person.name.title()} of the team"}
    return {"user": {"id": person.id, "team_id": person.team_id, "name": person.name, "profile": profile}}


@method("usergroups.users.list")
def usergroups_users(server: "SlackServer", params: Params) -> dict[str, Any]:
    people = server.groups.get(str(params.get("usergroup")))
    if people is None:
        raise Refused("no_such_subteam")
    return {"users": [server.people[name].id for name in people]}


@method("files.getUploadURLExternal")
def upload_url(server: "SlackServer", params: Params) -> dict[str, Any]:
    if not params.get("filename") or int(params.get("length") or 0) <= 0:
        raise Refused("invalid_arguments")
    if int(params["length"]) > FILE_BYTES:
        raise Refused("file_upload_size_restricted")
    mimetype = mimetypes.guess_type(params["filename"])[0] or "application/octet-stream"
    file = File(server.next_id("F"), params["filename"], b"", mimetype, ready_at_s=float("inf"))
    server.files[file.id] = file
    server.uploads[file.id] = int(params["length"])
    return {"upload_url": f"{server.origin}/upload/v1/{file.id}", "file_id": file.id}


@method("files.completeUploadExternal")
def complete_upload(server: "SlackServer", params: Params) -> dict[str, Any]:
    done = []
    for entry in parsed(params, "files"):
        file = server.files.get(entry["id"])
        if file is None or file.id in server.uploads:
            raise Refused("file_not_found")
        file.ready_at_s = server.now() + server.file_processing_s
        if channel_id := params.get("channel_id"):
            channel = _writable(server, {"channel": channel_id})
            thread_ts = params.get("thread_ts") or ""
            file.shared_in.append((channel.id, thread_ts))
            server.add(Message(channel.id, server.next_ts(), server.bot_user_id, "", thread_ts, files=[file.id]))
        done.append({"id": file.id, "title": entry.get("title", "")})
    return {"files": done}


@method("files.info")
def files_info(server: "SlackServer", params: Params) -> dict[str, Any]:
    file = server.files.get(params.get("file", ""))
    if file is None:
        raise Refused("file_not_found")
    return {"file": server.file_json(file, whole=True)}


@method("files.delete")
def files_delete(server: "SlackServer", params: Params) -> dict[str, Any]:
    if server.files.pop(params.get("file", ""), None) is None:
        raise Refused("file_not_found")
    return {}


@method("blocks.validate")
def validate(server: "SlackServer", params: Params) -> dict[str, Any]:
    if refusal := server.refused(parsed(params, "blocks")):
        raise _blocks_refused(*refusal)
    return {}


@method("agents.sessions.setStatus")
def set_status(server: "SlackServer", params: Params) -> dict[str, Any]:
    if params.get("status") not in {"active", "processing", "suspended", "closed"}:
        raise Refused("invalid_arguments")
    channel = _channel(server, {"channel": params.get("channel_id")})
    _thread(server, channel, params)
    server.statuses.append((channel.id, params.get("thread_ts", ""), params["status"]))
    return {"status": params["status"]}


@method("reactions.add")
def add_reaction(server: "SlackServer", params: Params) -> dict[str, Any]:
    message = _reacted(server, params)
    if params["name"] in message.reactions:
        raise Refused("already_reacted")
    message.reactions.append(params["name"])
    return {}


@method("reactions.remove")
def remove_reaction(server: "SlackServer", params: Params) -> dict[str, Any]:
    message = _reacted(server, params)
    if params["name"] not in message.reactions:
        raise Refused("no_reaction")
    message.reactions.remove(params["name"])
    return {}


def _reacted(server: "SlackServer", params: Params) -> Message:
    message = server.message(_channel(server, params).id, params.get("timestamp", ""))
    if message is None:
        raise Refused("message_not_found")
    return message


def _channel(server: "SlackServer", params: Params) -> Channel:
    channel = next((c for c in server.channels.values() if c.id == params.get("channel")), None)
    if channel is None:
        raise Refused("channel_not_found")
    return channel


def _writable(server: "SlackServer", params: Params) -> Channel:
    channel = _channel(server, params)
    if not channel.has_bot:
        raise Refused("not_in_channel")
    return channel


def _thread(server: "SlackServer", channel: Channel, params: Params) -> None:
    thread_ts = params.get("thread_ts")
    if not thread_ts:
        return
    root = server.message(channel.id, thread_ts)
    if root is None or (root.thread_ts and root.thread_ts != root.ts):
        raise Refused("thread_not_found")


def _own(server: "SlackServer", channel: Channel, params: Params, error: str) -> Message:
    message = server.message(channel.id, params.get("ts", ""))
    if message is None or message.deleted:
        raise Refused("message_not_found")
    if message.user != server.bot_user_id:
        raise Refused(error)
    return message


def _content(server: "SlackServer", params: Params) -> tuple[list[dict[str, Any]], str]:
    blocks, text = parsed(params, "blocks") or [], params.get("text") or ""
    if not blocks and not text:
        raise Refused("no_text")
    if refusal := server.refused(blocks):
        raise _blocks_refused(*refusal)
    return blocks, text


def _blocks_refused(code: str, reason: str) -> Refused:
    return Refused(code, errors=[reason], response_metadata={"messages": [f"[ERROR] {reason}"]})


def _streaming(server: "SlackServer", params: Params) -> Message:
    message = _own(server, _writable(server, params), params, "message_not_owned_by_app")
    if not message.streaming or server.stream_is_over(message):
        message.streaming = False
        raise Refused("message_not_in_streaming_state")
    return message


def _grow(message: Message, params: Params) -> None:
    more = params.get("markdown_text") or ""
    before = message.blocks[0]["text"] if message.blocks else ""
    if len(more) > MARKDOWN_CHARS or len(before) + len(more) > MARKDOWN_CHARS:
        raise Refused("msg_too_long")
    if before or more:
        message.blocks = [{"type": "markdown", "text": before + more}]


def _page(server: "SlackServer", found: list[Message], params: Params) -> dict[str, Any]:
    start, limit = int(params.get("cursor") or 0), min(int(params.get("limit") or 100), 999)
    shown = found[start : start + limit]
    following = str(start + limit) if start + limit < len(found) else ""
    with_metadata = _flag(params, "include_all_metadata", default=False)
    listed = [server.as_event(message, metadata=with_metadata) | server.replies_to(message) for message in shown]
    return {"messages": listed, "has_more": bool(following), "response_metadata": {"next_cursor": following}}


def _flag(params: Params, name: str, *, default: bool) -> bool:
    return str(params.get(name, default)).lower() in {"1", "true"}
