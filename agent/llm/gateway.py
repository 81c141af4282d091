"""The process that holds LiteLLM: one JSON line in, JSON lines out, over a unix socket.

LiteLLM takes seconds to import and a core at many streams, so it never enters the bot's process. Keys come from this
process's environment, in the names that LiteLLM documents, and in `agent.domain.models.MODEL_KEYS` those of servers of
one's own; they are never part of a request, an answer or a log line.

The socket listens before LiteLLM is imported: who connects early waits, and who finds nobody knows that at once.
One connection carries requests one after the other; a client that goes away ends the provider's work for it.
Answers: `{"asked": …}` before each model, `{"text": …}` for each piece (empty as a sign of life), `{"notice": …}` where
it begins anew and what was said is void, then `{"done": {…}}` or `{"error": {…}}`; see `agent.llm.asking`.
"""

import argparse
import asyncio
import contextlib
import importlib
import json
import logging
import os
import re
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from agent.domain.models import MODEL_KEYS, keys_of
from agent.domain.redaction import Redactor
from agent.llm.asking import Asking, Deadlines

log = logging.getLogger("agent.llm.gateway")
LINE_LIMIT_BYTES = 16_000_000
BACKLOG = 1024
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)


class Gateway:
    """Answers requests with LiteLLM."""

    def __init__(self, litellm: Any, deadlines: Deadlines, hide: Callable[[str], str], keys: Mapping[str, str]) -> None:
        """`litellm` is the module, or None where it is not installed; `hide` takes secrets out of a text.

        `keys` are those of servers of one's own, by their addresses.
        """
        self._asking = Asking(litellm, deadlines, hide, keys)

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
                await _send(writer, _error("The conversation is too long."))
        finally:
            line.cancel()
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, line: bytes, writer: asyncio.StreamWriter) -> None:
        try:
            request = _read(line)
            if request is None:
                await _send(writer, _error("The process that talks to language models cannot read this request."))
                return
            if "about" in request:
                facts = await self._asking.facts(request["about"], float(request.get("ask_s") or 0))
                await _send(writer, {"facts": facts})
                return
            if "count" in request:
                await _send(writer, {"tokens": await self._asking.tokens(request["count"], request["messages"])})
                return
            async with contextlib.aclosing(self._asking.answer(request)) as answer:
                async for said in answer:
                    await _send(writer, said)
        except ConnectionError:
            raise
        except Exception:
            log.exception("a request broke")
            await _send(writer, _error("The process that talks to language models broke; its log has the details."))


def _is_there(line: "asyncio.Task[bytes]") -> bool:
    """Whether a read that has ended shows a client that is still there."""
    return line.exception() is None and bool(line.result())


def _read(line: bytes) -> dict[str, Any] | None:
    try:
        request = json.loads(line)
    except ValueError:
        return None
    if not isinstance(request, dict):
        return None
    names = request.get("models") or request.get("about") or [request.get("count")]
    return request if isinstance(names, list) and all(isinstance(name, str) for name in names) else None


def _error(text: str) -> dict[str, Any]:
    bill = {"tokens_in": 0, "tokens_out": 0, "cost_usd": None}
    return {"error": {"text": text, "later": False, "retry_after_s": None, "too_long": False, **bill}}


async def _send(writer: asyncio.StreamWriter, value: dict[str, Any]) -> None:
    writer.write(json.dumps(value).encode() + b"\n")
    await writer.drain()


class _Scrubbed(logging.Formatter):
    """Log lines without secrets."""

    def __init__(self, hide: Callable[[str], str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")
        self._hide = hide

    @override
    def format(self, record: logging.LogRecord) -> str:
        return self._hide(super().format(record))


def _hider(environment: Mapping[str, str]) -> Callable[[str], str]:
    """Takes the secrets of the environment out of a text, in whatever form, and what looks like one."""
    secrets = [value for name, value in environment.items() if _SECRET_NAME.search(name)]
    return Redactor([*secrets, *_own_keys(environment).values()]).text


def _own_keys(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The keys of servers of one's own; the bot has checked how they are written."""
    return keys_of(environment.get(MODEL_KEYS, ""))


def _log_to_stderr(hide: Callable[[str], str]) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Scrubbed(hide))
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
    litellm.disable_hf_tokenizer_download = True  # the usual tokenizer counts for Llama, too
    litellm.disable_streaming_logging = True
    litellm.expose_router_debug_in_errors = False  # an error has its provider's words alone
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


async def main(path: Path, deadlines: Deadlines, hide: Callable[[str], str], keys: Mapping[str, str]) -> None:
    """Serve until the bot, our parent, goes away (`bot.tether` sees to that)."""
    listening = _listen(path)
    litellm = _load()
    if litellm is not None:
        await _rehearse(litellm)
        log.info("ready")
    gateway = Gateway(litellm, deadlines, hide, keys)
    server = await asyncio.start_unix_server(gateway.serve, sock=listening, limit=LINE_LIMIT_BYTES, backlog=BACKLOG)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", type=Path, required=True)
    usual = Deadlines()
    parser.add_argument("--first-token-s", type=float, default=usual.first_token_s, help="to the first words")
    parser.add_argument("--gap-s", type=float, default=usual.gap_s, help="between two words")
    parser.add_argument("--answer-s", type=float, default=usual.answer_s, help="to the end of an answer")
    given = parser.parse_args()
    hide, keys = _hider(os.environ), _own_keys(os.environ)  # noqa: TID251 - what is secret, and what it may use
    _log_to_stderr(hide)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(given.socket, Deadlines(given.first_token_s, given.gap_s, given.answer_s), hide, keys))
