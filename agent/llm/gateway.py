"""The process that holds LiteLLM: one JSON line in, JSON lines out, over a unix socket.

LiteLLM takes seconds to import and a core at many streams, so it never enters the bot's process. Keys come from this
process's environment, in the names that LiteLLM documents; they are never part of a request, an answer or a log line.

The socket listens before LiteLLM is imported: who connects early waits, and who finds nobody knows that at once.
One connection carries requests one after the other; a client that goes away ends the provider's work for it.
Answers: `{"text": …}` for each piece (empty as a sign of life), then `{"done": {…}}` or
`{"error": {text, later, retry_after_s}}`.
"""

import argparse
import asyncio
import contextlib
import email.utils
import importlib
import json
import logging
import os
import re
import socket
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from agent.domain.ids import new_ulid

log = logging.getLogger("agent.llm.gateway")
SILENCE_S = 120.0
CONNECT_S = 15.0
LINE_LIMIT_BYTES = 16_000_000
BACKLOG = 1024
LOGGED_CHARS = 300
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)


class Gateway:
    """Answers requests with LiteLLM."""

    def __init__(self, litellm: Any, silence_s: float) -> None:
        """`litellm` is the module, or None where it is not installed."""
        self._litellm = litellm
        self._silence_s = silence_s

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: its requests in order, until the client goes away."""
        line = asyncio.create_task(reader.readline())
        try:
            while request := await line:
                line = asyncio.create_task(reader.readline())
                answer = asyncio.create_task(self._answer(request, writer))
                await asyncio.wait({answer, line}, return_when=asyncio.FIRST_COMPLETED)
                if line.done() and not _is_there(line):
                    answer.cancel()
                await asyncio.wait({answer})
                if answer.cancelled():
                    log.info("a client went away in the middle of an answer")
                    return
                answer.result()
        except ConnectionError:
            log.info("a client went away")
        except ValueError:
            with contextlib.suppress(ConnectionError):
                await _send(writer, _error("The conversation is too long.", later=False))
        finally:
            line.cancel()
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, line: bytes, writer: asyncio.StreamWriter) -> None:
        request: dict[str, Any] = {"model": "The language model"}
        outcome: dict[str, Any] | None = None
        whole = _Whole()
        try:
            request = json.loads(line)
            async with contextlib.aclosing(self._chunks(request)) as chunks:
                async for chunk in chunks:
                    text = whole.add(chunk)
                    try:
                        await _send(writer, {"text": text})
                    except ConnectionError as error:
                        raise _GoneError from error
            outcome = await self._done(whole, request)
        except _GoneError as error:
            raise ConnectionError from error
        except Exception as error:  # noqa: BLE001 - one map of foreign exceptions at the edge
            outcome = self._failure(error, request)
        await _send(writer, outcome)

    async def _chunks(self, request: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
        """The provider's chunks. Raises what LiteLLM raises, `TimeoutError`, or `_CutOffError`."""
        if self._litellm is None:
            raise _NotInstalledError
        import httpx  # noqa: PLC0415 - LiteLLM brings it

        given = dict(request)
        if "api_base" in given and self._missing_keys(given):
            given["api_key"] = "none"  # a server of one's own often wants no key, but clients insist on some
        async with asyncio.timeout(self._silence_s):
            stream = await self._litellm.acompletion(
                **given,
                stream=True,
                stream_options={"include_usage": True},
                timeout=httpx.Timeout(self._silence_s + 5, connect=CONNECT_S),
                num_retries=0,
            )
        try:
            while True:
                async with asyncio.timeout(self._silence_s):
                    chunk = await anext(stream, None)
                if chunk is None:
                    break
                yield chunk
        finally:
            await stream.aclose()
        # Where a stream just ends, LiteLLM makes up the finish reason "stop"; only here one sees that none came.
        if getattr(stream, "received_finish_reason", "") is None and not stream.intermittent_finish_reason:
            raise _CutOffError

    async def _done(self, whole: "_Whole", request: Mapping[str, Any]) -> dict[str, Any]:
        text, calls = "".join(whole.text), whole.calls()
        if not text.strip() and not calls:
            return _error(f"{request['model']} answered nothing.", later=False)
        tokens_in, tokens_out, cost = await asyncio.to_thread(self._bill, whole, request)
        bill = {"tokens_in": tokens_in, "tokens_out": tokens_out, "cost_usd": cost}
        return {"done": {"text": text, "calls": calls, **bill}}

    def _bill(self, whole: "_Whole", request: Mapping[str, Any]) -> tuple[int, int, float | None]:
        """Tokens and cost; the cost of a model without a known price is not known."""
        tokens = 0, 0
        try:
            reply = self._litellm.stream_chunk_builder(whole.chunks, messages=request["messages"])
            tokens = int(reply.usage.prompt_tokens or 0), int(reply.usage.completion_tokens or 0)
            cost = self._litellm.completion_cost(completion_response=reply, model=request["model"])
        except Exception:  # noqa: BLE001 - an answer is worth more than its bill
            return *tokens, None
        return *tokens, float(cost)

    def _missing_keys(self, request: Mapping[str, Any]) -> str:
        """Environment variables with keys that this model needs and that are not set."""
        try:
            missing = self._litellm.validate_environment(request["model"])["missing_keys"]
        except Exception:  # noqa: BLE001 - only for better words
            return ""
        return " or ".join(name for name in missing if name.endswith(("_API_KEY", "_TOKEN")))

    def _failure(self, error: Exception, request: Mapping[str, Any]) -> dict[str, Any]:
        """A sentence for people, and whether it may work later; the provider's own text can hold secrets."""
        model, status = request.get("model", "The language model"), _status(error)
        kinds = [kind.__name__ for kind in type(error).__mro__]
        said = "" if status in {401, 403} else f": {error}"[:LOGGED_CHARS]
        log.warning("model call failed: %s %s (%d)%s", model, kinds[0], status, said)
        missing = "" if "api_base" in request or status not in {401, 403, 500} else self._missing_keys(request)
        if missing:
            return _error(f"There is no key for {model}. Put {missing} into `.env` and restart the bot.", later=False)
        retry_after_s = _retry_after_s(error)
        if "LLM Provider NOT provided" in str(error):  # a bad request, to LiteLLM
            kinds.insert(0, "LiteLLMUnknownProvider")
        for kind in (*kinds, "Connection error." if str(error).endswith("Connection error.") else "", str(status)):
            if kind in _SENTENCES:
                text, later = _SENTENCES[kind]
                break
        else:
            later = status == 0 or status >= 500
            text = "{model} failed at its provider." if later else "{model} did not accept the request."
        if later and retry_after_s is not None:
            text += f" It asks to wait {retry_after_s:.0f} s."
        return _error(text.format(model=model), later=later, retry_after_s=retry_after_s)


class _CutOffError(Exception):
    """The provider's answer ended without its end."""


class _GoneError(Exception):
    """The client went away."""


class _NotInstalledError(Exception):
    """There is no LiteLLM."""


# By the name of LiteLLM's exception or one of its bases, else by HTTP status: the sentence and whether to try later.
_SENTENCES: dict[str, tuple[str, bool]] = {
    "_NotInstalledError": ("LiteLLM is not installed. Run `pip install 'trainyard[llm]'` and restart the bot.", False),
    "_CutOffError": ("{model} broke off in the middle of its answer.", True),
    "MidStreamFallbackError": ("{model} broke off in the middle of its answer.", True),
    "ContextWindowExceededError": ("The conversation is too long for {model}. Start a new thread.", False),
    "ContentPolicyViolationError": ("The provider of {model} refused this content.", False),
    "LiteLLMUnknownProvider": (
        "The provider of {model} is unknown. Names in TRAINYARD_MODELS begin with it: `openai/…`.",
        False,
    ),
    "TimeoutError": ("{model} did not answer in time.", True),
    "Timeout": ("{model} did not answer in time.", True),
    "Connection error.": ("{model} cannot be reached.", True),
    "401": ("The key for {model} was refused. Put a valid one into `.env` and restart the bot.", False),
    "402": ("The account that pays for {model} has no credit left.", False),
    "403": ("The key for {model} may not use this model. Choose another in TRAINYARD_MODELS.", False),
    "404": ("The provider does not know the model {model}. Check TRAINYARD_MODELS.", False),
    "413": ("The conversation is too long for {model}. Start a new thread.", False),
    "429": ("{model} answers that we ask too often or have used up the quota.", True),
}


class _Whole:
    """Puts a streamed answer together.

    LiteLLM's own builder drops calls without an id, which some servers send.
    """

    def __init__(self) -> None:
        self.chunks: list[Any] = []
        self.text: list[str] = []
        self._calls: list[list[str]] = []  # id, name, arguments
        self._at: dict[int, list[str]] = {}

    def add(self, chunk: Any) -> str:
        """Take a chunk; its text."""
        self.chunks.append(chunk)
        if not chunk.choices:
            return ""
        delta = chunk.choices[0].delta
        for part in getattr(delta, "tool_calls", None) or ():
            self._add_call(part.index or 0, part.id or "", part.function)
        text = getattr(delta, "content", None)
        if not isinstance(text, str) or not text:
            return ""
        self.text.append(text)
        return text

    def _add_call(self, index: int, call_id: str, function: Any) -> None:
        call = self._at.get(index)
        if call is None or (call_id and call[0] and call_id != call[0]):
            call = self._at[index] = ["", "", ""]
            self._calls.append(call)
        call[0] = call[0] or call_id
        call[1] = call[1] or function.name or ""
        call[2] += function.arguments or ""

    def calls(self) -> list[list[str]]:
        """The calls in order, each with an id of its own."""
        seen: set[str] = set()
        for call in self._calls:
            if not call[0] or call[0] in seen:
                call[0] = f"call-{new_ulid()}"
            seen.add(call[0])
        return self._calls


def _is_there(line: "asyncio.Task[bytes]") -> bool:
    """Whether a read that has ended shows a client that is still there."""
    return line.exception() is None and bool(line.result())


def _status(error: Exception) -> int:
    try:
        return int(getattr(error, "status_code", 0) or 0)
    except (TypeError, ValueError):
        return 0


def _retry_after_s(error: Exception) -> float | None:
    """The provider's `Retry-After`, in seconds or as a date."""
    headers = getattr(error, "litellm_response_headers", None) or {}
    value = str(headers.get("retry-after") or "")
    try:
        return max(0.0, float(value))
    except ValueError:
        at = email.utils.parsedate_tz(value)
        return max(0.0, email.utils.mktime_tz(at) - time.time()) if at else None


def _error(text: str, *, later: bool, retry_after_s: float | None = None) -> dict[str, Any]:
    return {"error": {"text": text, "later": later, "retry_after_s": retry_after_s}}


async def _send(writer: asyncio.StreamWriter, value: dict[str, Any]) -> None:
    writer.write(json.dumps(value).encode() + b"\n")
    await writer.drain()


class _Scrubbed(logging.Formatter):
    """Log lines without the secrets of the environment."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")
        named = (value for name, value in environment.items() if _SECRET_NAME.search(name))
        self._secrets = sorted((value for value in named if len(value) >= 8), key=len, reverse=True)

    @override
    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        for secret in self._secrets:
            text = text.replace(secret, "[secret]")
        return text


def _log_to_stderr(environment: Mapping[str, str]) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Scrubbed(environment))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    log.setLevel(logging.INFO)


def _listen(path: Path) -> socket.socket:
    """A listening socket that only this user may use: it spends the keys."""
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        listening.bind(str(path))
    finally:
        os.umask(mask)
    listening.listen(BACKLOG)
    listening.setblocking(False)
    return listening


def _load() -> Any:
    """LiteLLM, set up to keep quiet; None when it is not installed."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # noqa: TID251 - LiteLLM reads it at import; else it fetches
    try:
        import litellm  # noqa: PLC0415 - seconds of import, in this process only
    except ImportError:
        log.exception("LiteLLM cannot be imported")
        return None
    try:
        importlib.import_module(
            "litellm.responses.mcp.chat_completions_handler"
        )  # else the first call with tools stalls
    except Exception:
        log.exception("calls with tools will fail")
    litellm.drop_params = True
    litellm.suppress_debug_info = True
    litellm.disable_streaming_logging = True
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).handlers.clear()  # its own handler would pass by the scrubbing
        logging.getLogger(name).setLevel(logging.ERROR)
    return litellm


async def _rehearse(litellm: Any) -> None:
    """Have a call answered without a network: LiteLLM imports some 500 modules in its first, a second or more."""
    try:
        import httpx  # noqa: PLC0415 - LiteLLM brings both
        import openai  # noqa: PLC0415

        answer = httpx.Response(200, text="data: [DONE]\n\n", headers={"content-type": "text/event-stream"})
        async with httpx.AsyncClient(transport=httpx.MockTransport(lambda _request: answer)) as nowhere:
            stream = await litellm.acompletion(
                model="openai/rehearsal",
                messages=[{"role": "user", "content": "Hello"}],
                client=openai.AsyncOpenAI(api_key="none", http_client=nowhere),
                stream=True,
                max_retries=0,
            )
            await stream.aclose()
    except Exception:
        log.exception("the first call will be slow")


async def main(path: Path, silence_s: float) -> None:
    """Serve until the bot, our parent, goes away (`bot.tether` sees to that)."""
    listening = _listen(path)
    litellm = _load()
    if litellm is not None:
        await _rehearse(litellm)
        log.info("ready")
    gateway = Gateway(litellm, silence_s)
    server = await asyncio.start_unix_server(gateway.serve, sock=listening, limit=LINE_LIMIT_BYTES, backlog=BACKLOG)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument(
        "--silence-s", type=float, default=SILENCE_S, help="the longest wait for a provider's next word"
    )
    given = parser.parse_args()
    _log_to_stderr(os.environ)  # noqa: TID251 - to know which words are secret
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(given.socket, given.silence_s))
