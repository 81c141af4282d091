"""What a process that waits for requests does with its socket: listens on it, takes one message with open files.

Owns who may ask: this user alone, and messages of a size. Knows nothing of what is asked. Standard library only, and
loaded by its path in the zygote: that must hold no module of ours. Called by `worker.warm.zygote` and
`worker.supervisor.waiting`.
"""

import array
import json
import os
import socket
import struct
from typing import Any

_MESSAGE_BYTES = 180_000
_REQUEST_LIMIT_S = 5.0


def listen(path: str, *, waiting: int) -> socket.socket:
    """A socket at `path` that only this user can open; as many as `waiting` may wait. The folder becomes `/`.

    Raises: OSError, among others where something lies at `path`.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folder, name = os.path.split(path)
    os.chdir(folder)  # the kernel takes 107 bytes of a socket's path
    mask = os.umask(0o177)
    listener.bind(name)
    os.umask(mask)
    os.chdir("/")
    listener.listen(waiting)
    return listener


def receive(
    connection: socket.socket, *, keys: frozenset[str], most_files: int
) -> tuple[dict[str, Any] | None, list[int]]:
    """One JSON object that has all of `keys`, from somebody who is this user; None for anything else.

    And the files that came with it, request or not: they are the caller's to close.
    """
    connection.settimeout(_REQUEST_LIMIT_S)
    files = array.array("i")
    try:
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        if struct.unpack("3i", peer)[1] != os.geteuid():
            return None, []
        said, extra, _, _ = connection.recvmsg(_MESSAGE_BYTES, socket.CMSG_SPACE(most_files * files.itemsize))
        for level, kind, data in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                files.frombytes(data[: len(data) - len(data) % files.itemsize])
        request = json.loads(said)
    except (OSError, ValueError):
        return None, list(files)
    return (request if isinstance(request, dict) and keys <= request.keys() else None), list(files)
