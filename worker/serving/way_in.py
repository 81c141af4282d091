"""The way in to a model that a host keeps up: a listening socket, opened outside of the sandbox for the server within.

Owns socket, address and the token of this host itself. The server gets the socket as an open file, so that it needs no
network of its own. Opened by `worker.supervisor.stage` for the step that serves.
"""

import contextlib
import hashlib
import json
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ValidationError

from worker.folders import RunFolder, write_atomically

EARLY_S = 10.0  # the server ends itself so long before its hours are over, and has then succeeded
TOLD = "TRAINYARD_SERVING"  # the environment variable that tells the server the rest, as JSON


class Endpoint(BaseModel):
    """Where a served model answers this host: `port` at `address`, to who sends `token`."""

    address: str
    port: int
    token: str


def endpoint_file(folder: RunFolder) -> Path:
    """Where it is written down, out of the server's own reach."""
    return folder.sealed / "serving.json"


def endpoint_of(folder: RunFolder) -> Endpoint | None:
    """That of a run, where it serves one or did."""
    try:
        return Endpoint.model_validate_json(endpoint_file(folder).read_bytes())
    except (OSError, ValidationError):
        return None


def digest_of(token: str) -> str:
    """What is compared instead of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


class WayIn:
    """One attempt's socket. The port is that of the attempt before, where it is free."""

    def __init__(self, folder: RunFolder, address: str, token_sha256: str, *, run: str, left_s: float) -> None:
        """`token_sha256` is of people's token, `run` whose model it is; `left_s` are the seconds that are paid for."""
        before = endpoint_of(folder)
        self._listener = _listen(address, before.port if before else 0)
        self._folder = folder
        port = self._listener.getsockname()[1]
        own = secrets.token_urlsafe(24)
        folder.sealed.mkdir(parents=True, exist_ok=True, mode=0o700)
        endpoint = Endpoint(address=address, port=port, token=own)
        write_atomically(endpoint_file(folder), endpoint.model_dump_json().encode(), durable=False)
        self.fd = self._listener.fileno()
        self.url = f"http://{address}:{port}"
        told = {"fd": self.fd, "run": run, "seconds": max(1.0, left_s - EARLY_S)}
        self.environment: Mapping[str, str] = {TOLD: json.dumps(told | {"digests": [token_sha256, digest_of(own)]})}

    def close(self) -> None:
        """The address answers no more."""
        self._listener.close()


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.suppress(OSError):
        return socket.create_server((address, port), family=family)
    return socket.create_server((address, 0), family=family)
