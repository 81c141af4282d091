"""Puts the brain together from what it needs; names no adapter. Used by the bot's composition root and by tests."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from agent.commands.completion import Completion
from agent.conversation.approvals import ApprovalService
from agent.conversation.bills import Bills
from agent.conversation.compaction import Compactor
from agent.conversation.facts import FactsInWords
from agent.conversation.guards import TurnLimits
from agent.conversation.loop import TurnLoop
from agent.conversation.questions import QuestionService
from agent.conversation.router import InboxRouter
from agent.conversation.session_tools import SessionTools
from agent.conversation.tool_calls import ToolCalls
from agent.delivery.outbox import OutboxDelivery
from agent.domain.content import Content
from agent.domain.policy import Grants, SecondPerson
from agent.ports import (
    Blobs,
    Bundles,
    Charts,
    ChatAdapter,
    Clock,
    Complete,
    Model,
    ModelOf,
    Models,
    ReadsActs,
    ServingTokens,
    Whisper,
)
from agent.runs.allowances import AllowanceService
from agent.runs.budgets import BudgetService
from agent.runs.cards.live import LiveCards
from agent.runs.engines import Engines
from agent.runs.life.service import RunService, Timings
from agent.runs.monitoring.monitor import Monitor
from agent.runs.pictures.artifacts import ArtifactWriter
from agent.stores import Stores
from agent.tools.allowing import Allowing
from agent.tools.asking import Asking
from agent.tools.auditing import Acts, Auditing
from agent.tools.budgeting import Budgeting
from agent.tools.cards.card_views import CardViews
from agent.tools.charts.charting import Charting
from agent.tools.charts.experiments import Experimenting
from agent.tools.costs import Costs
from agent.tools.data import Data, DataFiles
from agent.tools.dispatch import Dispatcher
from agent.tools.members import Members
from agent.tools.models import LanguageModels
from agent.tools.runs.control import Control
from agent.tools.runs.downloading import Downloading
from agent.tools.runs.looking import Looking
from agent.tools.runs.resulting import Resulting
from agent.tools.runs.watching import Watching
from agent.tools.tool import Caller, Toolset
from agent.tools.training.applying import ApplyingModels
from agent.tools.training.changing import Changing
from agent.tools.training.own_scripts import OwnScripts
from agent.tools.training.serving import ServingModels
from agent.tools.training.start import Training


@dataclass(frozen=True, slots=True)
class Options:
    """What people may set. `pictures` takes chart files; `edit_gap_s` is by platform."""

    pictures: Path
    grants: Grants = field(default_factory=Grants)
    second_person: SecondPerson = SecondPerson.NEVER
    quorum: int = 1  # how many people have to approve what spends
    runs_open: bool = False  # whether people of other channels of a workspace see and control runs
    approval_lifetime: timedelta = timedelta(hours=24)
    answer_s: float = 300.0  # for one answer of a model, from the request to its last word
    context_tokens: int = 100_000  # that a model reads whose own window is not known
    limits: TurnLimits = field(default_factory=TurnLimits)
    edit_gap_s: Mapping[str, float] | None = None
    card_pace_s: float = 1.0
    timings: Timings | None = None
    listening: Callable[[], bool] = lambda: True  # whether events of hosts can reach us
    monitor: bool = True  # whether live runs are watched by rules
    monitor_every_s: float = 30.0
    charged: bool = True  # whether answers may cost something; those of rules do not
    advised: bool = False  # whether a language model may think about what the monitor finds


@dataclass(frozen=True, slots=True)
class Brain:
    """The parts that the process around it drives."""

    stores: Stores
    router: InboxRouter
    dispatcher: Dispatcher
    service: RunService
    cards: LiveCards
    delivery: OutboxDelivery
    monitor: Monitor | None
    complete: Complete

    async def recover(self) -> None:
        """Go on where a stopped bot left off; what it had left to deliver is marked before anything else is sent."""
        await self.delivery.recover()
        await self.router.recover()
        await self.cards.recover()
        if self.monitor is not None:
            await self.monitor.recover()

    async def close(self) -> None:
        """Stop handling and delivering; what is left goes on after the next start."""
        await self.router.close()
        await self.delivery.close()


def build(  # noqa: PLR0913 - one argument for each thing the brain needs
    *,
    stores: Stores,
    adapters: Mapping[str, ChatAdapter],
    engines: Engines,
    blobs: Blobs,
    bundles: Bundles,
    charts: Charts,
    model: Model,
    models: Models | None = None,
    clock: Clock,
    tokens: ServingTokens,
    acts: ReadsActs,
    options: Options,
    toolsets: Sequence[Toolset] = (),
) -> Brain:
    """Everything wired, nothing started. `toolsets` are families of tools besides the usual ones.

    `models` are the configured ones, of which a thread may prefer one; without them `model` answers everywhere.
    """
    delivery = OutboxDelivery(stores.outbox, adapters, clock, gap_s=options.edit_gap_s or {})
    artifacts = ArtifactWriter(charts, options.pictures)
    cards = LiveCards(stores.runs, artifacts, delivery, clock, blobs=blobs, pace_s=options.card_pace_s)
    told: list[Callable[[str], None]] = [cards.changed]

    def changed(run_id: str) -> None:
        for tell in told:
            tell(run_id)

    service = RunService(
        stores.runs, engines, clock, changed=changed, timings=options.timings, listening=options.listening
    )

    async def whisper(caller: Caller, key: str, text: str) -> None:
        to = Whisper(caller.person.id)
        await delivery.put(key, caller.thread, Content(text=text), whisper=to, urgent=True)

    files = DataFiles(stores.conversations, engines, clock)
    model_of: ModelOf = models.model if models else lambda preference, unused=None: model  # noqa: ARG005
    bills = Bills(stores.usage, clock)
    compactor = Compactor(stores.conversations, delivery, model_of, bills, window=options.context_tokens)
    questions = QuestionService(
        stores.questions, stores.conversations, delivery, clock, lifetime=options.approval_lifetime
    )
    members = Members(options.grants, adapters)
    budgets = BudgetService(stores.budgets, clock, charged=options.charged)
    alone = options.quorum == 1 and options.second_person is SecondPerson.NEVER
    allowances = AllowanceService(stores.allowances, clock, in_force=alone)
    control = Control(stores.runs, service, members, acts)
    families: tuple[Toolset, ...] = (
        Data(files, stores.runs, engines, blobs, artifacts),
        Training(files, stores.runs, service, engines, bundles, artifacts),
        OwnScripts(files, stores.runs, service, engines, bundles, blobs, artifacts),
        control,
        Changing(stores.runs, service, control, bundles, engines, files, blobs, artifacts),
        ApplyingModels(files, stores.runs, service, engines, bundles),
        ServingModels(stores.runs, service, control, engines, bundles, tokens, whisper),
        Looking(stores.runs, service, engines, artifacts, clock),
        Watching(stores.runs, engines, bundles, artifacts),
        Charting(stores.runs, artifacts, blobs, clock),
        Resulting(stores.runs, artifacts, blobs),
        Downloading(stores.runs, artifacts, blobs),
        CardViews(stores.runs, clock, cards.changed),
        Experimenting(stores.runs, artifacts),
        Asking(stores.conversations),
        Auditing(stores.audit, artifacts),
        Budgeting(budgets, members),
        Allowing(allowances, members),
        LanguageModels(models, stores.conversations),
        Costs(stores.usage, budgets, stores.runs, clock),
        SessionTools(
            stores.sessions,
            stores.conversations,
            compactor,
            questions,
            artifacts,
            delivery,
            effect=lambda name: dispatcher.effect(name),
        ),
        *toolsets,
    )
    dispatcher = Dispatcher(families, workspace=options.runs_open, acts=Acts(stores.audit, clock))
    approvals = ApprovalService(
        stores.approvals,
        stores.conversations,
        dispatcher,
        delivery,
        clock,
        members,
        budgets,
        allowances,
        lifetime=options.approval_lifetime,
        second_person=options.second_person,
        quorum=options.quorum,
    )
    calls = ToolCalls(stores.conversations, dispatcher, approvals, questions, delivery)
    loop = TurnLoop(
        stores.conversations,
        model_of,
        dispatcher,
        calls,
        delivery,
        compactor,
        FactsInWords(stores.facts, clock),
        bills,
        budgets,
        limits=options.limits,
        answer_s=options.answer_s,
    )
    router = InboxRouter(stores, loop, approvals, questions, dispatcher, delivery, blobs, adapters, members, clock)
    completion = Completion(stores, engines, workspace=options.runs_open, models=models.names if models else ())
    monitor = None
    if options.monitor:
        notice = router.notice if options.advised else None
        every_s = options.monitor_every_s
        monitor = Monitor(stores.runs, stores.outbox, delivery, engines, clock, notice=notice, every_s=every_s)
        told.append(monitor.changed)
    return Brain(stores, router, dispatcher, service, cards, delivery, monitor, completion.complete)
