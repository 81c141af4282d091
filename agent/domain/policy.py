"""Who may do what: one table for every caller, whether a model, a slash command or a button."""

from enum import StrEnum

from agent.domain.inbound import Person, Thread


class Effect(StrEnum):
    """What a tool does to the world."""

    READ = "read"
    WRITE = "write"
    SPEND = "spend"
    DESTROY = "destroy"


class Verdict(StrEnum):
    """What the policy says to a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


def judge(effect: Effect, *, person: Person, unattended: bool = False) -> Verdict:
    """What costs GPU time or destroys something is asked first; a guest of another organisation only reads.

    `unattended` is a turn that nobody asked for (the monitor's): it may look and propose, and changes nothing itself.
    """
    if effect is Effect.READ:
        return Verdict.ALLOW
    if person.external or (unattended and effect is not Effect.SPEND):
        return Verdict.DENY
    return Verdict.ALLOW if effect is Effect.WRITE else Verdict.ASK


def may_read(person: Person, *, here: Thread, home: Thread, workspace: bool) -> bool:
    """Whether this person, who speaks `here`, may hear of a run whose card is in `home`.

    A run belongs to its channel: elsewhere others would read along who are not in it, so not even its owner is shown it
    there. `workspace` opens runs to all channels of the same workspace, but never to guests of another organisation.
    """
    if (here.platform, here.channel) == (home.platform, home.channel):
        return True
    return workspace and not person.external and (here.platform, here.tenant) == (home.platform, home.tenant)


def is_approver(person: Person, approvers: frozenset[str]) -> bool:
    """Whether the settings name this person: by the whole key (platform/tenant/id) or by tenant/id."""
    return not person.external and (person.key in approvers or f"{person.tenant}/{person.id}" in approvers)


def may_decide(person: Person, *, requester: str, approvers: frozenset[str], thread: Thread) -> bool:
    """Whether this person may answer an approval: who asked, or a named approver; never a guest.

    A bare id in `approvers` counts for people of the workspace that the question stands in: the same id may be
    somebody else's in another one.
    """
    if person.external:
        return False
    at_home = (person.platform, person.tenant) == (thread.platform, thread.tenant)
    return person.key == requester or is_approver(person, approvers) or (at_home and person.id in approvers)


def may_control(person: Person, *, requester: str, approvers: frozenset[str], thread: Thread) -> bool:
    """Whether this person may end somebody's run, or change the program that it executes: the same people.

    `thread` is the run's. Pausing, resuming and retrying lose nothing and are open to the whole team.
    """
    return may_decide(person, requester=requester, approvers=approvers, thread=thread)
