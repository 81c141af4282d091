"""Stores what each call of a language model cost, with its turn. Called by the turn loop and the compactor."""

from agent.ports import Clock, ModelReply
from agent.stores import ModelCall, ModelUsage, Turn


class Bills:
    """Writes one row for each call."""

    def __init__(self, usage: ModelUsage, clock: Clock) -> None:
        """`usage` is the store of calls."""
        self._usage = usage
        self._clock = clock

    async def add(self, turn: Turn, reply: ModelReply) -> None:
        """Store the cost of a reply. Call it no later than the reply is stored: one that is lost was paid for too."""
        if reply.tokens_in or reply.tokens_out:
            now = self._clock.now()
            await self._usage.add(ModelCall(turn, reply.model, reply.tokens_in, reply.tokens_out, reply.cost_usd, now))
