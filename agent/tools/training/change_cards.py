"""Cards that ask about a change: what differs, and what it means for the run. Pure."""

import shlex
from collections.abc import Sequence

from agent.cards import counted, gaps_words, number, priority_words, spec_facts
from agent.domain.content import Card, Fact, Table
from agent.domain.datasets import DatasetRef
from agent.domain.orders import Limits
from agent.domain.runs import ENDED, LIVE, Run, RunSpec
from agent.runs.cards.run_cards import state_words
from agent.tools.training.scripts import Diff, warned_of

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
