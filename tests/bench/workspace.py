"""A local Slack that notes when the bot's words arrive, and the two bots that connect to it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from aiohttp import web

from tests.bench.processes import clean_environment, python
from tests.platforms.slack_server import SlackServer

BOT = ("-c", "from bot.start import main; main()", "bot")
BARE = ("-m", "tests.bench.bare_bolt")
SPEAKING = frozenset({"chat.postMessage", "chat.startStream"})
LIMIT_S = 60.0


class Workspace(SlackServer):
    """`spoke` has when each message of the bot arrived, before it was handled."""

    def __init__(self) -> None:
        """Slack's rates are lifted: this is no test of them."""
        super().__init__(rate_scale=1000.0, ack_deadline_s=30.0)
        self.spoke: list[float] = []

    async def _api(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["method"] in SPEAKING:
            self.spoke.append(time.perf_counter())
        return await super()._api(request)

    async def until(self, true: Callable[[], object]) -> None:
        """Look every millisecond. Raises `RuntimeError` at the limit."""
        end = time.monotonic() + LIMIT_S
        while not true():
            if time.monotonic() > end:
                raise RuntimeError("waited in vain; Slack shows:\n" + self.transcript())
            await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def connected_to(slack: SlackServer, argv: tuple[str, ...], log: Path, **settings: str) -> AsyncIterator[None]:
    """A bot as a process, on its way to `slack`, which goes on while the bot says goodbye."""
    env = clean_environment(
        SLACK_BOT_TOKEN=slack.bot_token, SLACK_APP_TOKEN=slack.app_token, SLACK_API_URL=slack.url, **settings
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(python(*argv, log=log, env=env))
        try:
            yield
        finally:
            await asyncio.to_thread(stack.close)
