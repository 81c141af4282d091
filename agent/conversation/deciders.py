"""Who may decide a question: the person who asked, or an approver, or somebody else than who asked."""

from agent.domain.approvals import Approval
from agent.domain.errors import NotAllowed
from agent.domain.inbound import Person
from agent.domain.policy import Effect, Right, SecondPerson, may_decide
from agent.stores import Conversations, Turn
from agent.tools.dispatch import Dispatcher
from agent.tools.members import Members


class Deciders:
    """Compares a person with what a question needs."""

    def __init__(
        self, conversations: Conversations, dispatcher: Dispatcher, members: Members, second_person: SecondPerson
    ) -> None:
        """Approvers among the `members` may decide for others; `second_person` says where they have to."""
        self._conversations = conversations
        self._dispatcher = dispatcher
        self._members = members
        self._second_person = second_person

    async def may(self, approval: Approval, person: Person) -> bool:
        """Whether this question waits for this person."""
        turn = await self._conversations.turn(approval.turn_id)
        if self._needs_another(approval, turn, person):
            return False
        rights = await self._members.rights(person, turn.thread)
        spends = self._dispatcher.effect(approval.tool) is Effect.SPEND
        return may_decide(person, requester=approval.requester, rights=rights, spends=spends)

    def _needs_another(self, approval: Approval, turn: Turn, person: Person) -> bool:
        """Whether this person asked for what somebody else has to decide."""
        return person.key == turn.person.key and self._second_person.needed(self._dispatcher.effect(approval.tool))

    async def check(self, approval: Approval, turn: Turn, person: Person) -> None:
        """Raises `NotAllowed` for whom this question does not wait."""
        if self._needs_another(approval, turn, person):
            known = self._members.who(Right.APPROVE)
            raise NotAllowed(f"You asked for this, so somebody else decides it: an approver ({known}).")
        if not await self.may(approval, person):
            if person.key == approval.requester and not person.external:
                raise NotAllowed(
                    "You may ask for what costs, but not start it: an approver decides "
                    f"({self._members.who(Right.APPROVE)})."
                )
            who = "who asked" if approval.requester == turn.person.key else "whose run this is"
            raise NotAllowed(f"Only the person {who}, or an approver, can decide this.")
