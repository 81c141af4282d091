"""Which orders a host believes: those that carry a signature by the bot's launch key.

Owns the check, the sentences of its refusals, and the file that remembers the last one for the host beat. Knows no
order's meaning. Called by `worker.launches.launching` and `worker.tasks`: whoever can write to Redis could otherwise
start code here, stop runs of others, or read their data.
"""

import contextlib
import time
from datetime import UTC, datetime
from pathlib import Path

from agent.domain.errors import AppError
from agent.domain.orders import FetchOrder, InspectOrder, LaunchOrder, LookOrder, PredictOrder, SignedOrder, StopOrder
from agent.domain.runs import ExitClass
from worker.client.keys import is_signed
from worker.folders import HostFolder, write_atomically

_ALERT_S = 3600.0


class Refused(AppError):
    """This host does not carry out the order. `final` when the attempt is over with that: nobody else will try it."""

    def __init__(self, text: str, *, final: bool = False, exit_class: ExitClass = ExitClass.USER_ERROR) -> None:
        """`text` goes to the thread; `exit_class` decides whether another attempt may help."""
        super().__init__(text)
        self.final, self.exit_class = final, exit_class


def require_signature(
    order: SignedOrder,
    public: Path,
    *,
    host: str,
    home: HostFolder,
) -> None:
    """Raises `Refused` unless the order was signed with the key whose public half lies in `public` on this host.

    What is refused is remembered in `home` for an hour, so that people hear of it whoever had sent it.
    """
    try:
        _require(order, public, host=host)
    except Refused as refusal:
        with contextlib.suppress(OSError):  # a full disk must not turn a refusal into something else
            home.path.mkdir(parents=True, exist_ok=True)
            text = f"At {datetime.now(UTC):%H:%M} UTC an order that nobody had signed came here. {refusal.text}"
            write_atomically(_remembered(home), text.encode())
        raise


def last_refusal(home: HostFolder) -> str:
    """A sentence about the last order of the past hour that was not signed; empty when there was none."""
    path = _remembered(home)
    try:
        return path.read_text() if time.time() - path.stat().st_mtime < _ALERT_S else ""
    except FileNotFoundError:
        return ""


def _remembered(home: HostFolder) -> Path:
    return home.path / "unsigned.txt"


def _require(order: SignedOrder, public: Path, *, host: str) -> None:
    what = _WHAT[type(order)]
    try:
        signed = is_signed(order, public)
    except (OSError, ValueError):
        raise Refused(f"Host {host} has no launch key. Copy the bot's keys/launch.pub to {public} there.") from None
    if not signed:
        raise Refused(
            f"Host {host} refused to {what}: the order's signature does not fit {public}. "
            "Copy the bot's keys/launch.pub there. If it lies there, bring the bot and this host to the same version; "
            "if they are, somebody else can write to your Redis."
        )


_WHAT: dict[type, str] = {
    LaunchOrder: "start this",
    StopOrder: "end this",
    InspectOrder: "look at this file",
    PredictOrder: "predict",
    FetchOrder: "fetch data",
    LookOrder: "tell of this run",
}
