"""Who may do what: one table for every caller, whether a model, a slash command or a button."""

from collections.abc import Mapping
from enum import StrEnum

from agent.domain.inbound import Person, Thread


class Effect(StrEnum):
    """What a tool does to the world."""

    READ = "read"
    WRITE = "write"
    SPEND = "spend"
    DESTROY = "destroy"


class Role(StrEnum):
    """As what somebody calls a tool: of the team, a guest of another organisation, or nobody (the monitor's turns)."""

    MEMBER = "member"
    GUEST = "guest"
    MONITOR = "monitor"


# Who may call a tool that does not say so itself. What the monitor spends is asked about first, like anybody's.
ROLES: Mapping[Effect, frozenset[Role]] = {
    Effect.READ: frozenset(Role),
    Effect.WRITE: frozenset({Role.MEMBER}),
    Effect.SPEND: frozenset({Role.MEMBER, Role.MONITOR}),
    Effect.DESTROY: frozenset({Role.MEMBER}),
}


def role_of(person: Person, *, unattended: bool) -> Role:
    """A guest stays one in a turn that nobody asked for (`unattended`), whose person is who started the run."""
    if person.external:
        return Role.GUEST
    return Role.MONITOR if unattended else Role.MEMBER


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


class SecondPerson(StrEnum):
    """What somebody else than who asked has to decide: nothing, what spends, or whatever is asked about."""

    NEVER = "never"
    SPEND = "spend"
    ALWAYS = "always"

    def needed(self, effect: Effect) -> bool:
        """Whether who asked for a tool with this effect may not approve it."""
        return self is SecondPerson.ALWAYS or (self is SecondPerson.SPEND and effect is Effect.SPEND)


def may_control(person: Person, *, requester: str, approvers: frozenset[str], thread: Thread) -> bool:
    """Whether this person may end somebody's run, or change the program that it executes: the same people.

    `thread` is the run's. Pausing, resuming and retrying lose nothing and are open to the whole team.
    """
    return may_decide(person, requester=requester, approvers=approvers, thread=thread)
