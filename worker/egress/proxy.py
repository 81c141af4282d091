"""`python -I -S proxy.py CONFIG`: an HTTP proxy on a unix socket that only connects to hosts of a list.

CONFIG is JSON: `socket` (path), `folder` (to be removed with it, or ""), `allow` (`host` or `host:port`, `*` for any
characters, port 443 where none is given), `inside` (networks that are allowed though they are not public),
`addresses` (host: addresses, instead of DNS). Takes CONNECT and nothing else, resolves a name once, refuses it when
any of its addresses is not public, and connects to an address that was checked. Prints one JSON line for each
decision and each end; ends when its input ends, which is when the supervisor does. Standard library only. It sees
host names and byte counts, never what is inside of TLS: whoever may reach a hub can also upload there. Started by
`worker.egress.gate`.
"""

import asyncio
import contextlib
import fnmatch
import ipaddress
import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_HEAD_BYTES = 8 * 1024
_HEAD_S = 10.0
_CONNECT_S = 10.0
_IDLE_S = 300.0
_CONNECTIONS = 128
_CHUNK = 64 * 1024
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str], Awaitable[Sequence[str]]]


class Refused(Exception):
    """A connection that is not made; why."""


@dataclass(frozen=True)
class Rules:
    """What may be reached."""

    allow: tuple[str, ...]
    inside: tuple[Network, ...] = ()

    def check_host(self, host: str, port: int) -> None:
        """Raises: Refused."""
        for entry in self.allow:
            name, _, number = entry.partition(":")
            if fnmatch.fnmatchcase(host, name) and port == int(number or 443):
                return
        raise Refused(f"{host}:{port} is not on the list")

    def check_address(self, text: str) -> None:
        """Only public addresses, whatever a name says: no machine nearby, no cloud's metadata. Raises: Refused."""
        address = _unwrapped(ipaddress.ip_address(text.partition("%")[0]))
        if any(address in network for network in self.inside):
            return
        if not address.is_global or address.is_multicast or address.is_reserved:
            raise Refused(f"{address} is not a public address")


def _unwrapped(address: Address) -> Address:
    """The IPv4 address inside of an IPv6 one, where it is only another way to write it."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        return address.ipv4_mapped or address.sixtofour or address
    return address


class Gate:
    """Decides about one connection and makes it."""

    def __init__(self, rules: Rules, resolve: Resolve) -> None:
        """`resolve` gives the addresses of a name and raises OSError."""
        self._rules, self._resolve = rules, resolve

    async def addresses(self, host: str, port: int) -> Sequence[str]:
        """Where a host may be connected to. Raises: Refused."""
        self._rules.check_host(host, port)
        try:
            found = await self._resolve(host)
        except OSError as error:
            raise Refused(f"{host} has no address ({error})") from error
        if not found:
            raise Refused(f"{host} has no address")
        for address in found:
            self._rules.check_address(address)
        return found

    async def connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """To the first checked address that answers; the name is not resolved again. Raises: Refused."""
        failure = ""
        for address in await self.addresses(host, port):
            try:
                return await asyncio.wait_for(asyncio.open_connection(address, port), _CONNECT_S)
            except (OSError, TimeoutError) as error:
                failure = str(error)
        raise Refused(f"{host} does not answer ({failure or 'too slow'})")


def target_of(head: bytes) -> tuple[str, int]:
    """Host and port of a CONNECT request. Raises: Refused."""
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    if len(words) != 3 or words[0] != "CONNECT":
        raise Refused("only CONNECT is allowed here, that is https; plain http is not")
    host, _, port = words[1].rpartition(":")
    host = host.strip("[]").rstrip(".").lower()
    if not host or not port.isdigit() or not host.isascii():
        raise Refused("the request names no host and port")
    return host, int(port)


class Proxy:
    """Serves connections of one sandbox."""

    def __init__(self, gate: Gate, say: Callable[[dict[str, Any]], None]) -> None:
        """`say` takes one decision or end at a time."""
        self._gate, self._say = gate, say
        self._open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client, from its request to its end."""
        self._open += 1
        said: dict[str, Any] = {}
        try:
            host, port = await self._wanted(reader)
            said |= {"host": host, "port": port}
            there = await self._gate.connect(host, port)
            self._say({**said, "allowed": True})
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            up, down = await _both_ways((reader, writer), there)
            self._say({**said, "up": up, "down": down})
        except Refused as why:
            self._say({**said, "allowed": False, "why": str(why)})
            await _refuse(writer, str(why))
        except (OSError, TimeoutError) as error:
            self._say({**said, "broke": str(error) or "too slow"})
        finally:
            self._open -= 1
            await _close(writer)

    async def _wanted(self, reader: asyncio.StreamReader) -> tuple[str, int]:
        if self._open > _CONNECTIONS:
            raise Refused("too many connections at a time")
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_S)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            raise Refused("that was no request") from None
        return target_of(head)


async def _refuse(writer: asyncio.StreamWriter, why: str) -> None:
    body = f"Trainyard's proxy: {why}. The network policy of this run allows model hubs only.\n".encode()
    head = f"HTTP/1.1 403 Forbidden\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with contextlib.suppress(OSError):
        writer.write(head.encode() + body)
        await writer.drain()


Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _both_ways(here: Pair, there: Pair) -> tuple[int, int]:
    """Copy until both sides have ended, or nothing has moved for long; bytes up and down."""
    try:
        async with asyncio.timeout(_IDLE_S) as idle:  # of both together: who downloads for long says nothing meanwhile
            up, down = await asyncio.gather(_copy(here[0], there[1], idle), _copy(there[0], here[1], idle))
        return up, down
    finally:
        await _close(there[1])


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter, idle: asyncio.Timeout) -> int:
    moved, clock = 0, asyncio.get_running_loop().time
    while data := await source.read(_CHUNK):
        sink.write(data)
        await sink.drain()
        moved += len(data)
        idle.reschedule(clock() + _IDLE_S)
    if sink.can_write_eof():
        sink.write_eof()
    return moved


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def resolver(fixed: Mapping[str, Sequence[str]]) -> Resolve:
    """DNS, but for the names in `fixed`."""

    async def resolve(host: str) -> Sequence[str]:
        if host in fixed:
            return fixed[host]
        loop = asyncio.get_running_loop()
        found = await asyncio.wait_for(loop.getaddrinfo(host, None, type=socket.SOCK_STREAM), _CONNECT_S)
        return [str(entry[4][0]) for entry in found]

    return resolve


async def _run(config: Mapping[str, Any]) -> None:
    rules = Rules(tuple(config["allow"]), tuple(ipaddress.ip_network(text) for text in config["inside"]))
    proxy = Proxy(Gate(rules, resolver(config["addresses"])), _say)
    os.umask(0o077)
    server = await asyncio.start_unix_server(proxy.serve, config["socket"], limit=_HEAD_BYTES)
    _say({"ready": True})
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(0, lambda: None if os.read(0, 64) else ended.set())
    try:
        async with server:
            await ended.wait()
    finally:
        with contextlib.suppress(OSError):
            os.unlink(config["socket"])  # noqa: PTH108 - quick, and nobody else is left to do it
        if config["folder"]:
            with contextlib.suppress(OSError):
                os.rmdir(config["folder"])  # noqa: PTH106 - likewise


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_run(json.loads(sys.argv[1])))
