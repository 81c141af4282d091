"""Who may decide a question: the person who asked, or an approver, or somebody else than who asked."""

from agent.conversation.context import since_request
from agent.domain.approvals import Approval
from agent.domain.errors import NotAllowed
from agent.domain.inbound import Person
from agent.domain.policy import Effect, Right, SecondPerson, may_decide
from agent.ports import Role
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
        return not await self._asked_for(approval, turn, person) and await self._holds(approval, turn, person)

    async def _holds(self, approval: Approval, turn: Turn, person: Person) -> bool:
        rights = await self._members.rights(person, turn.thread)
        spends = self._dispatcher.effect(approval.tool) is Effect.SPEND
        return may_decide(person, requester=approval.requester, rights=rights, spends=spends)

    async def _asked_for(self, approval: Approval, turn: Turn, person: Person) -> bool:
        """Whether this person asked for what somebody else has to decide, said something to it, or changed its plan."""
        if not self._second_person.needed(self._dispatcher.effect(approval.tool)):
            return False
        if person.key in {turn.person.key, *approval.edited_by}:
            return True
        context = await self._conversations.resume_turn(turn)
        said = since_request(context.history if context else ())
        answers = {call.id for message in said for call in message.calls if call.name == "ask_user"}
        return any(one.steers == person.key and (one.role is Role.USER or one.call_id in answers) for one in said)

    async def check(self, approval: Approval, turn: Turn, person: Person) -> None:
        """Raises `NotAllowed` for whom this question does not wait."""
        if await self._asked_for(approval, turn, person):
            known = self._members.who(Right.APPROVE)
            part = "asked for this" if person.key == turn.person.key else "had a part in this"
            raise NotAllowed(f"You {part}, so somebody else decides it: an approver ({known}).")
        if not await self._holds(approval, turn, person):
            if person.key == approval.requester and not person.external:
                raise NotAllowed(
                    "You may ask for what costs, but not start it: an approver decides "
                    f"({self._members.who(Right.APPROVE)})."
                )
            who = "who asked" if approval.requester == turn.person.key else "whose run this is"
            raise NotAllowed(f"Only the person {who}, or an approver, can decide this.")
