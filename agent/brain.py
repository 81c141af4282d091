"""Puts the brain together from what it needs; names no adapter. Used by the bot's composition root and by tests."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from agent.approvals import ApprovalDesk
from agent.loop import TurnLoop
from agent.ports import Blobs, Bundles, Charts, Clock, Door, Fleet, Model
from agent.postman import Postman
from agent.runs.live import LiveCards
from agent.runs.service import RunService, Timings
from agent.sessions import FrontDesk
from agent.stores import Stores
from agent.tools.data import Data, DataFiles
from agent.tools.dispatch import Dispatcher
from agent.tools.looking import Looking
from agent.tools.training import Training


@dataclass(frozen=True, slots=True)
class Options:
    """What people may set. `pictures` takes chart files; `edit_gap_s` is by platform."""

    pictures: Path
    approvers: frozenset[str] = frozenset()
    approval_lifetime: timedelta = timedelta(hours=24)
    edit_gap_s: Mapping[str, float] | None = None
    card_pace_s: float = 1.0
    timings: Timings | None = None


@dataclass(frozen=True, slots=True)
class Brain:
    """The parts that the process around it drives."""

    stores: Stores
    desk: FrontDesk
    service: RunService
    cards: LiveCards
    postman: Postman

    async def recover(self) -> None:
        """Go on where a stopped bot left off."""
        await self.desk.recover()
        await self.cards.recover()
        await self.postman.recover()

    async def close(self) -> None:
        """Stop handling and delivering; what is left goes on after the next start."""
        await self.desk.close()
        await self.postman.close()


def build(  # noqa: PLR0913 - one argument for each thing the brain needs
    *,
    stores: Stores,
    doors: Mapping[str, Door],
    fleet: Fleet,
    blobs: Blobs,
    bundles: Bundles,
    charts: Charts,
    model: Model,
    clock: Clock,
    options: Options,
) -> Brain:
    """Everything wired, nothing started."""
    postman = Postman(stores.outbox, doors, clock, gap_s=options.edit_gap_s or {})
    cards = LiveCards(stores.runs, charts, postman, clock, folder=options.pictures, pace_s=options.card_pace_s)
    service = RunService(stores.runs, fleet, clock, changed=cards.changed, timings=options.timings)
    files = DataFiles(stores.conversations, fleet)
    tools = (
        *Data(files, stores.runs, fleet).tools(),
        *Training(files, stores.runs, service, fleet, bundles).tools(),
        *Looking(stores.runs, fleet, clock).tools(),
    )
    dispatcher = Dispatcher({tool.name: tool for tool in tools})
    approvals = ApprovalDesk(
        stores.approvals,
        stores.conversations,
        dispatcher,
        postman,
        clock,
        approvers=options.approvers,
        lifetime=options.approval_lifetime,
    )
    loop = TurnLoop(stores.conversations, model, dispatcher, approvals, postman)
    desk = FrontDesk(stores, loop, approvals, dispatcher, postman, blobs, doors, clock)
    return Brain(stores, desk, service, cards, postman)
