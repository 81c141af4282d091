"""The gateway side of the local Discord: identify, heartbeats, dispatch, resume with replay, invalid sessions."""

import asyncio
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web

from tests.platforms.discord_world import Json, World

DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID, HELLO, ACK = 0, 1, 2, 6, 7, 9, 10, 11
MESSAGE_CONTENT = 1 << 15
HEARTBEAT_MS = 41250


@dataclass
class Session:
    """One identified client; `events` are kept for a resume."""

    id: str
    intents: int
    events: list[tuple[int, str, Json]] = field(default_factory=list)
    socket: web.WebSocketResponse | None = None
    seq: int = 0


class Gateway:
    """All sessions. Sends are queued per session, so that `tell` is synchronous and order is kept."""

    def __init__(self, world: World, url: Callable[[], str]) -> None:
        self._world = world
        self._url = url
        self.sessions: dict[str, Session] = {}
        self.identifies = 0
        self.resumes = 0
        self.heartbeats = 0
        self.open = asyncio.Event()
        self.open.set()
        self._sockets: set[web.WebSocketResponse] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        world.tell = self.tell

    def tell(self, event: str, data: Json) -> None:
        """Dispatch to every session; those without a socket get it when they resume."""
        for session in self.sessions.values():
            self._push(session, event, _as_seen(event, data, session, self._world))

    def _push(self, session: Session, event: str, data: Json) -> None:
        session.seq += 1
        session.events.append((session.seq, event, data))
        if session.socket is not None:
            self._send(session.socket, {"op": DISPATCH, "t": event, "s": session.seq, "d": data})

    def _send(self, socket: web.WebSocketResponse, payload: Json) -> None:
        text = json.dumps(payload)

        async def write() -> None:
            if not socket.closed:
                try:
                    await socket.send_str(text)
                except ConnectionError:
                    return

        task = asyncio.get_running_loop().create_task(write())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def drop(self) -> None:
        """Cut all connections without a word, as a network does."""
        for socket in list(self._sockets):
            await socket.close(code=4000)
        for session in self.sessions.values():
            session.socket = None

    def forget(self) -> None:
        """Lose all sessions: the next resume is answered with "invalid session"."""
        self.sessions.clear()

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        """One connection."""
        socket = web.WebSocketResponse(max_msg_size=4096)
        await socket.prepare(request)
        self._sockets.add(socket)
        await self.open.wait()
        self._send(socket, {"op": HELLO, "d": {"heartbeat_interval": HEARTBEAT_MS}})
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    await self._receive(socket, json.loads(message.data))
        finally:
            self._sockets.discard(socket)
            for session in self.sessions.values():
                if session.socket is socket:
                    session.socket = None
        return socket

    async def _receive(self, socket: web.WebSocketResponse, payload: Json) -> None:
        match payload["op"]:
            case 1:
                self.heartbeats += 1
                self._send(socket, {"op": ACK})
            case 2:
                await self._identify(socket, payload["d"])
            case 6:
                await self._resume(socket, payload["d"])
            case 3 | 4 | 8:
                return
            case _:
                await socket.close(code=4001)

    async def _identify(self, socket: web.WebSocketResponse, data: Json) -> None:
        self.identifies += 1
        if data["token"] != self._world.token:
            await socket.close(code=4004)
            return
        if data["intents"] & MESSAGE_CONTENT and not self._world.message_content:
            await socket.close(code=4014)
            return
        session = Session(secrets.token_hex(8), data["intents"], socket=socket)
        self.sessions[session.id] = session
        self._push(
            session,
            "READY",
            {
                "v": 10,
                "user": self._world.bot.user(),
                "session_id": session.id,
                "resume_gateway_url": self._url(),
                "guilds": [{"id": str(self._world.guild_id), "unavailable": True}],
                "private_channels": [],
                "application": {"id": str(self._world.bot.id), "flags": 0},
                "shard": [0, 1],
            },
        )
        self._push(session, "GUILD_CREATE", self._world.guild())
        self._world.touch()

    async def _resume(self, socket: web.WebSocketResponse, data: Json) -> None:
        session = self.sessions.get(str(data["session_id"]))
        if session is None or data["token"] != self._world.token:
            self._send(socket, {"op": INVALID, "d": False})
            return
        self.resumes += 1
        for seq, event, missed in session.events:
            if seq > data["seq"]:
                self._send(socket, {"op": DISPATCH, "t": event, "s": seq, "d": missed})
        session.socket = socket
        self._push(session, "RESUMED", {})
        self._world.touch()

    @property
    def connected(self) -> bool:
        """Whether a client listens."""
        return any(session.socket is not None for session in self.sessions.values())


def _as_seen(event: str, data: Json, session: Session, world: World) -> Json:
    """Without the Message Content intent, words that are not for the bot arrive empty."""
    if not event.startswith("MESSAGE_") or session.intents & MESSAGE_CONTENT or "content" not in data:
        return data
    named = any(person["id"] == str(world.bot.id) for person in data["mentions"])
    if named or "guild_id" not in data or data["author"]["id"] == str(world.bot.id):
        return data
    return {**data, "content": "", "embeds": [], "attachments": [], "components": []}
