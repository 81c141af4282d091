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
from agent.conversation.research import Research
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
from agent.runs.affording import Affording
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
    answer_s: float = 300.0  # for one answer of a model, from its first word to its last
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the brain is built from. `toolsets` are families of tools besides the usual ones.

    `models` are the configured ones, of which a thread may prefer one; without them `model` answers everywhere.
    """

    stores: Stores
    adapters: Mapping[str, ChatAdapter]
    engines: Engines
    blobs: Blobs
    bundles: Bundles
    charts: Charts
    model: Model
    models: Models | None = None
    clock: Clock
    tokens: ServingTokens
    acts: ReadsActs
    options: Options
    toolsets: Sequence[Toolset] = ()

    @property
    def model_of(self) -> ModelOf:
        """The model that answers in a thread."""
        return self.models.model if self.models else lambda preference, unused=None: self.model  # noqa: ARG005


class _RunNews:
    """Passes on that a run has changed."""

    def __init__(self, *listeners: Callable[[str], None]) -> None:
        self._listeners = list(listeners)

    def add(self, listener: Callable[[str], None]) -> None:
        self._listeners.append(listener)

    def __call__(self, run_id: str) -> None:
        for listener in self._listeners:
            listener(run_id)


@dataclass(frozen=True, slots=True)
class _Services:
    """What tools and conversations share."""

    delivery: OutboxDelivery
    artifacts: ArtifactWriter
    cards: LiveCards
    news: _RunNews
    runs: RunService
    files: DataFiles
    facts: FactsInWords
    bills: Bills
    compactor: Compactor
    questions: QuestionService
    members: Members
    budgets: BudgetService
    allowances: AllowanceService
    affording: Affording

    async def whisper(self, caller: Caller, key: str, text: str) -> None:
        """Tell the caller something that nobody else reads."""
        to = Whisper(caller.person.id)
        await self.delivery.put(key, caller.thread, Content(text=text), whisper=to, urgent=True)


def build(around: Surroundings) -> Brain:
    """Everything wired, nothing started."""
    stores, clock, options, models = around.stores, around.clock, around.options, around.models
    services = _services(around)
    tools = _toolsets(around, services)
    dispatcher = Dispatcher(tools, workspace=options.runs_open, acts=Acts(stores.audit, clock))
    dispatcher.add(_session_tools(around, services, dispatcher))
    if options.charged:
        dispatcher.add(_research(around, services, dispatcher))
    router = _router(around, services, dispatcher)
    monitor = _monitor(around, services, router) if options.monitor else None
    if monitor is not None:
        services.news.add(monitor.changed)
    names = models.names if models else ()
    completion = Completion(stores, around.engines, workspace=options.runs_open, models=names)
    return Brain(
        stores, router, dispatcher, services.runs, services.cards, services.delivery, monitor, completion.complete
    )


def _services(around: Surroundings) -> _Services:
    """Delivery, runs, and what holds people to rights and budgets."""
    stores, clock, options = around.stores, around.clock, around.options
    delivery = OutboxDelivery(stores.outbox, around.adapters, clock, gap_s=options.edit_gap_s or {})
    artifacts = ArtifactWriter(around.charts, options.pictures)
    cards = LiveCards(stores.runs, artifacts, delivery, clock, blobs=around.blobs, pace_s=options.card_pace_s)
    news = _RunNews(cards.changed)
    runs = RunService(
        stores.runs, around.engines, clock, changed=news, timings=options.timings, listening=options.listening
    )
    bills = Bills(stores.usage, clock)
    budgets = BudgetService(stores.budgets, clock, charged=options.charged)
    alone = options.quorum == 1 and options.second_person is SecondPerson.NEVER
    allowances = AllowanceService(stores.allowances, clock, in_force=alone)
    return _Services(
        delivery=delivery,
        artifacts=artifacts,
        cards=cards,
        news=news,
        runs=runs,
        files=DataFiles(stores.conversations, around.engines, clock),
        facts=FactsInWords(stores.facts, clock),
        bills=bills,
        compactor=Compactor(
            stores.conversations,
            delivery,
            around.model_of,
            bills,
            budgets,
            window=options.context_tokens,
            models=around.models,
        ),
        questions=QuestionService(
            stores.questions, stores.conversations, delivery, clock, lifetime=options.approval_lifetime
        ),
        members=Members(options.grants, around.adapters),
        budgets=budgets,
        allowances=allowances,
        affording=Affording(budgets, allowances, stores.runs),
    )


def _toolsets(around: Surroundings, services: _Services) -> Sequence[Toolset]:
    """Every family of tools that knows no other."""
    return (*_run_tools(around, services), *_talk_tools(around, services), *around.toolsets)


def _session_tools(around: Surroundings, services: _Services, dispatcher: Dispatcher) -> SessionTools:
    """The commands over a whole conversation, which know what the other tools do."""
    stores = around.stores
    return SessionTools(
        stores.sessions,
        stores.conversations,
        services.compactor,
        services.questions,
        services.artifacts,
        services.delivery,
        dispatcher,
    )


def _run_tools(around: Surroundings, services: _Services) -> Sequence[Toolset]:
    """Data, trainings, runs and their pictures."""
    runs, engines, clock = around.stores.runs, around.engines, around.clock
    bundles, blobs = around.bundles, around.blobs
    service, files, artifacts = services.runs, services.files, services.artifacts
    control = Control(runs, service, services.members, around.acts, services.affording)
    return (
        Data(files, runs, engines, blobs, artifacts),
        Training(files, runs, service, engines, bundles, artifacts),
        OwnScripts(files, runs, service, engines, bundles, blobs, artifacts),
        control,
        Changing(runs, service, control, bundles, engines, files, blobs, artifacts, services.affording),
        ApplyingModels(files, runs, service, engines, bundles),
        ServingModels(runs, service, control, engines, bundles, around.tokens, services.whisper),
        Looking(runs, service, engines, artifacts, clock),
        Watching(runs, engines, bundles, artifacts),
        Charting(runs, artifacts, blobs, clock),
        Resulting(runs, artifacts, blobs),
        Downloading(runs, artifacts, blobs),
        CardViews(runs, clock, services.cards.changed),
        Experimenting(runs, artifacts),
    )


def _talk_tools(around: Surroundings, services: _Services) -> Sequence[Toolset]:
    """Earlier words, who did what, what it cost and may cost, and language models."""
    stores, clock = around.stores, around.clock
    return (
        Asking(stores.conversations),
        Auditing(stores.audit, services.artifacts),
        Budgeting(services.budgets, services.members, stores.conversations),
        Allowing(services.allowances, services.members),
        LanguageModels(around.models, stores.conversations, stores.usage, services.budgets, clock),
        Costs(stores.usage, services.budgets, stores.runs, clock),
    )


def _research(around: Surroundings, services: _Services, dispatcher: Dispatcher) -> Research:
    """The tool whose own calls go through the dispatcher, too."""
    options = around.options
    return Research(
        dispatcher,
        around.stores.conversations,
        around.model_of,
        services.facts,
        services.bills,
        services.budgets,
        services.delivery,
        limits=options.limits,
        window=options.context_tokens,
    )


def _router(around: Surroundings, services: _Services, dispatcher: Dispatcher) -> InboxRouter:
    """The way from what people do to turns, calls and decisions."""
    stores, clock, options, delivery = around.stores, around.clock, around.options, services.delivery
    approvals = ApprovalService(
        stores.approvals,
        stores.conversations,
        dispatcher,
        delivery,
        clock,
        services.members,
        services.budgets,
        services.allowances,
        services.affording,
        lifetime=options.approval_lifetime,
        second_person=options.second_person,
        quorum=options.quorum,
    )
    loop = TurnLoop(
        stores.conversations,
        around.model_of,
        dispatcher,
        ToolCalls(stores.conversations, stores.facts, dispatcher, approvals, services.questions, delivery),
        delivery,
        services.compactor,
        services.facts,
        services.bills,
        services.budgets,
        limits=options.limits,
        answer_s=options.answer_s,
        charged=options.charged,
    )
    return InboxRouter(
        stores,
        loop,
        approvals,
        services.questions,
        dispatcher,
        delivery,
        around.blobs,
        around.adapters,
        services.members,
        clock,
    )


def _monitor(around: Surroundings, services: _Services, router: InboxRouter) -> Monitor:
    """The rules over live runs, and where language models may advise, the way to ask them."""
    options, stores = around.options, around.stores
    return Monitor(
        stores.runs,
        stores.outbox,
        services.delivery,
        around.engines,
        around.clock,
        notice=router.notice if options.advised else None,
        every_s=options.monitor_every_s,
    )
