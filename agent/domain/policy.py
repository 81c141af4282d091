"""Who may do what: one table for every caller, whether a model, a slash command or a button."""

from enum import StrEnum

from agent.domain.rooms import Person


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


def judge(effect: Effect, *, person: Person) -> Verdict:
    """What costs GPU time or destroys something is asked first; a guest of another organisation only reads."""
    if effect is Effect.READ:
        return Verdict.ALLOW
    if person.external:
        return Verdict.DENY
    return Verdict.ALLOW if effect is Effect.WRITE else Verdict.ASK


def may_decide(person: Person, *, requester: str, approvers: frozenset[str]) -> bool:
    """Whether this person may answer an approval: who asked, or a named approver; never a guest."""
    return not person.external and (person.key == requester or person.key in approvers or person.id in approvers)
