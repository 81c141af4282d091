"""Who may do what: one table for every caller, whether a model, a slash command or a button."""

import re
from collections.abc import Collection, Mapping
from enum import StrEnum

from agent.domain.inbound import Person, Thread
from agent.domain.value import Value

_WHO = re.compile(r"\*|group:[\w-]+|[\w-]+(?:/[\w.-]+){0,2}(?:/\*)?", re.ASCII)
_ID = re.compile(r"[\w-]+", re.ASCII)


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


class Right(StrEnum):
    """What people may do with the bot; each includes those before it.

    `ask`: talk to it, look, and ask for what costs; `launch`: decide about what they asked for themselves; `approve`:
    decide for others too, and end their runs; `admin`: set budgets.
    """

    ASK = "ask"
    LAUNCH = "launch"
    APPROVE = "approve"
    ADMIN = "admin"


class Grant(Value):
    """Who has a right, and in which channel; an empty one means everywhere, and alone holds where no channel is.

    `who` is a person by id, tenant/id or platform/tenant/id, a group of the platform (a Slack user group, a Discord
    role) as `group:ID`, everybody as `*`, or everybody of a platform or workspace, as in `slack/T1/*`.
    """

    who: str
    channel: str = ""

    def holds(self, person: Person, thread: Thread, groups: Collection[str]) -> bool:
        """Whether this person has it in this thread; `groups` are those that the person is in.

        A bare id counts for people of the workspace that the thread is in: the same id may be somebody else's in
        another one.
        """
        if self.channel not in {"", thread.channel}:
            return False
        if self.who.startswith(GROUP):
            return self.who.removeprefix(GROUP) in groups
        if self.who.endswith("*"):
            return person.key.startswith(self.who.removesuffix("*"))
        at_home = (person.platform, person.tenant) == (thread.platform, thread.tenant)
        return self.who in {person.key, f"{person.tenant}/{person.id}"} or (at_home and self.who == person.id)


GROUP = "group:"
EVERYBODY = frozenset({Grant(who="*")})


class Grants(Value):
    """Who has which right. Usually everybody asks and launches, and nobody decides for others."""

    ask: frozenset[Grant] = EVERYBODY
    launch: frozenset[Grant] = EVERYBODY
    approve: frozenset[Grant] = frozenset()
    admin: frozenset[Grant] = frozenset()

    @property
    def groups(self) -> frozenset[str]:
        """The groups that are named, by their ids."""
        named = (grant.who for grant in self.ask | self.launch | self.approve | self.admin)
        return frozenset(who.removeprefix(GROUP) for who in named if who.startswith(GROUP))

    def holders(self, right: Right) -> frozenset[Grant]:
        """Who was given this right by its name."""
        by_right = {Right.ASK: self.ask, Right.LAUNCH: self.launch, Right.APPROVE: self.approve}
        return by_right.get(right, self.admin)

    def of(self, person: Person, thread: Thread, groups: Collection[str]) -> frozenset[Right]:
        """What a person may do in a thread; a guest of another organisation asks at most."""
        order = tuple(Right)
        held = [right for right in order if any(one.holds(person, thread, groups) for one in self.holders(right))]
        if not held:
            return frozenset()
        return frozenset(order[: 1 if person.external else order.index(held[-1]) + 1])


def grants_of(text: str) -> frozenset[Grant]:
    """Read a list such as `U1, group:S2@C3`: who, and behind an @ the channel.

    Raises:
        ValueError: an entry cannot be read.
    """
    found = set()
    for entry in (part.strip() for part in text.split(",")):
        who, _, channel = entry.partition("@")
        if not entry:
            continue
        if not _WHO.fullmatch(who) or (channel and not _ID.fullmatch(channel)) or entry.endswith("@"):
            raise ValueError(
                f"`{entry[:60]}` is nobody. Write the id of a person (U012AB, or T012AB/U012AB), of a group "
                "(group:S012AB), or * for everybody, and behind an @ the id of a channel, with commas between them."
            )
        found.add(Grant(who=who, channel=channel))
    return frozenset(found)


def may_decide(person: Person, *, requester: str, rights: Collection[Right], spends: bool) -> bool:
    """Whether this person may answer an approval: who asked, or an approver; never a guest.

    About what `spends` who asked decides only with the right to launch.
    """
    if person.external:
        return False
    return Right.APPROVE in rights or (person.key == requester and (Right.LAUNCH in rights or not spends))


class SecondPerson(StrEnum):
    """What somebody else than who asked has to decide: nothing, what spends, or whatever is asked about."""

    NEVER = "never"
    SPEND = "spend"
    ALWAYS = "always"

    def needed(self, effect: Effect) -> bool:
        """Whether who asked for a tool with this effect may not approve it."""
        return self is SecondPerson.ALWAYS or (self is SecondPerson.SPEND and effect is Effect.SPEND)


def may_control(person: Person, *, requester: str, rights: Collection[Right]) -> bool:
    """Whether this person may end somebody's run, or change the program that it executes: its owner, or an approver.

    Pausing, resuming and retrying lose nothing and are open to the whole team.
    """
    return may_decide(person, requester=requester, rights=rights, spends=False)
