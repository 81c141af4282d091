"""What comes through the gateway: words, calls, bills, and every way in which a provider fails."""

import asyncio
import base64
import gc
import json
from email.utils import formatdate
from time import time

import pytest

from agent.domain.errors import AppError, ModelError, Unavailable
from agent.domain.models import split_name
from agent.llm.asking import LOGGED_CHARS
from agent.llm.chain import GatewayModel
from agent.llm.failures import failure_of
from agent.ports import ModelMessage, Role, ToolCall
from tests.llm.conftest import ANSWER_S, ASKED, CANARY, HANG_S, SILENCE_S, STATUS, GatewayProcess, answer
from tests.platforms.model_server import Act, Call, Cut, Drip, Fail, Garbled, Hang, ModelServer, Page, Reply, words


async def failure(model: GatewayModel) -> AppError:
    with pytest.raises(AppError) as caught:
        await answer(model)
    assert CANARY not in caught.value.text
    assert "Traceback" not in caught.value.text
    assert caught.value.text.endswith(".")
    return caught.value


async def test_text_comes_piece_by_piece(gateway: GatewayProcess, server: ModelServer) -> None:
    rest = asyncio.Event()
    server.script(Reply("one two three", wait_for=rest, hold_after=2))
    pieces = []
    async with asyncio.timeout(HANG_S):
        async for piece in gateway.model(server).stream(ASKED, ()):
            pieces.append(piece)
            if len(pieces) == 2:
                rest.set()  # the provider says the third word only after the second one was read here
    assert pieces[:3] == ["one ", "two ", "three"]
    assert pieces[3].text == "one two three"
    assert server.requests[0].key == "none"
    assert server.requests[0].messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hello"},
    ]


async def test_calls_come_back_whole(gateway: GatewayProcess, server: ModelServer) -> None:
    long = {"run": "r-" + "é☃" * 500}
    calls = [
        Call("run_status", {"run": "r-1"}, id="a"),
        Call("run_logs", long, id="b", pieces=40),
        Call("list_runs", ""),
    ]
    server.script(Reply("Let me see.", calls=calls))
    pieces, reply = await answer(gateway.model(server), tools=[STATUS])
    assert "".join(pieces) == reply.text == "Let me see."
    assert [call.name for call in reply.calls] == ["run_status", "run_logs", "list_runs"]
    assert [json.loads(call.arguments or "{}") for call in reply.calls] == [{"run": "r-1"}, long, {}]
    assert [call.id for call in reply.calls][:2] == ["a", "b"]
    (tool,) = server.requests[0].body["tools"]
    assert tool["function"]["name"] == "run_status"


async def test_calls_without_ids_or_with_equal_ids_get_ids_of_their_own(
    gateway: GatewayProcess, server: ModelServer
) -> None:
    server.script(
        Reply(calls=[Call("run_status", {"run": "r-1"}, id=None), Call("run_status", {"run": "r-2"}, id=None)])
    )
    server.script(Reply(calls=[Call("run_status", {"run": "r-1"}, id="x"), Call("run_status", {"run": "r-2"}, id="x")]))
    for _ in range(2):
        _, reply = await answer(gateway.model(server), tools=[STATUS])
        assert [json.loads(call.arguments) for call in reply.calls] == [{"run": "r-1"}, {"run": "r-2"}]
        assert len({call.id for call in reply.calls if call.id}) == 2


async def test_tokens_and_cost(gateway: GatewayProcess, server: ModelServer) -> None:
    server.script(Reply("yes", usage=(1000, 200)), Reply("yes", usage=(1000, 200)), Reply("yes", usage=None))
    _, unknown = await answer(gateway.model(server))
    assert (unknown.tokens_in, unknown.tokens_out, unknown.cost_usd) == (1000, 200, None)
    _, known = await answer(gateway.model(server, "gpt-4o-mini"))
    assert known.cost_usd == pytest.approx(1000 * 0.15e-6 + 200 * 0.6e-6)
    assert known.model == "openai/gpt-4o-mini"
    assert (known.window, unknown.window) == (128_000, 0)
    _, uncounted = await answer(gateway.model(server))
    assert uncounted.tokens_in > 0


REFUSED: list[tuple[Act, str]] = [
    (Fail(401, f"Incorrect API key provided: {CANARY}"), "There is no key for openai/test-model. Put TRAINYARD"),
    (Fail(402), "no credit"),
    (Fail(403), "may not use this model"),
    (Fail(404, "no such model"), "does not know the model openai/test-model"),
    (
        Fail(400, "This model's maximum context length is 8192 tokens.", "context_length_exceeded"),
        "too long for openai",
    ),
    (Fail(413), "too long for openai/test-model"),
    (Fail(400, "request (9000 tokens) exceeds the available context size (4096 tokens)"), "too long for openai"),
    (Fail(400, "Please reduce the length of the messages or completion."), "too long for openai"),
    (Fail(400, "the model is loaded with a context length of only 4096 tokens"), "too long for openai/test-model"),
    (Fail(429, "Request too large for model on tokens per minute"), "too long for openai/test-model"),
    (Fail(400, "library/gemma:2b does not support tools"), "openai/test-model cannot call tools as it is served"),
    (Fail(404, "No endpoints found that support tool use."), "cannot call tools"),
    (Fail(500, "tools param requires --jinja flag"), "cannot call tools"),
    (Fail(400, "filtered due to our content management policy"), "refused this content"),
    (Fail(400, f"bad parameter near {CANARY}"), "openai/test-model did not accept the request"),
    (Fail(422), "did not accept"),
    (Reply("", finish="content_filter"), "refused this content"),
]


@pytest.mark.parametrize(("act", "sentence"), REFUSED, ids=str)
async def test_what_will_never_work(gateway: GatewayProcess, server: ModelServer, act: Act, sentence: str) -> None:
    server.script(act)
    error = await failure(gateway.model(server))
    assert isinstance(error, ModelError)
    assert sentence in error.text
    repeats = act == Fail(422)  # LiteLLM leaves out the parameter that was refused and asks once more
    assert len(server.requests) == 1 + repeats  # otherwise nobody repeats behind our back


async def test_no_part_of_a_key_is_logged_in_whatever_form(gateway: GatewayProcess, server: ModelServer) -> None:
    around = base64.b64encode(f"user:{CANARY}".encode()).decode()
    before = range(LOGGED_CHARS - 120, LOGGED_CHARS, 8)  # somewhere there the log cuts the key
    server.script(*(Fail(400, f"{'x' * chars} {CANARY} {around}") for chars in (0, *before)))
    for _ in (0, *before):
        await failure(gateway.model(server))
    assert f"{'x' * before[0]} [secret" in gateway.log
    assert CANARY[:12] not in gateway.log
    assert around[8:20] not in gateway.log


LATER: list[tuple[Act, str]] = [
    (Fail(500), "openai/test-model failed at its provider"),
    (Fail(502), "failed at its provider"),
    (Fail(503, "overloaded"), "openai/test-model is overloaded"),
    (Fail(503, "Loading model"), "openai/test-model is still being loaded"),
    (Page(), "openai/test-model sent no streamed answer. Check that its address"),
    (Fail(429), "too often or have used up the quota"),
    (Fail(429, "Too many tokens, please wait before trying again."), "too often or have used up the quota"),
    (Fail(503, "Too many tokens in flight"), "openai/test-model is overloaded"),
    (Hang(), "did not answer in time"),
    (Hang(after=2), "did not answer in time"),
    (Cut(after=0), "broke off"),
    (Cut(after=3), "openai/test-model broke off in the middle of its answer"),
    (Cut(after=3, clean=True), "broke off"),
    (Cut(call=Call("run_status", {"run": "r-12345"})), "broke off"),
    (Cut(clean=True, call=Call("run_status", {"run": "r-12345"})), "broke off"),
    (Garbled(), "broke off"),
    (Garbled(after=2), "broke off"),
]


@pytest.mark.parametrize(("act", "sentence"), LATER, ids=str)
async def test_what_may_work_later(gateway: GatewayProcess, server: ModelServer, act: Act, sentence: str) -> None:
    server.script(act)
    error = await failure(gateway.model(server))
    assert isinstance(error, Unavailable)
    assert sentence in error.text
    assert error.retry_after_s is None
    assert len(server.requests) == 1


@pytest.mark.parametrize("act", [Drip(0.3), Drip(0.1, empty=True)], ids=str)
async def test_an_answer_ends(gateway: GatewayProcess, server: ModelServer, act: Act) -> None:
    """Words for ever end at the limit of a whole answer, signs without words at that of the first one."""
    server.script(act)
    begun = time()
    error = await failure(gateway.model(server))
    assert error.text == "openai/test-model did not answer in time."
    assert time() - begun < (SILENCE_S if act == Drip(0.1, empty=True) else ANSWER_S) + 1
    async with asyncio.timeout(HANG_S):
        await server.requests[0].gone.wait()


CALLED: list[tuple[Reply, list[tuple[str, str]]]] = [
    (Reply(calls=[Call("run_status", '```json\n{"run": "r-1",}\n```')]), [("run_status", '{"run": "r-1"}')]),
    (Reply(calls=[Call("run_status", '{"run": "r-1"}{"run": "r-1"}')]), [("run_status", '{"run": "r-1"}')]),
    (Reply(calls=[Call("run_status", '"{\\"run\\": \\"r-1\\"}"')]), [("run_status", '{"run": "r-1"}')]),
    (
        Reply(calls=[Call("run_status", '{"run": "r-1"}{"run": "r-2"}')]),
        [("run_status", '{"run": "r-1"}{"run": "r-2"}')],
    ),
    (Reply(calls=[Call("run_status", '{"run": "a,]"')]), [("run_status", '{"run": "a,]"')]),
    (Reply(calls=[Call("run_status", "")], finish="length"), [("run_status", "{")]),
    (
        Reply('I look.\n<tool_call>\n{"name": "run_status", "arguments": {"run": "r-1"}}\n</tool_call>'),
        [("run_status", '{"run": "r-1"}')],
    ),
    (
        Reply('<tool_call>{"name": "run_status", "arguments": {"run": "r-1"}}'),
        [("run_status", '{"run": "r-1"}')],
    ),
    (
        Reply('```json\n{"name": "Run_Status", "parameters": {"run": "r-1"}}\n```'),
        [("run_status", '{"run": "r-1"}')],
    ),
    (Reply(calls=[Call("functions.Run_status", "null")]), [("run_status", "{}")]),
    (Reply(calls=[Call("run_status", '"r-1"')]), [("run_status", '"r-1"')]),
    (Reply('{"name": "run_status", "arguments": {"run": '), []),
    (Reply('So: ```json\n{"name": "run_status", "arguments": {}}\n```'), []),
    (Reply('<tool_call>{"name": "rm", "arguments": {}}</tool_call>'), []),
    (Reply('So: ```\n<tool_call>{"name": "run_status", "arguments": {}}</tool_call>\n```'), []),
]


@pytest.mark.parametrize(("said", "calls"), CALLED, ids=str)
async def test_calls_that_are_not_written_as_they_should_be(
    gateway: GatewayProcess, server: ModelServer, said: Reply, calls: list[tuple[str, str]]
) -> None:
    server.script(said)
    _, reply = await answer(gateway.model(server), tools=[STATUS])
    assert [(call.name, call.arguments) for call in reply.calls] == calls
    assert all(call.id for call in reply.calls)
    assert ("<tool_call>" in reply.text) == ("<tool_call>" in said.text and not calls)


async def test_an_answer_that_was_cut_off_at_the_models_limit_says_so(
    gateway: GatewayProcess, server: ModelServer
) -> None:
    server.script(Reply("It begins with", finish="length"), Reply("One takes", finish="content_filter"))
    _, reply = await answer(gateway.model(server))
    assert reply.shown == "_This answer was cut off at the model's limit; say `go on` for the rest._\n\nIt begins with"
    _, filtered = await answer(gateway.model(server))
    assert filtered.shown == "_The provider ended this answer because of its content._\n\nOne takes"


async def test_a_rate_limit_says_how_long(gateway: GatewayProcess, server: ModelServer) -> None:
    server.script(Fail(429, headers={"Retry-After": "7"}))
    server.script(Fail(429, headers={"Retry-After": formatdate(time() + 60, usegmt=True)}))
    server.script(Fail(429, headers={"Retry-After": "soon"}))
    seconds, date, nonsense = [await failure(gateway.model(server)) for _ in range(3)]
    assert isinstance(seconds, Unavailable)
    assert seconds.retry_after_s == 7
    assert "wait 7 s" in seconds.text
    assert isinstance(date, Unavailable)
    assert date.retry_after_s is not None
    assert 0 < date.retry_after_s <= 60
    assert isinstance(nonsense, Unavailable)
    assert nonsense.retry_after_s is None


WAITS: list[tuple[Fail, float | None]] = [
    (Fail(429, "Rate limit reached for m. Please try again in 7m12s. Visit https://x.org/429."), 432),
    (Fail(429, "Limit 3, Used 3. Please try again in 1.2s."), 1.2),
    (Fail(429, "Please try again in 20ms."), 0.02),
    (Fail(429, "Please retry after 30 seconds."), 30),
    (Fail(503, "Busy; retry in 1 minute and 30 seconds, or later"), 90),
    (Fail(429, "Please try again in 3s.", headers={"Retry-After": "5"}), 5),
    (Fail(429, headers={"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}), 360),
    (
        Fail(
            429,
            headers={
                "x-ratelimit-remaining-requests": "99",
                "x-ratelimit-reset-requests": "6m0s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "1s",
            },
        ),
        1,
    ),
    (Fail(429, headers={"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "soon"}), None),
    (Fail(429, "You may try again when 3 models are free."), None),
]


@pytest.mark.parametrize(("act", "wait_s"), WAITS, ids=str)
async def test_a_rate_limit_says_how_long_in_words_and_in_headers_of_its_own(
    gateway: GatewayProcess, server: ModelServer, act: Fail, wait_s: float | None
) -> None:
    server.script(act)
    error = await failure(gateway.model(server))
    assert isinstance(error, Unavailable)
    assert error.retry_after_s == (None if wait_s is None else pytest.approx(wait_s))
    assert ("It asks to wait" in error.text) == (wait_s is not None)


@pytest.mark.parametrize(
    "name", ["openai/x@{}/v1", "ollama_chat/x@{}", "ollama/x@{}", "anthropic/x@{}", "mistral/x@{}"]
)
async def test_nobody_listens(gateway: GatewayProcess, name: str) -> None:
    error = await failure(GatewayModel([name.format("http://127.0.0.1:9")], gateway.socket))
    assert isinstance(error, Unavailable)
    assert error.text == f"{name.partition('@')[0]} cannot be reached."


async def test_unknown_names(gateway: GatewayProcess) -> None:
    error = await failure(GatewayModel(["nonsense/model"], gateway.socket))
    assert isinstance(error, ModelError)
    assert "nonsense/model" in error.text


async def test_a_missing_key_is_named(gateway: GatewayProcess) -> None:
    error = await failure(GatewayModel(["anthropic/claude-sonnet-4-5"], gateway.socket))
    assert isinstance(error, ModelError)
    assert error.text == (
        "There is no key for anthropic/claude-sonnet-4-5. Put ANTHROPIC_API_KEY into `.env` and restart the bot."
    )
    error = await failure(GatewayModel(["bedrock/us.amazon.nova-pro-v1:0"], gateway.socket))
    assert "There is no key for bedrock/us.amazon.nova-pro-v1:0. Put AWS_ACCESS_KEY_ID and" in error.text


def test_a_missing_key_of_google_is_named() -> None:
    class InternalServerError(Exception):
        """As LiteLLM raises it."""

        status_code = 500

    failure = failure_of(InternalServerError("Your default credentials were not found."), "vertex_ai/gemini-2.5-pro")
    assert not failure.later
    assert failure.text.startswith("There is no key for vertex_ai/gemini-2.5-pro. Put GOOGLE_APPLICATION_CREDENTIALS,")


@pytest.mark.parametrize("provider", ["openai", "custom_openai", "litellm_proxy", "hosted_vllm", "mistral"])
async def test_no_key_of_a_provider_goes_to_a_server_of_ones_own(
    gateway: GatewayProcess, server: ModelServer, provider: str
) -> None:
    server.script(Reply("yes"), Fail(401))
    model = gateway.of([f"{provider}/m@{server.url}"])
    await answer(model)
    error = await failure(model)
    assert [request.key for request in server.requests] == ["none", "none"]
    assert error.text == f"There is no key for {provider}/m. Put TRAINYARD_MODEL_KEYS into `.env` and restart the bot."


async def test_thoughts_are_signs_of_life(gateway: GatewayProcess, server: ModelServer) -> None:
    """Reasoning that takes longer than any silence may is no silence, on neither side of the socket."""
    server.script(Reply("done", thoughts=8, pause_s=SILENCE_S / 5))
    _, reply = await answer(gateway.model(server, silence_s=SILENCE_S * 0.8))
    assert reply.text == "done"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("<think> 1 + 1\n\nOk </think>\n\nIt is 2.", "It is 2."),
        ("<thinking> 1 + 1 </thinking> <think> </think>It is 2.", "It is 2."),
        ("`1` + 1\n</think>\n\nIt is 2.", "It is 2."),  # a template has said the beginning
        ("<think> `rm` is no call of mine </think> <thumb> is no tag.", "<thumb> is no tag."),
        ("Write `</think>`\nat its end.", "Write `</think>`\nat its end."),
        ("So:\n<think>\n1\n</think>\n2", "So:\n<think>\n1\n</think>\n2"),
    ],
)
async def test_thoughts_in_an_answer_are_no_part_of_it(
    gateway: GatewayProcess, server: ModelServer, said: str, shown: str
) -> None:
    server.script(Reply(said))
    pieces, reply = await answer(gateway.model(server))
    assert reply.text == shown
    assert not "".join(pieces).startswith("<think")


async def test_thoughts_that_never_begin_are_shown_once_at_most(gateway: GatewayProcess, server: ModelServer) -> None:
    """Where a template has said their beginning, nobody can tell before they end; from then on it is known."""
    thought = "One and one.\n</think>\n\nIt is 2."
    server.script(Reply(thought), Reply(thought), Reply("It is 3."), Reply("It is 4."))
    model = gateway.model(server, "thinker")
    answers = [await answer(model) for _ in range(4)]
    assert [reply.text for _, reply in answers] == ["It is 2.", "It is 2.", "It is 3.", "It is 4."]
    assert ["".join(pieces).strip() for pieces, _ in answers][1:] == ["It is 2.", "", "It is 4."]


async def test_nothing_but_thoughts_is_no_answer(gateway: GatewayProcess, server: ModelServer) -> None:
    server.script(Reply("<think> 1 + 1", finish="length"), Reply("<think> 1 </think>"))
    error = await failure(gateway.model(server))
    assert error.text == "openai/test-model answered nothing."


async def test_a_call_behind_thoughts_in_the_text_is_carried_out(gateway: GatewayProcess, server: ModelServer) -> None:
    call = '<tool_call>{"name": "run_status", "arguments": {"run": "r-1"}}</tool_call>'
    server.script(Reply(f"<think>I call run_logs?</think>{call}"))
    _, reply = await answer(gateway.model(server), tools=[STATUS])
    assert [(call.name, json.loads(call.arguments)) for call in reply.calls] == [("run_status", {"run": "r-1"})]
    assert not reply.text


async def test_a_server_without_stream_options_is_asked_without(gateway: GatewayProcess, server: ModelServer) -> None:
    server.script(Fail(400, "Unrecognized request argument supplied: stream_options"), Reply("one"), Reply("two"))
    model = gateway.model(server, "old-server")
    assert (await answer(model))[1].text == "one"
    assert (await answer(model))[1].text == "two"
    assert ["stream_options" in request.body for request in server.requests] == [True, False, False]


async def test_twenty_streams_interleave(gateway: GatewayProcess, server: ModelServer) -> None:
    rest = asyncio.Event()
    server.script(*[Reply(" ".join(words(30)), wait_for=rest, hold_after=10) for _ in range(20)])
    begun: set[int] = set()

    async def one(number: int) -> str:
        pieces = []
        async for piece in gateway.model(server).stream([ModelMessage(Role.USER, str(number))], ()):
            pieces.append(piece)
            begun.add(number)
            if len(begun) == 20:
                rest.set()  # nobody is finished before everybody has begun
        return pieces[-1].text

    async with asyncio.timeout(HANG_S):
        texts = await asyncio.gather(*(one(number) for number in range(20)))
    assert {text.split() == " ".join(words(30)).split() for text in texts} == {True}


async def test_a_client_that_goes_away_ends_the_providers_work(gateway: GatewayProcess, server: ModelServer) -> None:
    server.script(Hang(), Hang(after=2), Hang(after=2))
    for number, words_read in enumerate((0, 2, 2), 1):
        asking = asyncio.create_task(_read(gateway.model(server), words_read))
        request = await server.asked(number)
        if number == 3:
            await asking  # reads two words, then drops the generator
            gc.collect()
        else:
            await asyncio.sleep(0.05)
            asking.cancel()
        async with asyncio.timeout(SILENCE_S * 0.9):  # before the gateway's own limit would end it
            await request.gone.wait()


async def _read(model: GatewayModel, words_read: int) -> None:
    async for _ in model.stream(ASKED, ()):
        words_read -= 1
        if words_read == 0:
            return


async def test_a_megabyte_of_history(gateway: GatewayProcess, server: ModelServer) -> None:
    history = [ModelMessage(Role.USER if n % 2 == 0 else Role.ASSISTANT, f"{n} " + "é word" * 1500) for n in range(101)]
    server.script(Reply("read it"))
    _, reply = await answer(gateway.model(server), history)
    assert reply.text == "read it"
    assert [said["content"] for said in server.requests[0].messages] == [said.text for said in history]
    with pytest.raises(ModelError, match="too long for openai/test-model"):
        await answer(gateway.model(server), [ModelMessage(Role.USER, "x" * 16_000_001)])
    assert len(server.requests) == 1


async def test_requests_of_one_connection_are_independent(gateway: GatewayProcess, server: ModelServer) -> None:
    server.script(Fail(500), Reply("second"), Cut(after=1), Reply("fourth"))
    body = {"models": [f"openai/test-model@{server.url}"], "messages": [{"role": "user", "content": "hi"}]}
    reader, writer = await asyncio.open_unix_connection(str(gateway.socket))
    last = []
    async with asyncio.timeout(HANG_S):
        for line in (
            json.dumps(body),
            "no JSON",
            json.dumps(body),
            json.dumps(body),
            '{"models": 7}',
            json.dumps(body),
        ):
            writer.write(line.encode() + b"\n")
            while not {"done", "error"} & (said := json.loads(await reader.readline())).keys():
                pass
            last.append("error" if "error" in said else said["done"]["text"])
    writer.close()
    assert last == ["error", "error", "second", "error", "error", "fourth"]


async def test_a_history_that_providers_would_refuse_is_put_right(gateway: GatewayProcess, server: ModelServer) -> None:
    """Answered late, never answered, cut off from its call, arguments that are no JSON: all happens in chats."""
    history = [
        ModelMessage(Role.TOOL, '{"text": "old"}', call_id="gone"),
        ModelMessage(Role.USER, "train"),
        ModelMessage(Role.ASSISTANT, "", (ToolCall("1", "start_training", "{}"), ToolCall("2", "run_status", "{no"))),
        ModelMessage(Role.TOOL, '{"error": "no JSON"}', call_id="2"),
        ModelMessage(Role.USER, "are you there?"),
        ModelMessage(Role.ASSISTANT, "Yes."),
        ModelMessage(Role.TOOL, '{"text": "Started."}', call_id="1"),
    ]
    server.script(Reply("fine"))
    await answer(gateway.model(server), history)
    sent = server.requests[0].messages
    assert [said["role"] for said in sent] == ["user", "user", "assistant", "tool", "tool", "user", "assistant", "user"]
    assert {said["tool_call_id"] for said in sent if said["role"] == "tool"} == {"1", "2"}
    assert sent[2].get("content") is None
    assert [json.loads(call["function"]["arguments"]) for call in sent[2]["tool_calls"]] == [{}, {"not_json": "{no"}]
    assert "late result of start_training" in sent[-1]["content"]
    assert "Started." in sent[-1]["content"]


@pytest.mark.parametrize(
    ("given", "name", "url"),
    [
        ("openai/qwen3@http://127.0.0.1:1/v1", "openai/qwen3", "http://127.0.0.1:1/v1"),
        ("vertex_ai/claude-sonnet-4@20250514", "vertex_ai/claude-sonnet-4@20250514", ""),
        ("vertex_ai/x@1@https://me@host/v1", "vertex_ai/x@1", "https://me@host/v1"),
        ("ollama/llama3", "ollama/llama3", ""),
        ("ollama_chat/qwen3@http://127.0.0.1:1/", "ollama_chat/qwen3", "http://127.0.0.1:1"),  # else it asks //api/chat
    ],
)
def test_names(given: str, name: str, url: str) -> None:
    assert split_name(given) == (name, url)


async def test_half_a_character_is_no_part_of_an_answer(gateway: GatewayProcess, server: ModelServer) -> None:
    """Servers cut characters of two units at the model's limit, and between two pieces; no database takes a half."""
    server.script(Reply("Fine \ud83d"))
    pieces, reply = await answer(gateway.model(server))
    assert (pieces[0], reply.text) == ("Fine ", "Fine ")
