"""What answers of models cost, stored for their turns. Called by the turn loop and by the compactor."""

from agent.ports import Clock, ModelReply
from agent.stores import ModelCall, ModelUsage, Turn


class Bills:
    """Takes them down."""

    def __init__(self, usage: ModelUsage, clock: Clock) -> None:
        """It keeps nothing itself."""
        self._usage = usage
        self._clock = clock

    async def add(self, turn: Turn, reply: ModelReply) -> None:
        """Store what a reply cost, before the reply itself: one that is lost or of no use was paid for too."""
        if reply.tokens_in or reply.tokens_out:
            now = self._clock.now()
            await self._usage.add(ModelCall(turn, reply.model, reply.tokens_in, reply.tokens_out, reply.cost_usd, now))
