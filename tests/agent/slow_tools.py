"""Tools that wait until a test lets them go on."""

import asyncio
from collections.abc import Sequence

from agent.domain.errors import BadRequest
from agent.domain.policy import Effect
from agent.tools.tool import Arguments, Caller, Result, Tool


class What(Arguments):
    what: str = ""


class SlowTools:
    """`look` reads at once, `look_long` reads and `change` writes once `go_on` is set."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.begun: list[str] = []
        self.ended: list[str] = []

    def tools(self) -> Sequence[Tool]:
        return (
            Tool("look", "Look.", What, Effect.READ, run=self._look),
            Tool("look_long", "Look long.", What, Effect.READ, run=self._wait),
            Tool("change", "Change it.", What, Effect.WRITE, run=self._wait, quotes=False),
        )

    async def _look(self, caller: Caller, asked: What) -> Result:
        return Result(f"saw {asked.what}")

    async def _wait(self, caller: Caller, asked: What) -> Result:
        self.begun.append(asked.what)
        await self.go_on.wait()
        if asked.what == "fails":
            raise BadRequest("It did not work.")
        self.ended.append(asked.what)
        return Result(f"ended {asked.what}")
