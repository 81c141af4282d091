"""What the tiers of the sandbox do not keep in, in words for people who approve.

Owns the sentences only: the walls themselves, and the probes that the sentences come from, are the hosts'
(`worker.sandbox`). Read by approval cards and, through `worker.sandbox.gaps_of`, by hosts.
"""

_GAPS: dict[str, tuple[str, ...]] = {
    "bwrap": (),
    "landlock": (
        "Names, command lines and resource use of the host's other processes are visible to it (not their memory, "
        "files or environment).",
        "It shares /dev/shm with the host's other processes of the same user.",
        "Files of its own run folder that only the supervisor should change can be changed by it.",
        "No socket can be opened on the loopback unless the network is open, so training on several GPUs does not "
        "work.",
    ),
    "none": ("Nothing is closed to it: it can read, change and reach whatever the worker can, the network too.",),
}
_UNKNOWN = ("Nothing is known of this sandbox, so expect nothing of it.",)


def gaps_of(tier: str) -> tuple[str, ...]:
    """What a tier does not stop and people may expect it to, as sentences for an approval card."""
    return _GAPS.get(tier, _UNKNOWN)
