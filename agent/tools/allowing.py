"""The tool that shows and sets what is approved by itself in this thread, and up to which price."""

from collections.abc import Sequence

from pydantic import Field

from agent.cards import usd
from agent.domain.approvals import Allowance
from agent.domain.errors import BadRequest, NotAllowed
from agent.domain.policy import Effect, Right
from agent.runs.allowances import AllowanceService
from agent.tools.members import Members
from agent.tools.tool import Arguments, Caller, Result, Tool

NOTHING = (
    "I ask before anything starts here. `auto usd=5` lets me start what costs up to $5.00 in all without asking; the "
    "button *Always here* of a card does it for its kind of job."
)
SECOND = (
    "Here somebody else, or several people, decide about what costs (the settings say so), so nothing starts unasked."
)
NOT_YOURS = "You may not start what costs, so you cannot let me do it unasked."


class AutoArguments(Arguments):
    """Without arguments the tool shows what is approved by itself."""

    usd: float | None = Field(None, ge=0, le=1e6, description="Dollars in all that may be spent unasked.")
    off: bool = Field(False, description="Ask about everything again.")


class Allowing:
    """The tools of this family."""

    def __init__(self, allowances: AllowanceService, members: Members) -> None:
        """`members` says who may start what costs."""
        self._allowances = allowances
        self._members = members

    def tools(self) -> Sequence[Tool]:
        """Their declarations."""
        return (
            Tool(
                "set_allowance",
                "What starts in this thread without asking.",
                AutoArguments,
                Effect.WRITE,
                run=self.set,
                offered=False,
            ),
        )

    async def set(self, caller: Caller, asked: AutoArguments) -> Result:
        """Set what is said, and tell what holds then."""
        if not caller.session_id:
            raise BadRequest("That is set for a thread. Say it in one with me: `@trainyard auto usd=5`.")
        if asked.off:
            await self._allowances.end(caller.thread)
        elif asked.usd is not None:
            if not self._allowances.in_force:
                raise NotAllowed(SECOND)
            if Right.LAUNCH not in await self._members.rights(caller.person, caller.thread):
                raise NotAllowed(NOT_YOURS)
            await self._allowances.allow(caller.thread, caller.person, cap_usd=asked.usd)
        found = await self._allowances.of(caller.thread)
        lines = [f"- {_words(one, spent)}" for one, spent in found]
        return Result(
            "\n".join(("Without asking I start here:", *lines, "", "`auto off` ends that.")) if lines else NOTHING
        )


def _words(one: Allowance, spent: float) -> str:
    what = f"every `{one.tool}`" if one.tool else f"what has a known price, up to {usd(one.cap_usd or 0)} in all"
    return f"{what} ({usd(spent)} used or set aside), as {one.name} said"
