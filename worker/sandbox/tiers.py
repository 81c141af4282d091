"""The tiers, from the strongest: `bwrap`, `landlock`, `none`. A tier counts only while its self-test passes.

Owns the choice and that it is never lowered in silence. Called by the worker's composition root, by supervisors and by
inspect and predict. `none` protects from nothing: a script there can do what the worker can do.
"""

import logging
from collections.abc import Sequence

from agent.domain.runs import Network
from worker.sandbox import bubblewrap, landlock, selftest
from worker.sandbox.walls import Command, NoSandbox, Walls

_STRONGEST_FIRST = ("bwrap", "landlock", "none")
_COMMANDS = {"bwrap": bubblewrap.command, "landlock": landlock.command}

log = logging.getLogger(__name__)


def choose_tier(wanted: str) -> str:
    """`wanted`, or for `auto` the strongest tier that passes its self-test. `none` is taken only by its name.

    Raises:
        NoSandbox: what was wanted does not work; it is never replaced by less.
    """
    if wanted == "none":
        return "none"
    tried = ("bwrap", "landlock") if wanted == "auto" else (wanted,)
    reasons: list[str] = []
    for tier in tried:
        why = why_not(tier)
        if not why:
            if reasons:
                log.warning("sandbox_tier tier=%s because %s", tier, "; ".join(reasons))
            return tier
        reasons.append(f"{tier}: {why}")
    what = (
        "No sandbox works on this host"
        if wanted == "auto"
        else f"TRAINYARD_SANDBOX is {wanted}, which does not work here"
    )
    raise NoSandbox(
        f"{what} ({'; '.join(reasons)}). Install or allow bubblewrap (Debian and Ubuntu: apt-get install bubblewrap), "
        "or use a kernel with Landlock (6.2 or later). To run scripts with no walls at all, on a machine whose files "
        "and network they may have, set TRAINYARD_SANDBOX=none."
    )


def tier_for(setting: str, approved: str) -> str:
    """The tier of one attempt: what the host's setting gives now, if that is no less than what was approved.

    Raises:
        NoSandbox: nothing works, or only less than people agreed to.
    """
    tier = choose_tier(setting)
    if not at_least(tier, approved):
        raise NoSandbox(
            f"This run was approved with the sandbox {approved}, and the host has only {tier} now. Mend it there "
            "(`trainyard doctor`, the worker's log), or start the run anew and approve what the host has."
        )
    return tier


def why_not(tier: str) -> str:
    """Why a tier cannot be used here, empty when its self-test passed. Tested once a process."""
    return selftest.verdict(tier, wrap)


def wrap(tier: str, argv: Sequence[str], walls: Walls) -> Command:
    """The command that runs `argv` behind `walls`. Start it as `handed_over` says, with the environment `Command.env`.

    Raises:
        NoSandbox: there is no such tier, or it cannot give this network policy.
    """
    if tier == "none":
        return Command(tuple(argv), env=dict(walls.env), inside=dict(walls.env))
    if tier not in _COMMANDS:
        raise NoSandbox(f"There is no sandbox {tier}. TRAINYARD_SANDBOX is auto, bwrap, landlock or none.")
    return _COMMANDS[tier](argv, walls)


def networks_of(tier: str) -> tuple[Network, ...]:
    """The network policies that a run can have there. `none` as a tier enforces none of them, as `gaps_of` says."""
    return ("none", "open") if tier == "none" else ("none", "hub", "open")


def at_least(tier: str, wanted: str) -> bool:
    """Whether a tier is as strong as another. A tier that nobody knows is weaker than any."""
    if tier not in _STRONGEST_FIRST:
        return False
    return wanted in _STRONGEST_FIRST and _STRONGEST_FIRST.index(tier) <= _STRONGEST_FIRST.index(wanted)
