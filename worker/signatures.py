"""Which orders a host believes: those that carry a signature by the bot's launch key.

Owns the check and the sentences of its refusals. Knows no order's meaning. Called by `worker.launching` and
`worker.tasks`: whoever can write to Redis could otherwise start code here, stop runs of others, or read their data.
"""

from pathlib import Path

from agent.domain.errors import AppError
from agent.domain.orders import InspectOrder, LaunchOrder, PredictOrder, StopOrder
from agent.domain.runs import ExitClass
from worker.client.keys import is_signed


class Refused(AppError):
    """This host does not carry out the order. `final` when the attempt is over with that: nobody else will try it."""

    def __init__(self, text: str, *, final: bool = False, exit_class: ExitClass = ExitClass.USER_ERROR) -> None:
        """`text` goes to the thread; `exit_class` decides whether another attempt may help."""
        super().__init__(text)
        self.final, self.exit_class = final, exit_class


def require_signature(order: LaunchOrder | StopOrder | InspectOrder | PredictOrder, public: Path, *, host: str) -> None:
    """Raises `Refused` unless the order was signed with the key whose public half lies in `public` on this host."""
    what = _WHAT[type(order)]
    try:
        signed = is_signed(order, public)
    except (OSError, ValueError):
        raise Refused(f"Host {host} has no launch key. Copy the bot's keys/launch.pub to {public} there.") from None
    if not signed:
        raise Refused(
            f"Host {host} refused to {what}: the order's signature does not fit {public}. "
            "Copy the bot's keys/launch.pub there."
        )


_WHAT: dict[type, str] = {
    LaunchOrder: "start this",
    StopOrder: "end this",
    InspectOrder: "look at this file",
    PredictOrder: "predict",
}
