"""Which models there are, which one answers in a thread, and what they cost, as people ask for it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from agent.domain.models import ModelFacts, Preference
from agent.domain.policy import Grants, grants_of
from agent.ports import HalfTyped, Model, ModelMessage, ModelReply, Unused
from tests.agent.conftest import Harness
from tests.fakes import ALICE, THREAD, ScriptedModel, commanded, said

OWN, CLAUDE = "openai/qwen3@http://10.0.0.7:8000/v1", "anthropic/claude-sonnet-4-5"


@dataclass
class TwoModels:
    """One on a server of one's own, which does not answer, and one with levels of effort."""

    names: tuple[str, ...] = (OWN, CLAUDE)
    preferred: list[Preference] = field(default_factory=list)
    asked: list[bool] = field(default_factory=list)

    def model(self, preference: Preference, unused: Unused | None = None) -> Model:
        self.preferred.append(preference)
        first = preference.order(self.names)[0]
        return ScriptedModel(ModelReply(f"I am {first}.", (), first, 1200, 30, 0.0041 if first == CLAUDE else None))

    async def facts(self, *, ask: bool = True) -> Sequence[ModelFacts]:
        self.asked.append(ask)
        if not ask:
            return (ModelFacts(OWN), ModelFacts(CLAUDE, "", 0.0, 200_000, 3.0, 15.0, efforts=True))
        return (
            ModelFacts(OWN, trouble="openai/qwen3 cannot be reached."),
            ModelFacts(CLAUDE, "", 0.84, 200_000, 3.0, 15.0, True, 8, 1, 0.00004),
        )

    async def has_efforts(self, name: str) -> bool:
        return name == CLAUDE

    async def tokens(self, preference: Preference, messages: Sequence[ModelMessage]) -> int:
        return 10 * len(messages)


@pytest.fixture
def two(harness: Harness) -> TwoModels:
    harness.models = two = TwoModels()
    return two


async def answered(harness: Harness, *words: str) -> str:
    """What a command answers."""
    before = len(harness.adapter.whispers)
    async with harness.open() as brain:
        await brain.router.accept(commanded(*words))
        await harness.until(lambda: len(harness.adapter.whispers) > before)
        await brain.delivery.idle()  # else the next brain delivers it once more
    _, content = harness.adapter.whispers[-1]
    return content.card.body if content.card else content.text


async def test_a_thread_prefers_a_model_and_an_effort_until_it_says_otherwise(harness: Harness, two: TwoModels) -> None:
    async with harness.open() as brain:
        await brain.router.accept(said("who are you"))
        await harness.until(lambda: harness.adapter.texts() == [f"I am {OWN}."])
    assert await answered(harness, "model", "claude") == "In this thread `anthropic/claude-sonnet-4-5` answers."
    assert (await answered(harness, "effort", "high")).endswith("answers with high effort.")
    async with harness.open() as brain:  # each time a new bot over the same database
        await brain.router.accept(said("and now"))
        await harness.until(lambda: f"I am {CLAUDE}." in harness.adapter.texts())
        elsewhere = THREAD.model_copy(update={"thread_id": "9.9"})
        await brain.router.accept(said("and here", thread=elsewhere))
        await harness.until(lambda: harness.adapter.texts()[-1] == f"I am {OWN}.")
    assert two.preferred == [Preference(), Preference(CLAUDE, "high"), Preference()]
    assert "`anthropic/claude-sonnet-4-5` answers with high effort" in await answered(harness, "model")
    said_so = await answered(harness, "model", "usual")
    assert said_so.startswith("In this thread `openai/qwen3` answers with high effort; it has no levels of effort")
    assert await answered(harness, "effort", "usual") == "In this thread `openai/qwen3` answers."


async def test_models_are_listed_with_what_they_cost_and_whether_they_answer(harness: Harness, two: TwoModels) -> None:
    refused = await answered(harness, "model", "claude")
    assert refused == "A model is chosen for a thread. Say it in one with me: `@trainyard model …`."
    async with harness.open() as brain:
        await brain.router.accept(said("who are you"))
        await brain.router.idle()
    await answered(harness, "model", "claude-sonnet-4-5")
    await answered(harness, "effort", "low")
    first, second, *_ = (await answered(harness, "models")).splitlines()
    assert first == (
        "1. `anthropic/claude-sonnet-4-5`, answers here with low effort: window 200,000 tokens, "
        "$3.00 in and $15.00 out per million tokens. It answered in 0.8 s."
    )
    assert second == "2. `openai/qwen3`: window unknown, price unknown. openai/qwen3 cannot be reached."
    refused = await answered(harness, "model", "gpt-9")
    assert refused.endswith("configured models: `openai/qwen3`, `anthropic/claude-sonnet-4-5`.")


async def test_asking_models_whether_they_answer_is_stored_and_held_to_budgets(
    harness: Harness, two: TwoModels
) -> None:
    harness.options = replace(harness.options, grants=Grants(admin=grants_of(ALICE.id)))
    await answered(harness, "models")
    async with harness.open() as brain:
        spent = await brain.stores.usage.by_model(person=ALICE.key)
        assert {name: (of.tokens_in, of.tokens_out, of.usd) for name, of in spent.items()} == {CLAUDE: (8, 1, 0.00004)}
    await answered(harness, "budget", "channel", "tokens=5")
    lines = (await answered(harness, "models")).splitlines()
    assert two.asked == [True, False]
    assert lines[1].endswith("$3.00 in and $15.00 out per million tokens.")
    assert lines[3].startswith("I ask no language model here: ")


async def test_what_models_cost_is_shown_for_the_thread_and_the_month(harness: Harness, two: TwoModels) -> None:
    async with harness.open() as brain:
        await brain.router.accept(said("who are you"))
        await brain.router.accept(said("once more"))
        await brain.router.idle()
        await brain.router.accept(commanded("model", "claude"))
        await brain.router.idle()
        await brain.router.accept(said("and you"))
        await brain.router.idle()
    lines = (await answered(harness, "cost")).splitlines()
    both = "3 calls, 3,600 tokens in, 90 out, $0.0041 and 2 calls without a known price"
    assert lines == [
        "**This thread**",
        f"- Language models: {both}",
        f"  - `{OWN}`: 2 calls, 2,400 tokens in, 60 out, 2 calls without a known price",
        f"  - `{CLAUDE}`: 1 call, 1,200 tokens in, 30 out, $0.0041",
        *("- Runs: nothing", ""),
        *("**This channel, this month**", f"- Language models: {both}", "- Runs: nothing", ""),
        *("**You, this month**", f"- Language models: {both}", "- Runs: nothing"),
    ]


async def test_models_are_proposed_while_somebody_types(harness: Harness, two: TwoModels) -> None:
    async with harness.open() as brain:
        asked = HalfTyped(person=ALICE, thread=THREAD, command="model", option="model", text="q")
        assert [choice.value for choice in await brain.complete(asked)] == ["openai/qwen3"]


async def test_without_models_that_is_what_is_said(harness: Harness) -> None:
    for words in (("models",), ("model", "gpt-5"), ("effort", "low")):
        assert "No language model is configured, so I go by rules." in await answered(harness, *words)
