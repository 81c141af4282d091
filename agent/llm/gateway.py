"""The process that holds LiteLLM: one JSON line in, JSON lines out, over a unix socket.

LiteLLM takes seconds to import and a core at many streams, so it never enters the bot's process. Keys come from this
process's environment, in the names that LiteLLM documents; they are never part of a request or an answer.
"""

import argparse
import asyncio
import contextlib
import ctypes
import json
import logging
import os
import signal
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)
TIMEOUT_S = 120.0
LINE_LIMIT_BYTES = 16_000_000
_PR_SET_PDEATHSIG = 1


async def main(socket: Path) -> None:
    """Serve until the bot, our parent, goes away."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # noqa: TID251 - LiteLLM reads it at import; else it fetches
    import litellm  # noqa: PLC0415 - seconds of import, in this process only

    litellm.drop_params = True
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    server = await asyncio.start_unix_server(
        lambda reader, writer: _serve(litellm, reader, writer), path=str(socket), limit=LINE_LIMIT_BYTES
    )
    async with server:
        await server.serve_forever()


async def _serve(litellm: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while line := await reader.readline():
            await _answer(litellm, json.loads(line), writer)
    except (ConnectionError, asyncio.IncompleteReadError):
        log.info("the bot went away")
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def _answer(litellm: Any, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    chunks: list[Any] = []
    try:
        stream = await litellm.acompletion(
            **request, stream=True, stream_options={"include_usage": True}, timeout=TIMEOUT_S, num_retries=0
        )
        async for chunk in stream:
            chunks.append(chunk)
            text = chunk.choices[0].delta.content if chunk.choices else None
            if text:
                await _send(writer, {"text": text})
        await _send(writer, {"done": _whole(litellm, chunks, request)})
    except ConnectionError:
        raise
    except Exception as error:  # noqa: BLE001 - one map of foreign exceptions at the edge
        await _send(writer, {"error": _failure(error, request["model"])})


def _whole(litellm: Any, chunks: list[Any], request: dict[str, Any]) -> dict[str, Any]:
    reply = litellm.stream_chunk_builder(chunks, messages=request["messages"])
    message, usage = reply.choices[0].message, reply.usage
    try:
        cost = float(litellm.completion_cost(completion_response=reply))
    except Exception:  # noqa: BLE001 - a model without a known price
        cost = 0.0
    return {
        "text": message.content or "",
        "calls": [[call.id, call.function.name, call.function.arguments] for call in message.tool_calls or ()],
        "tokens_in": usage.prompt_tokens,
        "tokens_out": usage.completion_tokens,
        "cost_usd": cost,
    }


def _failure(error: Exception, model: str) -> dict[str, Any]:
    """A sentence for people and whether it may work later; the provider's own text can hold keys and is only logged."""
    kind = type(error).__name__
    log.warning("model call failed", extra={"model": model, "kind": kind})
    sentences = {
        "AuthenticationError": f"The key for {model} was refused. Put a valid one into `.env` and restart the bot.",
        "PermissionDeniedError": f"The key for {model} may not use this model.",
        "NotFoundError": f"The provider does not know the model {model}. Check TRAINYARD_MODELS.",
        "RateLimitError": f"{model} answers that we ask too often or have used up the quota.",
        "ContextWindowExceededError": f"The conversation is too long for {model}.",
        "Timeout": f"{model} did not answer within {TIMEOUT_S:.0f} s.",
        "APIConnectionError": f"{model} cannot be reached.",
        "ServiceUnavailableError": f"{model} is unavailable at its provider.",
        "InternalServerError": f"{model} failed at its provider.",
        "BadRequestError": f"{model} did not accept the request.",
    }
    later = kind in {
        "RateLimitError",
        "Timeout",
        "APIConnectionError",
        "ServiceUnavailableError",
        "InternalServerError",
    }
    return {"text": sentences.get(kind, f"{model} failed ({kind})."), "later": later}


async def _send(writer: asyncio.StreamWriter, value: dict[str, Any]) -> None:
    writer.write(json.dumps(value).encode() + b"\n")
    await writer.drain()


def _die_with_parent(parent: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        raise SystemExit(0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--parent", type=int, required=True)
    given = parser.parse_args()
    _die_with_parent(given.parent)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(given.socket))
