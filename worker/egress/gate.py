"""Starts and ends the allowlist proxy of one attempt, and hands on what it reports.

Owns the process and the list of hubs. Knows nothing of runs. Called by the supervisor for the network policy `hub`.
"""

import json
import logging
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.domain.errors import Unavailable

# The Hub, the stores that it sends downloads to, and the package index.
HUB_HOSTS = ("huggingface.co", "hf.co", "*.hf.co", "cdn-lfs*.huggingface.co", "pypi.org", "files.pythonhosted.org")
_SCRIPT = Path(__file__).with_name("proxy.py")
_READY_S = 10.0
_END_S = 5.0
_LONGEST_SOCKET = 107  # bytes of a unix socket's path

log = logging.getLogger(__name__)


class EgressProxy:
    """A proxy behind the unix socket `socket_path`, by default one in a private folder. Ends with this process at the
    latest.
    """

    def __init__(
        self,
        socket_path: Path | None = None,
        *,
        allow: Sequence[str] = HUB_HOSTS,
        inside: Sequence[str] = (),
        addresses: Mapping[str, Sequence[str]] | None = None,
        log: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        """`allow`: `host` or `host:port`, with `*` for any characters; `inside`: networks (as 10.1.0.0/16) that it may
        reach though they are not public, such as a mirror's; `addresses`: fixed addresses of names, instead of DNS.

        `log` gets each decision, in a thread of its own: `host`, `port`, `allowed`, and `why` or at the end `up` and
        `down` in bytes.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="trainyard-")) if socket_path is None else None
        self.socket_path = socket_path or (self._folder or Path()) / "egress.sock"
        self._config = {
            "socket": str(self.socket_path),
            "folder": str(self._folder or ""),
            "allow": list(allow),
            "inside": list(inside),
            "addresses": {name: list(found) for name, found in (addresses or {}).items()},
        }
        self._log = log or _to_log
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def start(self) -> None:
        """Returns when connections are taken. Raises: Unavailable."""
        if len(str(self.socket_path).encode()) > _LONGEST_SOCKET:
            raise Unavailable(f"The proxy cannot start: the path {self.socket_path} is too long for a socket.")
        self.socket_path.unlink(missing_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SCRIPT), json.dumps(self._config)],
            env={"LANG": "C.UTF-8"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._process = process
        stdout = process.stdout
        if stdout is None or not select.select([stdout], [], [], _READY_S)[0] or not stdout.readline():
            self.stop()
            raise Unavailable("The proxy to the model hubs did not start, so the run's network policy cannot be kept.")
        self._reader = threading.Thread(target=self._read, args=(process,), name="egress", daemon=True)
        self._reader.start()

    @property
    def alive(self) -> bool:
        """Whether it still serves."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End it, its connections too. Does nothing where there is none."""
        process, self._process = self._process, None
        if process is not None:
            self._end(process)
        self.socket_path.unlink(missing_ok=True)
        if self._folder is not None and self._folder.exists():
            self._folder.rmdir()

    def _end(self, process: "subprocess.Popen[str]") -> None:
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._reader is not None:
            self._reader.join(_END_S)
        if process.stdout is not None:
            process.stdout.close()

    def _read(self, process: "subprocess.Popen[str]") -> None:
        for line in process.stdout or ():
            self._log(json.loads(line))


def _to_log(said: Mapping[str, Any]) -> None:
    if said.get("allowed") is False:
        log.warning("egress_refused host=%s port=%s why=%s", said.get("host"), said.get("port"), said.get("why"))
    elif "allowed" in said:
        log.info("egress host=%s port=%s", said.get("host"), said.get("port"))
