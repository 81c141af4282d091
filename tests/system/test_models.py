"""A language model in the thread: real bot, real gateway process with LiteLLM, a scripted provider, real kills."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator

import psutil
import pytest
import pytest_asyncio

from tests.platforms.model_server import Call, Cut, Fail, Hang, ModelServer, Reply
from tests.platforms.slack_server import SlackServer
from tests.platforms.slack_world import Message
from tests.system import canaries
from tests.system.conftest import HANG_S, Bot, Yard, cards, seen, settled

pytestmark = pytest.mark.asyncio(loop_scope="module")

WARM = "off"  # nothing is trained
CANARY = canaries.PROVIDER


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bot(
    yard: Yard, slack: SlackServer, provider: ModelServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Bot]:
    """A bot with a language model; afterwards its key stands nowhere."""
    secret = yard.home / "secrets" / "HF_TOKEN"
    secret.parent.mkdir(exist_ok=True)
    secret.write_text(canaries.GRANTED)
    secret.chmod(0o600)
    folder, models = tmp_path_factory.mktemp("bot"), f"openai/test-model@{provider.url}"
    keys = f"{provider.url}={CANARY}"
    async with yard.bot(slack, folder / "bot.db", TRAINYARD_MODELS=models, TRAINYARD_MODEL_KEYS=keys) as bot:
        yield bot
    places = [path for root in (folder, yard.home / "logs") for path in root.rglob("*") if path.is_file()]
    assert {"bot.log", "bot.db", "gateway.log"} <= {path.name for path in places}
    assert [path for path in places if CANARY.encode() in path.read_bytes()] == []
    assert CANARY not in slack.transcript()


@pytest.fixture
def server(bot: Bot, provider: ModelServer) -> Iterator[ModelServer]:
    """What the bot asks, with a script of the test's own."""
    provider.reset()
    yield provider
    assert {request.key for request in provider.requests} == {CANARY}


def answers(slack: SlackServer, asked: Message) -> list[Message]:
    """What the bot has said in the thread."""
    return [message for message in slack.thread(asked.ts) if message.ts != asked.ts]


async def test_an_answer_grows_in_the_thread_and_is_stopped_there(slack: SlackServer, server: ModelServer) -> None:
    rest = asyncio.Event()
    server.script(Reply("Gradient boosting it is. " * 4 + "That is all.", wait_for=rest, hold_after=8))
    asked = slack.user("alice").mention("which method would you take")
    await seen(slack, asked.ts, "Gradient boosting it is.")
    (message,) = answers(slack, asked)
    assert "That is all." not in message.shown
    rest.set()
    await seen(slack, asked.ts, "That is all.")
    await settled()
    assert [message.shown for message in answers(slack, asked)] == ["Gradient boosting it is. " * 4 + "That is all."]
    assert server.requests[0].body["tools"]
    server.script(Hang(after=6))
    slack.user("alice").mention("and now a long story", thread=asked.ts)
    await seen(slack, asked.ts, "word0 word1")
    slack.user("bob").say("cluster", thread=asked.ts)
    await seen(slack, asked.ts, "Cluster:")  # beside the answer
    slack.user("bob").say("stop", thread=asked.ts)
    async with asyncio.timeout(HANG_S):
        await server.requests[1].gone.wait()
    await seen(slack, asked.ts, "word0 word1", "Stopped by")


async def test_what_is_said_during_a_turn_reaches_its_next_step(slack: SlackServer, server: ModelServer) -> None:
    rest = asyncio.Event()
    look = Reply("I look what there is.", calls=[Call("list_runs", {})], wait_for=rest, hold_after=2)
    server.script(look, Reply("Nothing runs, and blue it is."))
    asked = slack.user("alice").mention("what is going on here")
    await seen(slack, asked.ts, "I look")
    slack.user("bob").say("paint it blue, too", thread=asked.ts)
    await settled()
    rest.set()
    await seen(slack, asked.ts, "and blue it is.")
    assert len(server.requests) == 2
    assert server.requests[1].messages[-1]["content"].startswith('[from "Bob"]\npaint it blue, too\n')


async def test_an_endless_loop_is_noted_and_then_asked_about(slack: SlackServer, server: ModelServer) -> None:
    server.script(*[Reply(calls=[Call("look_everywhere", {"again": True})])] * 4)
    asked = slack.user("alice").mention("find it")
    await seen(slack, asked.ts, "I go round in circles", "`look_everywhere`", "Continue", "Stop")
    assert "[note of Trainyard: You made the same calls" in server.requests[3].messages[-1]["content"]
    server.script(Reply("There is nothing to find."))
    (question,) = [message for message in slack.thread(asked.ts) if "Continue" in message.buttons]
    slack.user("bob").click(question, "Continue")
    await seen(slack, asked.ts, "There is nothing to find.")
    await seen(slack, asked.ts, "I go round in circles", "Continued by Bob")


async def test_an_overflow_is_summarised_and_asked_again(slack: SlackServer, server: ModelServer) -> None:
    server.script(Reply("Blue, red and green are what I like."))
    asked = slack.user("alice").mention("which colours do you like")
    await seen(slack, asked.ts, "Blue, red and green")
    too_long = Fail(400, "This model's maximum context length is 8 tokens.", "context_length_exceeded")
    server.script(too_long, Reply("Alice asked for colours; I named three."), Reply("Green most."))
    slack.user("bob").say("and which one most?", thread=asked.ts)
    await seen(slack, asked.ts, "Green most.")
    await seen(slack, asked.ts, "The conversation was getting long, so I summarised")
    words = [str(message["content"]) for message in server.requests[-1].messages[1:]]
    assert words[0] == "[summary, by Trainyard, of what was said before] Alice asked for colours; I named three."
    assert words[1].startswith('[from "Bob"]\nand which one most?\n[note of Trainyard: It is ')


async def test_a_conversation_begins_anew_and_a_turn_is_taken_back(slack: SlackServer, server: ModelServer) -> None:
    server.script(Reply("Blue."), Reply("Red."), Reply("I do not know."))
    alice = slack.user("alice")
    asked = alice.mention("name a colour")
    await seen(slack, asked.ts, "Blue.")
    await settled()  # what is said while an answer is being stored is beside it
    alice.say("new", thread=asked.ts)
    await seen(slack, asked.ts, "A fresh start: of what was said so far I read nothing any more.")
    alice.say("name another colour", thread=asked.ts)
    await seen(slack, asked.ts, "Red.")
    await settled()
    alice.say("undo", thread=asked.ts)
    await seen(slack, asked.ts, "I forgot the last turn: “name another colour”")
    alice.say("which colour was it?", thread=asked.ts)
    await seen(slack, asked.ts, "I do not know.")
    assert [len(request.messages) for request in server.requests] == [2, 2, 2]


async def test_a_model_asks_people_with_buttons_and_waits(slack: SlackServer, server: ModelServer) -> None:
    ask = {"question": "Which of the two?", "choices": ["the small one", "the large one"]}
    plan = {"items": [{"text": "ask", "state": "done"}, {"text": "answer"}]}
    server.script(Reply(calls=[Call("plan", plan), Call("ask_user", ask)]))
    asked = slack.user("alice").mention("take a model")
    await seen(slack, asked.ts, "Plan: 1 of 2 done", "✓ ask")
    await seen(slack, asked.ts, "A question for Alice", "Which of the two?", "the large one")
    server.script(Reply("The large one it is."))
    (question,) = [message for message in slack.thread(asked.ts) if "the large one" in message.buttons]
    slack.user("bob").click(question, "the large one")
    await seen(slack, asked.ts, "The large one it is.")
    await seen(slack, asked.ts, "A question for Alice", "Bob: the large one")
    assert server.requests[1].messages[-1]["content"].startswith('{"text": "Bob answered: the large one"}\n')


async def test_a_model_plans_a_training(slack: SlackServer, server: ModelServer, visits: bytes) -> None:
    plan = {"file": "visits.csv", "target": "visited_doctor"}
    server.script(
        Reply("I look at the data.", calls=[Call("inspect_dataset", plan)]),
        Reply(calls=[Call("start_training", '{"file": ')]),
        Reply(calls=[Call("start_training", plan)]),
        Reply("Nothing was started, as you wish."),
    )
    alice = slack.user("alice")
    asked = alice.mention("a model for the doctor visits, please", files=[slack.file("visits.csv", visits)])
    await seen(slack, asked.ts, "Approve")
    said = [message["content"] for message in server.requests[2].messages if message["role"] == "tool"]
    assert json.loads(said[0])["rows"] == 4000
    assert "cannot use these arguments" in said[1]
    (card,) = [message for message in slack.thread(asked.ts) if "Reject" in message.buttons]
    alice.click(card, "Reject")
    await seen(slack, asked.ts, "Nothing was started, as you wish.")
    assert cards(slack, asked.ts, "Started") == []


async def test_no_secret_leaves_in_any_form(bot: Bot, yard: Yard, slack: SlackServer, server: ModelServer) -> None:
    look, run = Call("inspect_dataset", {"file": "keys.csv"}), {"file": "train.py", "data": ["keys.csv"]}
    start = Call("start_script", {**run, "secrets": ["HF_TOKEN"]})
    server.script(Reply(calls=[look]), Reply(calls=[start]), Reply("It runs."), Reply("Nothing to add."))
    alice = slack.user("alice")
    files = [slack.file("train.py", canaries.PROGRAM.encode()), slack.file("keys.csv", canaries.DATA.encode())]
    asked = alice.mention(f"run it with the key {canaries.PASTED}", files=files)
    await seen(slack, asked.ts, "Run train.py?", "Approve", "It holds what looks like a secret (openai)")
    (card,) = [message for message in slack.thread(asked.ts) if "Approve" in message.buttons]
    alice.click(card, "Approve")
    await seen(slack, asked.ts, "It runs.")
    await seen(slack, asked.ts, "failed", "RuntimeError")
    await seen(slack, asked.ts, "Nothing to add.")  # the monitor asks about a failed run by itself, within seconds
    looks = ("run_logs", "run_metrics", "run_script", "run_status", "run_attempts")
    server.script(Reply(calls=[Call(name, {}) for name in looks]), Reply("Its key is wrong."))
    alice.mention("why did it fail?", thread=asked.ts)
    await seen(slack, asked.ts, "Its key is wrong.")
    for words in ("logs file", "export", "script"):
        alice.say(words, thread=asked.ts)
    await slack.wait_for(lambda: any(file.name == "conversation.md" for file in slack.files.values()))
    await slack.wait_for(lambda: sum(file.name == "train.py" for file in slack.files.values()) == 3)
    prompts = json.dumps([request.body for request in server.requests])
    assert "[secret: huggingface]" in prompts  # what is looked for went that way
    assert "in two parts [secret: granted] and [secret: openai]" in prompts
    assert "loss_[secret: granted]" in prompts
    assert canaries.leaks(slack, server, yard.home, bot.database.parent, yard.redis_url) == []


async def test_kill_9_of_the_bot_in_the_middle_of_an_answer(bot: Bot, slack: SlackServer, server: ModelServer) -> None:
    server.script(Hang(after=6))
    asked = slack.user("alice").mention("tell me a long story")
    await seen(slack, asked.ts, "word0 word1")
    await bot.kill()
    async with asyncio.timeout(HANG_S):
        await server.requests[0].gone.wait()  # the gateway died with its bot
    server.script(*[Reply("A short story.")] * 2)  # or one is tried again
    await bot.start()
    await seen(slack, asked.ts, "A short story.")
    await settled()
    shown = [message.shown for message in answers(slack, asked)]
    assert shown == ["A short story."], slack.transcript()
    assert len(server.requests) in {2, 3}


@pytest.mark.faults
async def test_kill_9_of_the_gateway_in_the_middle_of_an_answer(
    bot: Bot, slack: SlackServer, server: ModelServer
) -> None:
    server.script(Hang(after=6))
    asked = slack.user("alice").mention("tell me a long story")
    await seen(slack, asked.ts, "word0 word1")
    os.kill(_gateway_of(bot), signal.SIGKILL)
    await seen(slack, asked.ts, "process that talks to language models ended", "I go by rules")
    server.script(Reply("I am back."))
    slack.user("alice").mention("and now another one", thread=asked.ts)
    await seen(slack, asked.ts, "I am back.")
    await settled()
    assert len(answers(slack, asked)) == 3, slack.transcript()  # with Alice's second message


async def test_a_model_that_fails_for_now_is_waited_for_and_asked_again(
    slack: SlackServer, server: ModelServer
) -> None:
    server.script(Cut(after=6), Fail(429, headers={"Retry-After": "2"}), Reply("Here I am.", usage=(1500, 20)))
    asked = slack.user("alice").mention("what is the weather")
    await seen(slack, asked.ts, "word0", "broke off in the middle of its answer; I try again in")
    await seen(slack, asked.ts, "have used up the quota; I try again in 2 s.")
    await seen(slack, asked.ts, "Here I am.")
    await settled()
    (message,) = answers(slack, asked)
    assert message.shown == "Here I am."
    server.script(Reply("ok"))
    slack.user("alice").say("models", thread=asked.ts)
    await seen(slack, asked.ts, "openai/test-model", "answers here", "price unknown", "It answered in")
    slack.user("alice").say("cost", thread=asked.ts)
    await seen(slack, asked.ts, "This thread", "Language models: 2 calls,", "without a known price")


async def test_a_refused_key_is_said_and_the_planner_answers(
    slack: SlackServer, server: ModelServer, visits: bytes
) -> None:
    """The last one: this bot asks no model any more."""
    server.script(*[Fail(401, f"Incorrect API key provided: {CANARY}")] * 8)
    alice = slack.user("alice")
    weather = alice.mention("what is the weather")
    asked = alice.mention("train a model that predicts visited_doctor", files=[slack.file("v.csv", visits)])
    refused = "The key for openai/test-model was refused. Put a valid one into"
    await seen(slack, weather.ts, refused, "I go by rules", "did not understand")
    await seen(slack, asked.ts, refused, "I look at the data first.")
    await seen(slack, asked.ts, "Approve")
    assert len(cards(slack, asked.ts, refused)) == 1


def _gateway_of(bot: Bot) -> int:
    assert bot.process is not None
    children = psutil.Process(bot.process.pid).children(recursive=True)
    (gateway,) = [child.pid for child in children if "agent.llm.gateway" in child.cmdline()]
    return int(gateway)
