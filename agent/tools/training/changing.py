"""Tools that change what runs, so that people are asked first: a new training script, and a copy of a run with changes.

`plan` makes everything exact and shows what differs; nothing is stopped, started or written before the approval, and a
script with a syntax error is refused before anybody is asked. Called through the dispatcher.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence

from pydantic import Field, JsonValue

from agent.cards import at_host, cost_words, counted, gaps_words, number, priority_words, shows_all, spec_facts
from agent.domain.content import Card, Document, Fact, Table
from agent.domain.datasets import DatasetRef
from agent.domain.errors import BadData, BadRequest
from agent.domain.orders import HostInfo, Limits
from agent.domain.policy import Effect
from agent.domain.redaction import without_secrets
from agent.domain.runs import ENDED, LIVE, PRIORITIES, Network, Run, RunSpec, RunState, Script
from agent.ports import Blobs, Bundles
from agent.runs.cards.run_cards import state_text, state_words
from agent.runs.engines import Engines
from agent.runs.life.refusals import with_new_program
from agent.runs.life.service import RunService
from agent.runs.pictures.artifacts import ArtifactWriter
from agent.stores import Runs
from agent.tools.data import DataFiles
from agent.tools.finding import named_or_newest
from agent.tools.runs.control import Control
from agent.tools.tool import Arguments, Caller, Plan, Result, Tool
from agent.tools.training.attached import data_named, requirements_named
from agent.tools.training.placing import choose_host, connected, estimate_s, ledger, priced
from agent.tools.training.programs import environment_in
from agent.tools.training.scripts import Diff, Replacement, check, diff_of, refuse_marks, replaced, warned_of

SCRIPT_BYTES = 1_000_000
PLAN_LIMIT_S = 120.0
_OPTION = re.compile(r"--?[A-Za-z]")  # no negative number
SHORT_NAMES = {  # what people call settings; a changed one must replace the original's, not stand beside it
    "lr": "learning_rate",
    "epoch": "epochs",
    "round": "rounds",
    "batch": "batch_size",
    "steps": "max_steps",
    "patience": "early_stopping_patience",
}
SPEC_NAMES = {
    "task": "task",
    "target": "target",
    "text_column": "text column",
    "drop_columns": "columns left out",
    "seed": "seed",
    "test_frac": "test part",
    "split": "split",
    "engine": "engine",
    "host": "host",
    "gpus": "GPUs",
    "max_hours": "hours at most",
    "network": "network",
    "secrets": "secrets",
    "auto_resume": "retries by itself",
    "sandbox": "sandbox",
    "bundle_sha256": "program",
}


class UpdateArguments(Arguments):
    """Change the training script of a run; people approve the diff first. Give one kind of change."""

    run: str | None = Field(None, description="Run id; the newest run of this thread if unsaid.")
    script: str | None = Field(None, description="The whole new train.py.")
    file: str | None = Field(None, description="Name of an attached file with the whole new train.py.")
    replace: tuple[Replacement, ...] = Field(
        (),
        description="Exact texts of the present train.py and what they become.",
        examples=[[{"old": "lr = 0.1", "new": "lr = 0.01"}]],
    )
    why: str = Field("", max_length=500, description="One sentence: what this mends.")


class CloneArguments(Arguments):
    """A new run like an earlier one, with changes; people approve it first. Leave out what stays the same."""

    run: str | None = Field(None, description="Run id of the original; the newest run of this thread if unsaid.")
    settings: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="Hyperparameters to change; null takes the recipe's default.",
        examples=[{"learning_rate": 0.05, "rounds": None}],
    )
    file: str | None = Field(None, description="Name of another attached data file to train on.")
    target: str | None = Field(None, description="Another column to predict.")
    arguments: str | None = Field(
        None,
        description="Options of an own program's command line to add or change, such as --lr 0.1; its others stay. "
        "A line that begins with another word, or with -- alone, is the whole line.",
    )
    data: tuple[str, ...] | None = Field(None, description="Names of all attached files that an own program reads.")
    requirements: str | None = Field(None, description="Name of another attached requirements.txt, of an own program.")
    environment: dict[str, str] | None = Field(None, description="Variables to add or change, of an own program.")
    secrets: tuple[str, ...] | None = Field(None, description="Names of all of the host's secrets that it needs.")
    seed: int | None = None
    test_frac: float | None = Field(None, gt=0.0, lt=0.9)
    max_hours: float | None = Field(None, gt=0.0, le=720.0)
    gpus: int | None = Field(None, ge=0, le=64)
    network: Network | None = None
    host: str | None = None
    engine: str | None = None
    auto_resume: bool | None = None
    priority: str | None = Field(None, description="high, normal or low.", pattern="^(high|normal|low)$")
    repack: bool = Field(False, description="Take the recipe's code as it is now, not the original run's.")


class Changing:
    """The tools of this family."""

    def __init__(  # noqa: PLR0913 - a change touches all of these
        self,
        runs: Runs,
        service: RunService,
        control: Control,
        bundles: Bundles,
        engines: Engines,
        data: DataFiles,
        blobs: Blobs,
        files: ArtifactWriter,
    ) -> None:
        """`control` knows whose run it is; `blobs` has what people attached; `files` hands over long diffs."""
        self._runs = runs
        self._service = service
        self._control = control
        self._bundles = bundles
        self._engines = engines
        self._data = data
        self._blobs = blobs
        self._files = files

    def tools(self) -> Sequence[Tool]:
        """Their declarations."""
        return (
            Tool(
                "update_script",
                "Change a run's train.py (whole text, attached file, or exact replacements) and ask for approval of "
                "the diff. A live run is paused with a checkpoint; the old script is kept. Read it with run_script.",
                UpdateArguments,
                Effect.SPEND,
                plan=self.plan_update,
                execute=self.update,
                limit_s=PLAN_LIMIT_S,
                cost=_cost_of_update,
            ),
            Tool(
                "clone_run",
                "Plan a new run like an earlier one with changes (settings, data, seed, hours …) and ask for approval.",
                CloneArguments,
                Effect.SPEND,
                plan=self.plan_clone,
                execute=self.clone,
                limit_s=PLAN_LIMIT_S,
                cost=cost_of,
            ),
        )

    async def plan_update(self, caller: Caller, asked: UpdateArguments) -> Plan:
        """The exact new script and its diff; nothing is stopped or changed.

        Raises:
            BadRequest: the script is no Python program, or changes nothing.
            Conflict, NotAllowed, NotFound: it is not the time, the person or the run for it.
        """
        run = await named_or_newest(self._runs, caller, asked.run)
        await self._control.owned(caller, run, "change its program; `clone` makes a run of your own from it")
        with_new_program(run)  # refused now, not after people were asked
        entry = run.spec.entry
        before = await self._bundles.read(run.spec.bundle_sha256, entry)
        after = await self._asked_for(caller, asked, before)
        check(after, name=entry)
        refuse_marks(before, after)
        if after == before:
            raise BadRequest(f"This is the script that run `{run.id}` has already; nothing would change.")
        new = await self._bundles.replace(run.spec.bundle_sha256, {entry: after})
        diff = diff_of(before, after, name=entry)
        exact: dict[str, JsonValue] = {"run": run.id, "bundle_sha256": new, "was": run.spec.bundle_sha256}
        whole: tuple[Document, ...] = ()
        if diff.cut:
            whole = (await self._files.document(diff.text, name=f"{run.id}-changes.diff", about=run.id),)
        return Plan(exact, update_card(run, diff, why=asked.why, kinds=without_secrets(after)[1]), whole)

    async def _asked_for(self, caller: Caller, asked: UpdateArguments, before: str) -> str:
        """The new script from whichever kind of change was given."""
        given = [name for name in ("script", "file", "replace") if getattr(asked, name)]
        if len(given) > 1:
            raise BadRequest(f"Give the change once: these say it twice: {', '.join(given)}.")
        if asked.replace:
            return replaced(before, asked.replace)
        if asked.script:
            return asked.script if asked.script.endswith("\n") else asked.script + "\n"
        return await self._attached(await self._data.script(caller.session_id, asked.file))

    async def _attached(self, file: DatasetRef) -> str:
        if file.size_bytes > SCRIPT_BYTES:
            raise BadData(f"`{file.name}` has {file.size_bytes:,} bytes; a training script may have {SCRIPT_BYTES:,}.")
        path = await self._blobs.get(file.sha256)
        try:
            return path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise BadData(f"`{file.name}` is not UTF-8 text (byte {error.start:,}). Save it as UTF-8.") from error

    async def update(self, _caller: Caller, exact: dict[str, JsonValue], _token: str) -> Result:
        """Give the run its approved script. Raises `Conflict` when the run has another script than was shown."""
        run_id, new, was = (str(exact[name]) for name in ("run", "bundle_sha256", "was"))
        text = await self._service.update_script(run_id, new, was=was)
        after = await self._runs.get(run_id)
        return Result(text, {"run": run_id, "state": after.state.value})

    async def plan_clone(self, caller: Caller, asked: CloneArguments) -> Plan:
        """The exact new run and what differs from the original; nothing is started."""
        original = await named_or_newest(self._runs, caller, asked.run)
        if (model := original.spec.model) is not None:
            raise BadRequest(
                f"`{original.id}` trained nothing. `evaluate {model.run}` and `batch {model.run}` ask its model again; "
                f"`clone {model.run}` trains one like it."
            )
        spec, host = await self._changed(caller, original.spec, asked)
        spec = spec.model_copy(update={"cloned_from": original.id})
        priority = PRIORITIES[asked.priority] if asked.priority else 0
        exact: dict[str, JsonValue] = {
            "spec": spec.model_dump(mode="json"),
            "priority": priority,
            "clone_of": original.id,
        }
        card = clone_card(original, spec, priority=priority, limits=host.limits_with(spec.gpus))
        return await planned(self._files, caller, exact, at_host(card, host))

    async def _changed(self, caller: Caller, before: RunSpec, asked: CloneArguments) -> tuple[RunSpec, HostInfo]:
        """The original's specification with what was asked otherwise, and a host that can keep to it."""
        place = self._engines.named(asked.engine or before.engine)
        settings = before.settings | {SHORT_NAMES.get(name, name): value for name, value in asked.settings.items()}
        changes: dict[str, object] = {
            "settings": {name: value for name, value in settings.items() if value is not None}
        }
        for name in ("seed", "test_frac", "max_hours", "gpus", "network", "secrets", "auto_resume"):
            if (value := getattr(asked, name)) is not None:
                changes[name] = value
        if before.script is not None:
            changes["script"] = await self._program(caller, before.script, asked)
        else:
            changes |= await self._recipe(caller, before, asked)
        spec = before.model_copy(update=changes)
        host = choose_host(
            await connected(place.hosts),
            [attempt.host for _, attempt in await self._runs.live()],
            await ledger(self._runs),
            gpus=spec.gpus,
            network=spec.network,
            secrets=spec.secrets,
            wanted=asked.host,
            preferred_host=before.host,
        )
        spec = RunSpec.model_validate(spec.model_dump() | {"host": host.host, "sandbox": host.sandbox})
        return await self._checked(priced(spec, place.engine), host), host

    async def _program(self, caller: Caller, before: Script, asked: CloneArguments) -> Script:
        """Somebody's own program with what it is given otherwise. Raises `BadRequest`, `NotFound`."""
        session_id, changes = caller.session_id, dict[str, object]()
        settings = {name: value for name, value in asked.settings.items() if value is not None}
        changes["arguments"] = _with_settings(before, settings)
        if asked.arguments is not None:
            changes["arguments"] = with_options(_with_settings(before, settings), arguments_of(asked.arguments))
        if asked.environment is not None:
            changes["environment"] = before.environment | environment_in(asked.environment)
        names = (asked.file,) if asked.file else asked.data
        if names is not None:
            changes["data"] = await data_named(self._data, session_id, names)
        if asked.requirements is not None:
            changes["requirements"] = await requirements_named(self._data, self._blobs, session_id, asked.requirements)
        return before.model_copy(update=changes)

    async def _recipe(self, caller: Caller, before: RunSpec, asked: CloneArguments) -> dict[str, object]:
        """Data, target and code of a recipe where they change. Raises `BadData`, `BadRequest`, `NotFound`."""
        if asked.arguments is not None:
            raise BadRequest("This run is of a recipe, which takes settings, such as `lr=0.1`, and no arguments.")
        for name in ("data", "requirements", "environment"):
            if getattr(asked, name) is not None:
                raise BadRequest(f"This run is of a recipe, which takes no `{name}`. Other data are `file=…`.")
        changes: dict[str, object] = {"bundle_sha256": await self._bundles.pack(before.recipe)} if asked.repack else {}
        dataset = await self._data.find(caller.session_id, asked.file) if asked.file else before.dataset
        target = asked.target or before.target
        if dataset is None or (dataset, target) == (before.dataset, before.target):
            return changes
        report = await self._data.report(dataset, target, before.task)
        if report.problems:
            raise BadData(" ".join(report.problems))
        known = {column.name for column in report.columns} - {target}
        dropped = dict.fromkeys((*before.drop_columns, *(leak.column for leak in report.leaks)))
        dropped_here = tuple(name for name in dropped if name in known)
        return changes | {"dataset": dataset, "target": target, "drop_columns": dropped_here}

    async def _checked(self, spec: RunSpec, host: HostInfo) -> RunSpec:
        """It with its time; a script of somebody's own knows settings of its own. Raises `BadData`: it cannot work."""
        if spec.script is not None:
            return spec
        usual = await self._bundles.read(await self._bundles.pack(spec.recipe), spec.entry)
        if await self._bundles.read(spec.bundle_sha256, spec.entry) != usual:
            await self._data.checked(spec.model_copy(update={"settings": {}}))
            return spec
        report = await self._data.checked(spec)
        return spec.model_copy(update={"estimate_s": estimate_s(report, spec, host)})

    async def clone(self, caller: Caller, exact: dict[str, JsonValue], token: str) -> Result:
        """Create the approved run; a repetition with the same token finds it."""
        return await start(self._runs, self._service, caller, exact, token)


def cost_of(exact: Mapping[str, JsonValue]) -> str:
    """What a new run costs, from its exact specification."""
    return cost_words(RunSpec.model_validate(exact["spec"]))


def _cost_of_update(exact: Mapping[str, JsonValue]) -> str:
    return f"what is left of the hours that were approved for {exact['run']}"


async def planned(files: ArtifactWriter, caller: Caller, exact: dict[str, JsonValue], card: Card) -> Plan:
    """The plan with its card; what a platform would cut of that is whole in a file beside it."""
    if shows_all(card):
        return Plan(exact, card)
    text = json.dumps(exact, indent=2, ensure_ascii=False)
    whole = await files.document(text, name="plan.json", about=caller.session_id)
    note = f"**There is more than fits here.** All that is approved is in the file `{whole.name}` with this card."
    return Plan(exact, card.model_copy(update={"body": f"{note}\n\n{card.body}".strip()}), (whole,))


async def start(runs: Runs, service: RunService, caller: Caller, exact: Mapping[str, JsonValue], token: str) -> Result:
    """Create a run from what was approved: its specification and its priority."""
    spec = RunSpec.model_validate(exact["spec"])
    priority = exact.get("priority", 0)
    run = await service.create(
        spec,
        session_id=caller.session_id,
        requester=caller.person.key,
        thread=caller.thread,
        token=token,
        priority=priority if isinstance(priority, int) else 0,
    )
    text = state_text(run)
    if run.state is not RunState.QUEUED and (attempts := await runs.attempts(run.id)):
        text = f"Started `{run.id}` on {attempts[-1].host}; its card follows the training."
    return Result(text, {"run": run.id, "state": run.state.value})


def arguments_of(line: str) -> tuple[str, ...]:
    """The words of a command line. Raises `BadRequest` where a quote is not closed."""
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise BadRequest(f"I cannot read the arguments `{line[:100]}`: {error}.") from None


def _with_settings(before: Script, settings: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Its command line with settings as the options that it had: `learning_rate` is `--learning-rate`, `--lr` or alike.

    Raises `BadRequest`: it had no such option.
    """
    line, had = before.arguments, {name for name, _ in _by_option(before.arguments)}
    for name, value in settings.items():
        names = [name, *(short for short, long in SHORT_NAMES.items() if long == name)]
        spelled = [word for one in names for word in (one, one.replace("_", "-"))]
        option = next((option for word in spelled for option in (f"--{word}", f"-{word}") if option in had), None)
        if option is None:
            raise BadRequest(
                f"`{before.name}` is somebody's own program, and its command line had no option for `{name}`. Give it "
                'other arguments, such as `args="--lr 0.1"`, or change it with `update`.'
            )
        line = with_options(line, (option, str(value)))
    return line


def with_options(before: Sequence[str], given: Sequence[str]) -> tuple[str, ...]:
    """A command line with other options: those of the same name are replaced, what is not named stays.

    What begins with no option, or with `--` alone, is a whole line; nothing is an empty one.
    """
    if not given or not _OPTION.match(given[0]):
        return tuple(given[1:] if given and given[0] == "--" else given)
    new: dict[str, list[str]] = {}
    for name, words in _by_option(given):
        new.setdefault(name, []).extend(words)
    named = frozenset(new)
    line = [new.pop(name, []) if name in named else words for name, words in _by_option(before)]
    return tuple(word for words in (*line, *new.values()) for word in words)


def _by_option(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The options of a command line by name, each with its values; what stands before the first has no name."""
    found: list[tuple[str, list[str]]] = []
    for word in words:
        if _OPTION.match(word) or not found:
            found.append((word.partition("=")[0] if _OPTION.match(word) else "", []))
        found[-1][1].append(word)
    return found


def program_facts(spec: RunSpec) -> list[Fact]:
    """What a run learns from, and what its program is given."""
    facts = [Fact(name="Data", value=spec.data_words)] if spec.data_words else []
    if spec.target:
        facts.append(Fact(name="Target", value=spec.target))
    if spec.script is None:
        return facts
    if spec.script.arguments:
        facts.append(Fact(name="Arguments", value=shlex.join(spec.script.arguments)))
    if spec.script.environment:
        words = ", ".join(f"{name}={value}" for name, value in spec.script.environment.items())
        facts.append(Fact(name="Environment", value=words))
    if spec.script.requirements:
        said = ", ".join(spec.script.requirements)
        facts.append(Fact(name="Requirements", value=f"{said}; what the host lacks is installed first, from wheels"))
    return facts


def update_card(run: Run, diff: Diff, *, why: str, kinds: Sequence[str] = ()) -> Card:
    """The diff, and what happens to the run when it is approved; `kinds` are of the secrets in the new script."""
    lines = [*([why] if why else []), *([warned_of(kinds)] if kinds else [])]
    if run.state in LIVE:
        lines.append(
            f"Run `{run.id}` is {state_words(run)}: it is paused with a checkpoint first, then goes on with it."
        )
    elif run.state in ENDED:
        lines.append(
            f"Run `{run.id}` {state_words(run)}: it is tried again with the new script, from its last checkpoint."
        )
    else:
        lines.append(f"Run `{run.id}` is {state_words(run)}: the new script is used when it goes on.")
    lines.append(
        f"The present script is kept as `train_v{run.script}.py`. Its syntax was checked; what it does was not."
    )
    if diff.cut:
        lines.append(f"{counted(diff.cut, 'more line')} of the diff: see the file with this card.")
    if gaps := gaps_words(run.spec.sandbox):
        lines.append(f"\n{gaps}")
    return Card(
        kind="approval",
        title=f"Change the script of {run.id}?",
        tone="busy",
        body="\n".join(lines),
        facts=(Fact(name="Change", value=diff.counts),),
        log=diff.shown,
    )


def clone_card(original: Run, spec: RunSpec, *, priority: int, limits: Limits | None = None) -> Card:
    """What differs from the original, and what the new run costs and may do."""
    rows = differences(original.spec, spec)
    if priority != original.priority:
        rows.append(("priority", priority_words(original.priority), priority_words(priority)))
    same = "" if rows else "Nothing differs from the original: it is the same run once more."
    return Card(
        kind="approval",
        title=f"Train {original.id} again with changes?" if rows else f"Train {original.id} once more?",
        tone="busy",
        body="\n\n".join(part for part in (same, gaps_words(spec.sandbox)) if part),
        facts=(
            *program_facts(spec),
            *spec_facts(spec, priority=priority, limits=limits),
        ),
        table=Table(columns=("what", "was", "becomes"), rows=tuple(rows)) if rows else None,
    )


def differences(before: RunSpec, after: RunSpec) -> list[tuple[str, str, str]]:
    """What differs between two specifications: name, before, after; settings by their own names."""
    rows = [
        (words, _shown(getattr(before, name), "–"), _shown(getattr(after, name), "–"))
        for name, words in SPEC_NAMES.items()
        if getattr(before, name) != getattr(after, name)
    ]
    names = dict.fromkeys((*before.settings, *after.settings))
    rows += [
        (name, _shown(before.settings.get(name)), _shown(after.settings.get(name)))
        for name in names
        if before.settings.get(name) != after.settings.get(name)
    ]
    if _data_of(before) != _data_of(after):
        was, becomes = before.data_words or "–", after.data_words or "–"
        rows.insert(0, ("data", was, becomes if was != becomes else "other contents"))
    if before.script and after.script:
        rows += [
            (name, _shown(old), _shown(new))
            for name in ("arguments", "environment", "requirements")
            if (old := getattr(before.script, name)) != (new := getattr(after.script, name))
        ]
    return rows


def _data_of(spec: RunSpec) -> list[DatasetRef]:
    return [*([spec.dataset] if spec.dataset else []), *(spec.script.data if spec.script else ())]


def _shown(value: object, none: str = "default") -> str:
    if value is None:
        return none
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, dict):
        value = tuple(f"{name}={one}" for name, one in value.items())
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "–"
    text = str(value)
    return text[:12] if len(text) == 64 else text
