"""Calls of Slack's Web API: one HTTP session, our rate limits, Slack's `Retry-After`, our errors.

Connection failures are never retried here: whether a message was posted is then unknown, and the outbox asks `find`.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from agent.domain.errors import AppError, TransientError, Unavailable
from bot.slack.errors import rate_limited, refusal
from bot.slack.limiter import RATES, Limiter, Rate

PATIENCE_S = 10.0  # the longest `Retry-After` that a call sits out; the caller is told about a longer one
TRIES = 3
TIMEOUT_S = 30.0
READS = {
    "conversations.history",
    "conversations.replies",
    "files.info",
    "usergroups.users.list",
    "users.conversations",
    "users.info",
}  # these take no JSON body


class SlackApi:
    """`call` for the Web API, `session` for plain HTTP. Opens its session when first used and again after `close`."""

    def __init__(self, *, token: str, base_url: str, rates: Mapping[str, Rate] = RATES) -> None:
        self.token = token
        self.base_url = base_url if base_url.endswith("/") else base_url + "/"
        self.bot_name = "the bot"
        self.bot_id = ""
        self.bot_user = ""
        self.client = AsyncWebClient(token=token, base_url=self.base_url, timeout=int(TIMEOUT_S), retry_handlers=[])
        self._rates = rates
        self._limiter: Limiter | None = None
        self._session: aiohttp.ClientSession | None = None

    @property
    def limiter(self) -> Limiter:
        """The buckets, on the running loop's clock."""
        if self._limiter is None:
            self._limiter = Limiter(asyncio.get_running_loop().time, rates=self._rates)
        return self._limiter

    @property
    def session(self) -> aiohttp.ClientSession:
        """The HTTP session that all calls share."""
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S))
            self.client.session = self._session
        return self._session

    async def close(self) -> None:
        """Let go of the connections; a later call opens new ones."""
        if self._session is not None:
            await self._session.close()

    async def call(self, method: str, /, **arguments: object) -> dict[str, Any]:
        """The answer's data. Raises `RateLimited`, `Unavailable`, `TransientError` or an `AppError` with a sentence."""
        return _data(await self._with_retry(method, arguments))

    async def call_once(self, method: str, /, **arguments: object) -> dict[str, Any]:
        """As `call`, but raises at once on any `Retry-After`: for calls that are not needed."""
        return _data(await self._with_retry(method, arguments, patience_s=0.0))

    async def identity(self) -> tuple[dict[str, Any], frozenset[str]]:
        """Who the token is, and its scopes. Raises as `call` does."""
        answer = await self._with_retry("auth.test", {})
        scopes = str(answer.headers.get("x-oauth-scopes", "")).split(",")
        return _data(answer), frozenset(scope.strip() for scope in scopes if scope.strip())

    async def _with_retry(
        self,
        method: str,
        arguments: Mapping[str, object],
        *,
        patience_s: float = PATIENCE_S,
    ) -> AsyncSlackResponse:
        channel = str(arguments.get("channel", ""))
        for attempt in range(1, TRIES + 1):
            if (held_s := self.limiter.delay_s(method, channel)) > PATIENCE_S:
                raise rate_limited(method, held_s)
            await self.limiter.wait(method, channel)
            try:
                return await self._once(method, arguments)
            except SlackApiError as error:
                wait_s = self._retry_after_s(error)
                if wait_s is None:
                    translated = self._translated(method, error)
                    raise translated from (translated.__cause__ or error)
                self.limiter.hold(method, channel, wait_s)
                if attempt == TRIES or wait_s > patience_s:
                    raise rate_limited(method, wait_s) from error
                continue
            except (aiohttp.ClientError, TimeoutError, SlackClientError) as error:
                text = f"Slack did not answer {method}: {type(error).__name__}."
                raise Unavailable(text) from error
        raise rate_limited(method, patience_s)

    async def _once(self, method: str, arguments: Mapping[str, object]) -> AsyncSlackResponse:
        _ = self.session  # makes sure that the client has one
        given = {name: value for name, value in arguments.items() if value is not None}
        if method in READS:
            flat = {name: int(value) if isinstance(value, bool) else value for name, value in given.items()}
            return await self.client.api_call(method, http_verb="GET", params=flat)
        if method.startswith("files."):
            return await self.client.api_call(method, data=given)
        return await self.client.api_call(method, json=given)

    def _retry_after_s(self, error: SlackApiError) -> float | None:
        response = error.response
        if not isinstance(response, AsyncSlackResponse):
            return None
        if response.status_code != 429 and _data(response).get("error") != "ratelimited":
            return None
        after = response.headers.get("Retry-After", "1")
        return float(after if after.replace(".", "", 1).isdigit() else 1) + random.random() * 0.1

    def _translated(self, method: str, error: SlackApiError) -> AppError:
        response = error.response
        if not isinstance(response, AsyncSlackResponse):
            return TransientError(f"Slack sent an answer to {method} that is not JSON.")
        if response.status_code >= 500:
            return Unavailable(f"Slack is not available right now ({method}: HTTP {response.status_code}).")
        return refusal(method, _data(response), bot=self.bot_name)


def _data(response: AsyncSlackResponse) -> dict[str, Any]:
    return response.data if isinstance(response.data, dict) else {}
