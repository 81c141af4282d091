"""The peer of a Slack bot: slack-bolt with one handler and nothing behind it. Run as a process of its own."""

import asyncio
import os
from collections.abc import Awaitable, Callable

from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient


def make_app(url: str, token: str) -> AsyncApp:
    """Answers a mention in its thread; the message events that Slack sends besides are taken and dropped."""
    app = AsyncApp(client=AsyncWebClient(token=token, base_url=url))

    @app.event("app_mention")
    async def answer(event: dict[str, str], say: Callable[..., Awaitable[object]]) -> None:
        await say(text=f"You said: {event['text']}", thread_ts=event["ts"])

    @app.event("message")
    async def drop() -> None:
        return None

    return app


async def main() -> None:
    """Serve until SIGTERM."""
    url, app_token = os.environ["SLACK_API_URL"], os.environ["SLACK_APP_TOKEN"]
    app = make_app(url, os.environ["SLACK_BOT_TOKEN"])
    handler = AsyncSocketModeHandler(app, app_token, web_client=AsyncWebClient(token=app_token, base_url=url))
    await handler.start_async()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    asyncio.run(main())
