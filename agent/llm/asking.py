"""Which models of a chain are asked, in which order and for how long. Part of the gateway.

Every call is one of LiteLLM's Router, which keeps the models and their cool-down, by error class and Retry-After. It
makes each call once: it knows no limit for a first word, it leaves no model after one, and it waits between two tries
without a sign. So this is the one layer that tries again: it goes down the chain at once, and where every model failed
it waits, says so, and begins anew while its patience lasts.
"""

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.domain.models import MODEL_KEYS, split_name
from agent.llm.failures import (
    CutOffError,
    Failure,
    NoStreamError,
    NothingError,
    NotInstalledError,
    RefusedError,
    failure_of,
    status_of,
)
from agent.llm.known import Known
from agent.llm.whole import Whole

log = logging.getLogger("agent.llm.gateway")
CONNECT_S = 15.0
COOL_DOWN_S = 30.0  # where a provider does not say how long
HUNG_COOL_DOWN_S = 300.0  # of one that was waited for in vain, which takes minutes each time
MOST_TRIES = 8
LOGGED_CHARS = 300
PROBE = {"messages": [{"role": "user", "content": "Say ok."}], "max_tokens": 16}  # the fewest that all providers take


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long one model may take: to its first words or thoughts, between two of them, and for a whole answer."""

    first_token_s: float = 120.0
    gap_s: float = 60.0
    answer_s: float = 300.0


@dataclass(slots=True)
class _SoFar:
    """Why models did not answer a request, by their names, and what it cost: an answer that broke off is billed too."""

    failures: dict[str, Failure] = field(default_factory=dict)
    tokens_in: int = 0
    tokens_out: int = 0
    failed_tokens: int = 0
    cost_usd: float | None = 0.0

    @property
    def bill(self) -> dict[str, Any]:
        """As it is said to the bot."""
        return {"tokens_in": self.tokens_in, "tokens_out": self.tokens_out, "cost_usd": self.cost_usd}

    def count(self, tokens_in: int, tokens_out: int, cost_usd: float | None) -> None:
        """Add an answer."""
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out
        self.cost_usd = None if cost_usd is None or self.cost_usd is None else self.cost_usd + cost_usd


class Asking:
    """Asks chains of models."""

    def __init__(self, litellm: Any, deadlines: Deadlines, hide: Callable[[str], str], keys: Mapping[str, str]) -> None:
        """`litellm` is the module, or None where it is not installed; `hide` takes secrets out of what is cut.

        `keys` are those of servers of one's own, by their addresses; none of a provider goes there.
        """
        self._litellm = litellm
        self._deadlines = deadlines
        self._hide = hide
        self._keys = keys
        self._table = Known(litellm)
        self._known: set[str] = set()  # the names of the Router's models
        self._last: dict[str, Failure] = {}
        self._thinking: set[str] = set()  # the names of models whose thoughts end and never begin
        self._uncounted: set[str] = set()  # the names of models whose server knows no `stream_options`
        if litellm is not None:
            self._router = _router(litellm)

    async def answer(self, request: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """`asked` before each model, with its price, `text` for each piece, `notice` where it begins anew, and at the
        end `done` or `error`; each but `text` with the bill until then.

        `request` has `models` in their order, `messages`, maybe `tools`, `facts` (a text that ends the last message),
        `effort`, `max_tokens` and `patience_s`: how long after the first failure of all it may begin anew.
        """
        names, so_far = list(request["models"]), _SoFar()
        failures, loop, give_up_at = so_far.failures, asyncio.get_running_loop(), 0.0
        for number in range(MOST_TRIES):
            waiting = [name for name in names if name not in failures or _may_soon(failures[name])]
            async with contextlib.aclosing(self._down(waiting, request, so_far)) as answer:
                async for said in answer:
                    yield said
                    if "done" in said:
                        return
            give_up_at = give_up_at or loop.time() + float(request.get("patience_s") or 0.0)
            again = min(filter(_may_soon, map(failures.__getitem__, names)), key=_soonest, default=None)
            wait_s = 0.0 if again is None else self._wait_s(again, number)
            if again is None or loop.time() + wait_s >= give_up_at:
                break
            yield {"notice": f"{again.short}; I try again in {max(1, round(wait_s))} s.", **so_far.bill}
            await asyncio.sleep(wait_s)
        yield {"error": _all_failed([failures[name] for name in names]) | so_far.bill}

    async def facts(self, names: Sequence[str], ask_s: float) -> list[dict[str, Any]]:
        """What is known of models; each is asked for a word, all at once, for at most `ask_s`."""
        return list(await asyncio.gather(*(self._facts(name, ask_s) for name in names)))

    async def tokens(self, name: str, messages: Sequence[Mapping[str, Any]]) -> int:
        """How many tokens messages have for a model, by LiteLLM's tokenizer of it, or its usual one."""
        count = functools.partial(self._litellm.token_counter, model=split_name(name)[0], messages=messages)
        return int(await asyncio.to_thread(count))

    async def _facts(self, name: str, ask_s: float) -> dict[str, Any]:
        model, _ = split_name(name)
        begun, trouble, whole, bill = time.monotonic(), "", Whole(), _SoFar()
        try:
            if ask_s:
                async with asyncio.timeout(ask_s), contextlib.aclosing(self._pieces(name, PROBE, whole)) as pieces:
                    async for piece in pieces:
                        if piece:
                            break
        except NothingError:
            pass  # it answered
        except TimeoutError:
            trouble = f"It did not answer within {ask_s:.0f} s. Check its address and its provider."
        except Exception as error:  # noqa: BLE001 - one map of foreign exceptions at the edge
            trouble = failure_of(error, model, missing_key=self._missing_key(name, status_of(error))).text
        seconds = time.monotonic() - begun
        await self._bill(name, whole, PROBE, bill)
        return {"name": name, "trouble": trouble, "seconds": seconds, **bill.bill, **self._table.facts(model)}

    async def _down(
        self, names: Sequence[str], request: Mapping[str, Any], so_far: "_SoFar"
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Ask one after the other until one answers; `so_far` takes why others did not, and what they cost."""
        queue, once_more = await self._in_order(names), set(names)
        while queue:
            name = queue.pop(0)
            whole, model = Whole(thinks=name in self._thinking), split_name(name)[0]
            yield {"asked": model, "price": self._table.price(model), **so_far.bill}
            try:
                async with contextlib.aclosing(self._pieces(name, request, whole)) as pieces:
                    async for text in pieces:
                        yield {"text": text}
            except Exception as error:  # noqa: BLE001 - one map of foreign exceptions at the edge
                await self._bill(name, whole, request, so_far, silent=isinstance(error, TimeoutError))
                so_far.failed_tokens = so_far.tokens_in + so_far.tokens_out
                if name in once_more and (isinstance(error, NothingError) or self._knows_less(name, error)):
                    once_more.discard(name)
                    queue.insert(0, name)
                    continue
                failure = so_far.failures[name] = self._failed(name, error)
                if queue and not whole.is_empty:
                    yield {"notice": f"{failure.short}; {split_name(queue[0])[0]} answers instead.", **so_far.bill}
            else:
                self._last.pop(name, None)
                (self._thinking.add if whole.thinks else self._thinking.discard)(name)
                await self._bill(name, whole, request, so_far)
                yield {"done": self._done(name, whole, request, so_far)}
                return

    def _knows_less(self, name: str, error: Exception) -> bool:
        """Whether a server refused `stream_options`, which older ones do; it is asked without from then on."""
        refused = status_of(error) in {400, 422} and "stream_options" in str(error)
        if refused:
            self._uncounted.add(name)
        return refused

    async def _in_order(self, names: Sequence[str]) -> list[str]:
        """As they were given, but those that cool down at the end."""
        if len(names) < 2:
            return list(names)
        cooling = {name for name in names if await self._cools_down(name)}
        return sorted(names, key=lambda name: name in cooling)

    async def _cools_down(self, name: str) -> bool:
        if name not in self._known or name not in self._last:
            return False
        try:
            await self._router.async_get_available_deployment(model=_group(name), request_kwargs={})
        except ValueError:  # the Router's word for "none is there now"
            return True
        return False

    def _failed(self, name: str, error: Exception) -> Failure:
        """Why a model did not answer; it cools down where the Router thinks so of this class of error."""
        model, _ = split_name(name)
        status = status_of(error)
        said = "" if status in {401, 403} else self._hide(f": {error}")[:LOGGED_CHARS]
        log.warning("model call failed: %s %s (%d)%s", model, type(error).__name__, status, said)
        missing_key = self._missing_key(name, status)
        failure = self._last[name] = failure_of(error, model, missing_key=missing_key)
        if name in self._known:
            from litellm.router_utils.cooldown_handlers import set_cooldown_deployments  # noqa: PLC0415

            set_cooldown_deployments(
                litellm_router_instance=self._router,
                original_exception=CutOffError(),  # by its words it would leave alone those that broke off
                exception_status=status or 500,
                deployment=name,
                time_to_cooldown=failure.retry_after_s or (HUNG_COOL_DOWN_S if failure.hung else COOL_DOWN_S),
            )
        return failure

    def _missing_key(self, name: str, status: int) -> str:
        """The variable of the key that was missing where a call failed with this status; empty where none was."""
        model, url = split_name(name)
        if url:
            return MODEL_KEYS if status == 401 and url not in self._keys else ""
        return self._table.missing_keys(model) if status in {401, 403, 500} else ""

    def _wait_s(self, failure: Failure, number: int) -> float:
        """How long to wait before the next try: what the provider asks for, or twice as long each time; with jitter."""
        headers = {} if failure.retry_after_s is None else {"retry-after": str(failure.retry_after_s)}
        left = MOST_TRIES - number
        wait_s = self._litellm.calculate_retry_after(
            remaining_retries=left, max_retries=MOST_TRIES, response_headers=headers
        )
        return max(float(wait_s), failure.retry_after_s or 0.0)

    async def _pieces(self, name: str, request: Mapping[str, Any], whole: Whole) -> AsyncGenerator[str, None]:
        """One model's answer, piece by piece, within the deadlines.

        Raises what LiteLLM raises, `TimeoutError`, and `agent.llm.failures` for what is no answer.
        """
        if self._litellm is None:
            raise NotInstalledError
        loop, limits = asyncio.get_running_loop(), self._deadlines
        end_at = loop.time() + limits.answer_s
        due_at = loop.time() + limits.first_token_s
        async with asyncio.timeout_at(min(due_at, end_at)):
            stream = await self._router.acompletion(**self._call(name, request))
        try:
            while True:
                async with asyncio.timeout_at(min(due_at, end_at)):
                    chunk = await anext(stream, None)
                if chunk is None:
                    break
                text, moves = whole.add(chunk)
                if moves:
                    due_at = loop.time() + limits.gap_s
                yield text
        finally:
            await stream.aclose()
        # Where a stream just ends, LiteLLM makes up the finish reason "stop"; only here one sees that none came.
        if getattr(stream, "received_finish_reason", "") is None and not stream.intermittent_finish_reason:
            raise NoStreamError if whole.is_empty else CutOffError
        if whole.is_empty:
            raise RefusedError if whole.finish == "content_filter" else NothingError

    def _call(self, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of the Router's call."""
        import httpx  # noqa: PLC0415 - LiteLLM brings it

        model, url = split_name(name)
        self._know(name)
        limits, marks = self._deadlines, self._table.marks_cache(model)
        call: dict[str, Any] = {
            "model": name,  # the id of a deployment, which is called though it cools down
            "messages": _with_facts(request, apart=marks),
            "stream": True,
            "timeout": httpx.Timeout(max(limits.first_token_s, limits.gap_s) + 5, connect=CONNECT_S),
            "num_retries": 0,
            **{key: request[key] for key in ("tools", "max_tokens") if request.get(key)},
        }
        if name not in self._uncounted:
            call["stream_options"] = {"include_usage": True}
        if url:
            call["api_base"] = url
            call["api_key"] = self._keys.get(url, "none")  # without one, clients send that of the provider
        answers_calls = self._table.sends_thoughts(model) and _last_called(request["messages"])
        if request.get("effort") and self._table.has_efforts(model) and not answers_calls:  # we keep no thoughts
            call["reasoning_effort"] = request["effort"]
        if marks:  # a mark on the system's words holds for the tools before them, too
            call["cache_control_injection_points"] = [
                {"location": "message", "role": "system"},
                {"location": "message", "index": -2 if request.get("facts") else -1},
            ]
        return call

    def _know(self, name: str) -> None:
        """Make it one of the Router's models. Raises what LiteLLM raises for a provider that it does not know."""
        if name in self._known:
            return
        from litellm.types.router import Deployment, LiteLLM_Params  # noqa: PLC0415

        model, url = split_name(name)
        self._table.entry(model)  # before the Router enters it
        parameters, known_as = LiteLLM_Params(model=model, api_base=url or None), {"id": name}
        self._router.add_deployment(Deployment(model_name=_group(name), litellm_params=parameters, model_info=known_as))
        self._known.add(name)

    def _done(self, name: str, whole: Whole, request: Mapping[str, Any], so_far: "_SoFar") -> dict[str, Any]:
        model, _ = split_name(name)
        tools = [tool["function"]["name"] for tool in request.get("tools") or ()]
        text, calls = whole.said(tools)
        earlier = request["models"][: request["models"].index(name)]
        why = [failure.text for one in earlier if (failure := so_far.failures.get(one) or self._last.get(one))]
        return {
            "text": text,
            "calls": calls,
            "model": model,
            "instead": " ".join(why),
            "finish": whole.finish,
            **so_far.bill,
            "failed_tokens": so_far.failed_tokens,
            "window": self._table.window(model),
        }

    async def _bill(
        self, name: str, whole: Whole, request: Mapping[str, Any], so_far: "_SoFar", *, silent: bool = False
    ) -> None:
        """Count what an answer cost, whole or not; of a model that stayed `silent`, what it was sent to read."""
        if whole.chunks or silent:
            so_far.count(*await asyncio.to_thread(self._cost, whole, split_name(name)[0], request))

    def _cost(self, whole: Whole, model: str, request: Mapping[str, Any]) -> tuple[int, int, float | None]:
        """Tokens and cost; the cost of a model without a known price is not known."""
        tokens, messages, price = (0, 0), request["messages"], self._table.price(model)
        try:
            if not whole.chunks:
                read = self._litellm.token_counter(model=model, messages=messages, tools=request.get("tools"))
                return int(read), 0, None if price is None else read * price[0]
            reply = self._litellm.stream_chunk_builder(whole.chunks, messages=messages)
            tokens = int(reply.usage.prompt_tokens or 0), int(reply.usage.completion_tokens or 0)
            if self._table.is_free(model):
                return *tokens, 0.0
            cost = self._litellm.completion_cost(completion_response=reply, model=model)
        except Exception:  # noqa: BLE001 - an answer is worth more than its bill
            return *tokens, None
        return *tokens, None if price is None else float(cost)


def _router(litellm: Any) -> Any:
    """LiteLLM's Router, made to call once; `_failed` tells it what failed, also within an answer."""

    class Router(litellm.Router):  # type: ignore[misc]
        async def _acompletion_streaming_iterator(self, model_response: Any, **_: Any) -> Any:
            """The answer as it comes: the iterator around it hides whether a provider ended it or broke off."""
            return model_response

    router = Router(num_retries=0, allowed_fails=0, cooldown_time=COOL_DOWN_S)
    router.discard()  # its callbacks, which hear of failed calls later and of broken answers not at all
    return router


def _group(name: str) -> str:
    """What the Router calls the one model `name`, which is asked for by this where one that cools down is not meant."""
    return f"all of {name}"


def _last_called(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the last reply in a conversation has calls."""
    replies = [said for said in messages if said["role"] == "assistant"]
    return bool(replies and replies[-1].get("tool_calls"))


def _with_facts(request: Mapping[str, Any], *, apart: bool) -> list[dict[str, Any]]:
    """The messages with what is so now at their end.

    `apart` where a provider caches what stands before it and takes two messages of users; some servers refuse those.
    """
    *before, last = request["messages"]
    facts = request.get("facts")
    if not facts:
        return [*before, last]
    if apart:
        return [*before, last, {"role": "user", "content": facts}]
    return [*before, {**last, "content": f"{last['content']}\n{facts}"}]


def _may_soon(failure: Failure) -> bool:
    """Whether it may answer this request yet: who hung has had its time."""
    return failure.later and not failure.hung


def _soonest(failure: Failure) -> float:
    return failure.retry_after_s or 0.0


def _all_failed(failures: Sequence[Failure]) -> dict[str, Any]:
    """Why nobody answered. It may work later if one of them may; it is too long if it is for each that has a window."""
    waits = [failure.retry_after_s for failure in failures if failure.later and failure.retry_after_s is not None]
    return {
        "text": " ".join(dict.fromkeys(failure.text for failure in failures)),
        "later": any(failure.later for failure in failures),
        "retry_after_s": min(waits, default=None),
        "too_long": any(failure.too_long for failure in failures),
    }
