"""Where a step may reach: its run's folder and the libraries behind walls (`bwrap`, `landlock`), or everything
(`none`).

This file is what others import. The tiers are in `bubblewrap` and `landlock`, the filter of system calls in
`seccomp`, what is asked for in `walls`, the choice and its self-test in `tiers` and `selftest`.
"""

from agent.domain.walls import gaps_of
from worker.sandbox.tiers import at_least, choose_tier, networks_of, tier_for, wrap
from worker.sandbox.walls import Command, NoSandbox, Walls, handed_over

__all__ = [
    "Command",
    "NoSandbox",
    "Walls",
    "at_least",
    "choose_tier",
    "gaps_of",
    "handed_over",
    "networks_of",
    "tier_for",
    "wrap",
]
