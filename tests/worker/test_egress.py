"""The way out for the policy `hub`: which hosts, which addresses, and from inside of each tier."""

import asyncio
import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agent.domain.errors import Unavailable
from tests.worker.conftest import EACH_TIER, eventually, processes_naming
from worker.egress.gate import HUB_HOSTS, EgressProxy
from worker.egress.proxy import Gate, Proxy, Refused, Rules, resolver, target_of
from worker.sandbox import NoSandbox, Walls, handed_over, wrap


class Target(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "7")
        self.end_headers()
        self.wfile.write(b"weights")

    def log_message(self, *_arguments: Any) -> None:
        """Quiet."""


@pytest.fixture
def target() -> Iterator[int]:
    """A server of the host, without TLS; its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Target)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def said() -> list[Mapping[str, Any]]:
    return []


@pytest.fixture
def proxy(tmp_path: Path, target: int, said: list[Mapping[str, Any]]) -> Iterator[EgressProxy]:
    """Lets through to hub.test, which is the target, and to names with bad addresses."""
    addresses = {
        "hub.test": ["127.0.0.1"],
        "metadata.test": ["169.254.169.254"],
        "mixed.test": ["127.0.0.1", "10.0.0.1"],
        "mapped.test": ["::ffff:192.168.1.1"],
        "nat64.test": ["64:ff9b::a00:1"],
    }
    found = EgressProxy(
        tmp_path / "e.sock",
        allow=[f"{name}:{target}" for name in addresses] + [f"localhost:{target}"],
        inside=["127.0.0.1/32"],
        addresses=addresses,
        log=said.append,
    )
    found.start()
    yield found
    found.stop()


def ask(proxy: EgressProxy, request: bytes, then: bytes = b"") -> bytes:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(str(proxy.socket_path))
        client.sendall(request)
        answer = client.recv(65536)
        if then and b" 200 " in answer:
            client.sendall(then)
            client.shutdown(socket.SHUT_WR)
            while piece := client.recv(65536):
                answer += piece
        return answer


def connect(name: str, port: int) -> bytes:
    return f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode()


def test_an_allowed_host_is_reached_and_written_down(
    proxy: EgressProxy, target: int, said: list[Mapping[str, Any]]
) -> None:
    answer = ask(proxy, connect("HUB.test.", target), b"GET / HTTP/1.0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"weights")
    ended = eventually(lambda: [entry for entry in said if "down" in entry], what="the end in the log")
    assert {"host": "hub.test", "port": target, "allowed": True} in said
    assert ended[0]["down"] > ended[0]["up"] > 0


@pytest.mark.parametrize("name", ["metadata.test", "mixed.test", "mapped.test", "nat64.test"])
def test_a_name_with_a_private_address_is_refused(
    proxy: EgressProxy, target: int, said: list[Mapping[str, Any]], name: str
) -> None:
    answer = ask(proxy, connect(name, target), b"GET / HTTP/1.0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 403")
    assert b"not a public address" in answer
    refused = eventually(lambda: [entry for entry in said if entry.get("allowed") is False])
    assert refused[0]["host"] == name


def test_real_dns_to_the_loopback_is_refused(tmp_path: Path, target: int) -> None:
    proxy = EgressProxy(tmp_path / "e.sock", allow=[f"localhost:{target}"])
    proxy.start()
    try:
        assert b"not a public address" in ask(proxy, connect("localhost", target))
    finally:
        proxy.stop()


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n", b"not on the list"),
        (b"CONNECT hub.test:22 HTTP/1.1\r\n\r\n", b"not on the list"),
        (b"CONNECT 127.0.0.1:443 HTTP/1.1\r\n\r\n", b"not on the list"),
        (b"GET http://hub.test/ HTTP/1.1\r\n\r\n", b"only CONNECT"),
        (b"CONNECT hub.test HTTP/1.1\r\n\r\n", b"no host and port"),
        (b"CONNECT :443 HTTP/1.1\r\n\r\n", b"no host and port"),
        (b"x" * 20000, b"no request"),
    ],
)
def test_anything_else_is_refused(proxy: EgressProxy, request_: bytes, why: bytes) -> None:
    answer = ask(proxy, request_)
    assert answer.startswith(b"HTTP/1.1 403")
    assert why in answer


async def test_a_name_is_resolved_once_and_its_checked_address_is_used(target: int) -> None:
    """DNS that answers differently the second time changes nothing."""
    asked = []

    async def rebinding(host: str) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    rules = Rules((f"hub.test:{target}",), (ipaddress.ip_network("127.0.0.1/32"),))
    gate = Gate(rules, rebinding)
    reader, writer = await gate.connect("hub.test", target)
    assert writer.get_extra_info("peername") == ("127.0.0.1", target)
    assert asked == ["hub.test"]
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    assert (await asyncio.wait_for(reader.read(), 20)).endswith(b"weights")
    writer.close()
    with pytest.raises(Refused, match="not a public address"):
        await gate.connect("hub.test", target)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
     "255.255.255.255", "::1", "::", "fe80::1%eth0", "fd00::1", "fc00::1", "ff02::1", "::ffff:10.0.0.1",
     "64:ff9b::7f00:1", "2002:0a00:0001::1", "240.0.0.1", "192.0.2.1"],
)  # fmt: skip
async def test_only_public_addresses_count(address: str) -> None:
    gate = Gate(Rules(("hub.test",)), resolver({"hub.test": ["93.184.216.34", address]}))
    with pytest.raises(Refused, match="not a public address"):
        await gate.addresses("hub.test", 443)


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("huggingface.co", True),
        ("cdn-lfs-us-1.huggingface.co", True),
        ("cas-bridge.xethub.hf.co", True),
        ("pypi.org", True),
        ("files.pythonhosted.org", True),
        ("evil-huggingface.co", False),
        ("huggingface.co.evil.com", False),
        ("hf.co.evil.com", False),
        ("api.huggingface.co", False),
        ("evil.hf.space", False),
        ("test.pypi.org", False),
    ],
)
async def test_the_list_of_hubs(host: str, allowed: bool) -> None:
    gate = Gate(Rules(tuple(HUB_HOSTS)), resolver({host: ["93.184.216.34"]}))
    if allowed:
        assert await gate.addresses(host, 443) == ["93.184.216.34"]
        with pytest.raises(Refused, match="not on the list"):
            await gate.addresses(host, 80)
    else:
        with pytest.raises(Refused, match="not on the list"):
            await gate.addresses(host, 443)


def test_the_target_of_a_request() -> None:
    assert target_of(b"CONNECT [2001:db8::1]:443 HTTP/1.1\r\n") == ("2001:db8::1", 443)
    assert target_of(b"CONNECT Hub.Test.:8443 HTTP/1.1\r\n") == ("hub.test", 8443)


def test_the_proxy_ends_with_whoever_started_it(tmp_path: Path) -> None:
    place = tmp_path / "e.sock"
    code = (
        "import sys, time, pathlib; from worker.egress.gate import EgressProxy\n"
        f"EgressProxy(pathlib.Path({str(place)!r})).start(); print('up', flush=True); time.sleep(600)"
    )
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"up\n"
    assert len(processes_naming(str(place))) == 2
    owner.kill()
    owner.wait()
    owner.stdout.close()
    eventually(lambda: not processes_naming(str(place)), what="the end of the proxy")


@pytest.mark.parametrize("killed", [False, True])
def test_a_socket_of_its_own_goes_with_the_proxy(killed: bool) -> None:
    proxy = EgressProxy()
    proxy.start()
    place = proxy.socket_path
    assert place.parent.stat().st_mode & 0o077 == 0
    assert proxy.alive
    if killed:
        for pid in processes_naming(str(place)):
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: not proxy.alive)
    proxy.stop()
    assert not place.parent.exists()


def test_a_proxy_that_cannot_start_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="too long"):
        EgressProxy(tmp_path / ("x" * 120)).start()
    proxy = EgressProxy(tmp_path / "missing" / "e.sock")
    with pytest.raises(Unavailable, match="did not start"):
        proxy.start()
    assert not proxy.alive


LOOK = """
import http.client, json, os, socket, sys, urllib.parse
target, outside = int(sys.argv[1]), sys.argv[2]
found = {}
where = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
assert os.environ["https_proxy"] == os.environ["HTTPS_PROXY"]
def through(host, port):
    client = http.client.HTTPConnection(where.hostname, where.port, timeout=20)
    client.set_tunnel(host, port)
    try:
        client.request("GET", "/")
        return client.getresponse().read().decode()
    except OSError as error:
        return str(error)
def tried(act):
    try:
        act()
        return "reached"
    except OSError as error:
        return type(error).__name__
found["allowed"] = [through("hub.test", target) for _ in range(3)]
found["refused"] = through("evil.test", target)
found["direct"] = tried(lambda: socket.create_connection(("127.0.0.1", target), timeout=5))
found["far"] = tried(lambda: socket.create_connection(("192.0.2.1", where.port), timeout=5))
def datagram():
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.settimeout(2)
    made.connect(("192.0.2.1", 53))
    made.send(b"x")
found["datagram"] = tried(datagram)
listening = socket.socket()
found["listen"] = tried(listening.listen)
found["bind"] = tried(lambda: listening.bind(("0.0.0.0", 0)))
own = socket.socket(socket.AF_UNIX)
own.bind("own.sock")
own.listen()
socket.socket(socket.AF_UNIX).connect("own.sock")
own.accept()
found["other socket"] = tried(lambda: socket.socket(socket.AF_UNIX).connect(outside))
print(json.dumps(found))
sys.exit(7)
"""


@EACH_TIER
def test_from_inside_only_the_listed_host_is_reached(
    tier: str, tmp_path: Path, proxy: EgressProxy, target: int, said: list[Mapping[str, Any]]
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    outside = tmp_path / "other.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(outside))
        other.listen()
        argv = [sys.executable, "-I", "-c", LOOK, str(target), str(outside)]
        command = wrap(tier, argv, Walls(folder, network="hub", egress=proxy.socket_path, env={"LANG": "C.UTF-8"}))
        with handed_over(command) as (full, files):
            done = subprocess.run(
                full, env=dict(command.env or {}), cwd=folder, pass_fds=files, capture_output=True, text=True,
                timeout=120, check=False,
            )  # fmt: skip
    assert done.returncode == 7, done.stderr
    found = json.loads(done.stdout)
    assert found["allowed"] == ["weights"] * 3
    assert "403" in found["refused"]
    if tier == "landlock":  # in bubblewrap the loopback is its own
        assert (found["listen"], found["bind"]) == ("PermissionError", "PermissionError")
    for name in ("direct", "far", "datagram", "other socket"):
        assert found[name] != "reached", name
    assert any(entry.get("host") == "evil.test" and entry.get("allowed") is False for entry in said)


def test_the_forwarder_ends_as_its_program_ends(tmp_path: Path) -> None:
    from worker.egress import forward

    def ended(code: str, number: int | None = None) -> int:
        head = [sys.executable, "-I", "-S", forward.__file__, str(tmp_path / "none.sock"), "0", "--"]
        process = subprocess.Popen([*head, sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        if number is not None:
            process.send_signal(number)
        result = process.wait(60)
        process.stdout.close()
        return result

    assert ended("import sys; sys.exit(5)") == 5
    assert ended("import os; os.kill(os.getpid(), 9)") == -signal.SIGKILL
    handler = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))"
    handled = f"import signal, sys, time; {handler}; print(flush=True)\nwhile True: time.sleep(0.01)"
    assert ended(handled, signal.SIGTERM) == 9
    assert ended("import time; print(flush=True); time.sleep(60)", signal.SIGTERM) == -signal.SIGTERM
    assert processes_naming(str(tmp_path / "none.sock")) == []


@pytest.mark.parametrize("tier", ["bwrap", "landlock"])
def test_without_a_proxy_there_is_no_way_out(tier: str, tmp_path: Path) -> None:
    with pytest.raises(NoSandbox, match="hub"):
        wrap(tier, ["true"], Walls(tmp_path, network="hub"))
    assert list(tmp_path.iterdir()) == []


async def test_a_long_download_is_not_idle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever downloads sends nothing for minutes; only a connection on which nothing moves at all is closed."""
    monkeypatch.setattr("worker.egress.proxy._IDLE_S", 1.0)

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        for _ in range(15):
            writer.write(b"weights")
            await writer.drain()
            await asyncio.sleep(0.2)
        await reader.read()  # and then nothing, until the other side goes
        writer.close()

    said: list[dict[str, Any]] = []
    server = await asyncio.start_server(pour, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    rules = Rules((f"hub.test:{port}",), (ipaddress.ip_network("127.0.0.1/32"),))
    between = Proxy(Gate(rules, resolver({"hub.test": ["127.0.0.1"]})), said.append)
    gate = await asyncio.start_unix_server(between.serve, str(tmp_path / "p.sock"))
    async with server, gate, asyncio.timeout(30):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "p.sock"))
        writer.write(connect("hub.test", port))
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"GET\n")
        assert await reader.read(-1) == b"weights" * 15
        writer.close()
    assert said[-1]["broke"] == "too slow"
