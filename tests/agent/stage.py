"""A run on the stage of a `Harness`: made without talk, moved by events of its host, asked about with commands."""

from agent.brain import Brain
from agent.domain.content import Content
from agent.domain.events import Accepted, Ended, EventBody, Logged, Measured, MetricRow, Saved, Started, WorkerEvent
from agent.domain.inbound import Attachment, Person
from agent.domain.runs import ExitClass, Outcome, Run, RunSpec, RunState
from tests.agent.conftest import Harness
from tests.agent.engine import SPEC
from tests.fakes import ALICE, START, THREAD, commanded, said

BOOT = "boot-1"


class Stage:
    """One brain, and the words of hosts about its runs."""

    def __init__(self, harness: Harness, brain: Brain) -> None:
        self.harness, self.brain = harness, brain
        self._seqs: dict[tuple[str, int], int] = {}
        self._tokens = 0

    async def create(self, spec: RunSpec = SPEC, *, person: Person = ALICE, priority: int = 0) -> Run:
        """A run of this thread; it starts at once where a host has room."""
        session_id = await self.brain.stores.conversations.session_of(THREAD, create=True)
        assert session_id is not None
        self._tokens += 1
        run = await self.brain.service.create(
            spec,
            session_id=session_id,
            requester=person.key,
            thread=THREAD,
            token=f"t{self._tokens}",
            priority=priority,
        )
        return await self.brain.stores.runs.get(run.id)

    async def running(self, spec: RunSpec = SPEC, *, person: Person = ALICE, steps: int = 100) -> Run:
        """A run that trains."""
        run = await self.create(spec, person=person)
        return await self.says(run, Accepted(boot_id=BOOT), Started(model="m", total_steps=steps))

    async def says(self, run: Run, *bodies: EventBody) -> Run:
        """Its host reports; the run after that."""
        attempt = (await self.brain.stores.runs.get(run.id)).attempt
        events = []
        for body in bodies:
            seq = self._seqs.get((run.id, attempt), 0) + 1
            self._seqs[run.id, attempt] = seq
            events.append(
                WorkerEvent(run=run.id, attempt=attempt, seq=seq, host="gpu-1", at=self.harness.clock.now(), body=body)
            )
        await self.brain.service.take(events)
        return await self.brain.stores.runs.get(run.id)

    async def ended(self, run: Run, state: RunState, exit_class: ExitClass | None = None, reason: str = "") -> Run:
        """Its attempt is over."""
        outcome = Outcome(state=state, exit_class=exit_class, reason=reason, seconds=60.0)
        return await self.says(run, Ended(outcome=outcome))

    async def asks(self, *words: str, person: Person = ALICE) -> Content:
        """What a slash command answers to this person alone."""
        before = len(self.harness.adapter.whispers)
        await self.brain.router.accept(commanded(*words, person=person))
        await self.harness.until(lambda: len(self.harness.adapter.whispers) > before)
        return self.harness.adapter.whispers[-1][1]

    async def tells(self, text: str, person: Person = ALICE, files: tuple[Attachment, ...] = ()) -> str:
        """The next words in the thread after somebody said something."""
        await self.settled()  # an earlier answer that is still on its way is not the next one
        before = len(self.harness.adapter.texts())
        await self.brain.router.accept(said(text, person=person, files=files))
        await self.harness.until(lambda: len(self.harness.adapter.texts()) > before)
        await self.settled()
        return self.harness.adapter.texts()[-1]

    async def settled(self) -> None:
        """Wait until all that was said is handled and all that was answered stands in the thread."""
        await self.brain.router.idle()
        await self.brain.delivery.idle()

    async def asked(self) -> Content:
        """The newest approval card of the thread, once there is one that waits."""
        await self.harness.until(lambda: any(_waits(content) for content in self.harness.adapter.shown))
        return [content for content in self.harness.adapter.shown if _waits(content)][-1]


def _waits(content: Content) -> bool:
    return content.card is not None and content.card.kind == "approval" and bool(content.card.buttons)


def rows(*steps: int, start: float = 0.0, pace_s: float = 2.0, **values: float) -> Measured:
    """Metrics at these steps, two seconds apart."""
    at = START.timestamp() + start
    made = (
        MetricRow(step=step, at=at + pace_s * n, values=values or {"train_loss": 1.0 / (step + 1)})
        for n, step in enumerate(steps)
    )
    return Measured(rows=tuple(made))


def lines(*texts: str) -> Logged:
    """Lines of a log."""
    return Logged(lines=texts)


def saved(step: int) -> Saved:
    """A checkpoint of 12 MB."""
    return Saved(step=step, size_bytes=12_000_000)
