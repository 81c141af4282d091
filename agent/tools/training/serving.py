"""The tools that keep a finished model up on a host: planned and approved like a run, stopped like one."""

import hashlib
from collections.abc import Sequence
from typing import Protocol

from pydantic import Field, JsonValue

from agent.cards import at_host, duration, gaps_words, spec_facts
from agent.domain.content import Card, Fact
from agent.domain.datasets import DatasetRef
from agent.domain.errors import BadRequest, Conflict, NotFound
from agent.domain.ids import new_ulid
from agent.domain.policy import Effect
from agent.domain.runs import LIVE, JobKind, Run, RunSpec, RunState, Script, Serving
from agent.ports import Bundles, ServingTokens
from agent.runs.engines import Engines
from agent.runs.life.service import RunService
from agent.stores import Runs
from agent.tools.data import finished_run
from agent.tools.finding import LOOKED_AT, named, of_thread
from agent.tools.runs.control import Control
from agent.tools.tool import Arguments, Caller, Plan, Result, Tool
from agent.tools.training.launching import cost_of, start
from agent.tools.training.placing import place

ENTRY, MODEL = "serve.py", "model.tar"
HOURS = 8.0
ASK = (
    "`{run}` keeps the model of `{of}` up. Its token, which is for you alone:\n`{token}`\n"
    "Its card says the address as soon as it answers. Rows: `curl -H 'Authorization: Bearer {token}' "
    "-H 'Content-Type: application/json' -d '{{\"rows\": [{{…}}]}}' ADDRESS/predict`; the whole interface is at "
    "`ADDRESS/docs`."
)


class Whispers(Protocol):
    """Sends a text that one person alone can read."""

    async def __call__(self, caller: Caller, key: str, text: str) -> None:
        """Tell the caller `text`, once for each `key`."""


class ServeArguments(Arguments):
    """Keep the model of a finished run up; people approve it first. Leave out what nobody said."""

    run: str | None = Field(
        None, description="Run id; the newest succeeded run of this thread if unsaid.", examples=["r-abc123"]
    )
    max_hours: float = Field(HOURS, gt=0.0, le=720.0)
    gpus: int = Field(0, ge=0, le=64, description="GPUs, if the person said how many.")
    host: str | None = Field(None, description="A host that the person named.")
    engine: str | None = Field(None, description="The engine that the person named; the usual one if unsaid.")


class ServedArguments(Arguments):
    """A model that is kept up."""

    run: str | None = Field(
        None,
        description="The run that serves, or whose model is served; the only one if unsaid.",
        examples=["r-abc123"],
    )


class ServingModels:
    """The tools of this family."""

    def __init__(
        self,
        runs: Runs,
        service: RunService,
        control: Control,
        engines: Engines,
        bundles: Bundles,
        tokens: ServingTokens,
        whisper: Whispers,
    ) -> None:
        """`control` knows whose run it is; `whisper` tells a token to one person."""
        self._runs = runs
        self._service = service
        self._control = control
        self._engines = engines
        self._bundles = bundles
        self._tokens = tokens
        self._whisper = whisper

    def tools(self) -> Sequence[Tool]:
        """Their declarations."""
        return (
            Tool(
                "serve_model",
                "Keep a finished run's model up on a host, answering over HTTP and in this thread, for some hours; "
                "asks for approval. stop_run ends it.",
                ServeArguments,
                Effect.SPEND,
                plan=self.plan,
                execute=self.execute,
                cost=cost_of,
            ),
            Tool(
                "serving_token",
                "Show the person, and nobody else, the token of a model that is kept up.",
                ServedArguments,
                Effect.READ,
                run=self.token,
                beside=False,
            ),
        )

    async def plan(self, caller: Caller, asked: ServeArguments) -> Plan:
        """The exact job and its card; nothing is started.

        Raises:
            BadRequest, Conflict, NotFound: there is no model to keep up, or it is up already.
        """
        run = await finished_run(self._runs, caller, asked.run)
        if run.outcome is None or run.outcome.artifact is None or "predict.py" not in run.outcome.artifact.files:
            raise BadRequest(f"Run `{run.id}` left no model with a `predict.py`, so there is nothing to serve.")
        if run.spec.script is not None:
            raise BadRequest(f"`{run.id}` is a program of your own; only the models of recipes can be served.")
        if (up := await serving_run(self._runs, run.id)) is not None:
            raise Conflict(f"`{up.id}` keeps the model of `{run.id}` up already. `stop {up.id}` ends it.")
        placed = await place(self._engines, self._runs, engine=asked.engine, host=asked.host, gpus=asked.gpus)
        artifact, nonce = run.outcome.artifact, new_ulid()
        model = DatasetRef(sha256=artifact.sha256, name=MODEL, size_bytes=artifact.size_bytes)
        spec = RunSpec(
            job=JobKind.SERVING,
            script=Script(name=ENTRY, entry=ENTRY, data=(model,)),
            serving=Serving(run=run.id, nonce=nonce, token_sha256=digest(self._tokens(nonce))),
            host=placed.host.host,
            gpus=placed.gpus,
            max_hours=asked.max_hours,
            network=placed.network,
            sandbox=placed.host.sandbox,
            bundle_sha256=await self._bundles.pack_server(),
        )
        spec = placed.priced(spec)
        facts = [
            Fact(name="Model", value=f"{run.id}: {run.spec.kind}, {run.spec.title}"),
            *spec_facts(spec, limits=placed.limits),
        ]
        card = Card(
            kind="approval",
            title=f"Keep the model of {run.id} up?",
            tone="busy",
            body=_terms(spec),
            facts=tuple(facts),
        )
        return Plan({"spec": spec.model_dump(mode="json")}, at_host(card, placed.host))

    async def execute(self, caller: Caller, exact: dict[str, JsonValue], token: str) -> Result:
        """Create the approved job, and tell who asked the token; a repetition with the same token finds it."""
        result = await start(self._runs, self._service, caller, exact, token)
        run = await self._runs.get(str(result.data["run"]))
        await self._tell(caller, run, key=token)
        started = result.text.replace("its card follows the training", "its card says the address")
        text = f"{started} Its token was told to {caller.person.shown} alone; `token {run.id}` tells it again."
        return Result(text, result.data)

    async def token(self, caller: Caller, asked: ServedArguments) -> Result:
        """The token, for who started it, or an approver.

        Raises:
            BadRequest, NotAllowed, NotFound: there is no such model, or it is somebody else's.
        """
        run = await self._served(caller, asked.run)
        await self._control.owned(caller, run, "see its token")
        await self._tell(caller, run, key=new_ulid())
        return Result(f"The token of `{run.id}` was told to {caller.person.shown} alone.")

    async def _served(self, caller: Caller, run_id: str | None) -> Run:
        if run_id is not None:
            run = await named(self._runs, caller, run_id)
            up = run if run.spec.serving else await serving_run(self._runs, run.id)
            if up is None:
                raise BadRequest(f"`{run.id}` is not kept up now. `serve {run.id}` asks for it.")
            return up
        up_here = [run for run in await of_thread(self._runs, caller, LOOKED_AT) if run.spec.serving and is_up(run)]
        if len(up_here) != 1:
            names = ", ".join(f"`{run.id}`" for run in up_here)
            raise NotFound(f"Say which one: {names}." if up_here else "No model of this thread is kept up now.")
        return up_here[0]

    async def _tell(self, caller: Caller, run: Run, *, key: str) -> None:
        """Tell the caller the token and how to ask; `key` makes a repetition harmless."""
        if run.spec.serving is None:
            raise BadRequest(f"`{run.id}` keeps no model up.")
        token = self._tokens(run.spec.serving.nonce)
        await self._whisper(caller, f"token:{key}", ASK.format(run=run.id, of=run.spec.serving.run, token=token))


def is_up(run: Run) -> bool:
    """Whether it serves, or is about to."""
    return run.state in LIVE | {RunState.QUEUED}


async def serving_run(runs: Runs, model_of: str) -> Run | None:
    """The run that keeps the model of another up, where one does."""
    for run, _ in await runs.live():
        if run.spec.serving and run.spec.serving.run == model_of:
            return run
    return None


def digest(token: str) -> str:
    """The SHA-256 of a token, which a host compares in place of the token."""
    return hashlib.sha256(token.encode()).hexdigest()


def _terms(spec: RunSpec) -> str:
    lines = [
        f"It answers over HTTP on `{spec.host}` to who has its token, which only you are told, and `predict` in this "
        f"channel. It ends after {duration(spec.max_hours * 3600)}, or with `stop`.",
    ]
    if gaps := gaps_words(spec.sandbox):
        lines.append(gaps)
    return "\n\n".join(lines)
