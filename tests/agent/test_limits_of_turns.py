"""Turns that do not end by themselves: limits and circles, each said, with a question whether to go on."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from agent.brain import Brain
from agent.conversation.going_on import NOT_YOURS
from agent.conversation.guards import TurnLimits, circles, note_on
from agent.conversation.prompt import as_read
from agent.domain.content import Button
from agent.domain.policy import Grants, grants_of
from agent.ports import ModelMessage, ModelReply, Role, ToolCall
from tests.agent.conftest import Harness
from tests.agent.slow_tools import SlowTools
from tests.agent.stage import Stage, rows
from tests.fakes import ALICE, BOB, GUEST, ScriptedModel, clicked, said


def call(number: int, tool: str = "list_runs", arguments: str = "{}", **more: object) -> ModelReply:
    return ModelReply("", (ToolCall(f"c{number}", tool, arguments),), "m", **more)  # type: ignore[arg-type]


def looking(count: int, **more: object) -> list[ModelReply]:
    """Calls that all have another result."""
    return [call(n, "run_status", f'{{"run": "r-{n:06}"}}', **more) for n in range(count)]


@pytest.mark.parametrize(
    ("limits", "used", "why"),
    [
        (TurnLimits(steps=16), {}, "I stopped after 16 steps without an end in sight."),
        (TurnLimits(tokens=160), {"tokens_in": 9, "tokens_out": 1}, "used 160 tokens of a language model, and 160"),
        (TurnLimits(usd=0.8), {"cost_usd": 0.05}, "has cost $0.80, and $0.80 are its most."),
    ],
)
async def test_a_limit_is_said_and_people_may_go_on(
    harness: Harness, limits: TurnLimits, used: dict[str, object], why: str
) -> None:
    harness.options = replace(harness.options, limits=limits)
    harness.model = ScriptedModel(*looking(16, **used), ModelReply("Now I am done.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("look around for ever"))
        await harness.until(lambda: any(why in text for text in harness.adapter.texts()))
        go_on = harness.adapter.button("continue")
        await brain.router.accept(clicked(go_on))
        await brain.router.accept(clicked(go_on))  # a double click is one
        await brain.router.accept(clicked(go_on.model_copy(update={"action": "leave"}), person=BOB))
        await harness.until(lambda: "Now I am done." in harness.adapter.texts())
        await brain.router.idle()
        await brain.delivery.idle()
        assert [(who, told.text) for who, told in harness.adapter.whispers] == [(BOB.id, "Continued by alice before.")]
        (card,) = [content.card for content in harness.adapter.shown if content.card]
        assert (card.buttons, card.footer) == ((), "Continued by alice")


async def limited(harness: Harness, brain: Brain) -> Button:
    """The button below a turn that has reached its limit."""
    await brain.router.accept(said("look around"))
    await brain.router.idle()
    await brain.delivery.idle()
    return harness.adapter.button("continue")


async def test_a_click_of_who_may_not_talk_to_the_bot_leaves_the_button_to_others(harness: Harness) -> None:
    alone = grants_of(ALICE.id)
    grants = Grants(ask=alone, launch=alone)
    harness.options = replace(harness.options, limits=TurnLimits(steps=1), grants=grants)
    harness.model = ScriptedModel(call(1), ModelReply("Now I am done.", (), "m"))
    async with harness.open() as brain:
        go_on = await limited(harness, brain)
        await brain.router.accept(clicked(go_on, person=BOB))
        await harness.until(
            lambda: any("You may not use me here." in told.text for _, told in harness.adapter.whispers)
        )
        await brain.router.accept(clicked(go_on))
        await harness.until(lambda: "Now I am done." in harness.adapter.texts())


async def test_a_guest_goes_on_with_nothing_of_others_and_leaves_the_button_to_them(harness: Harness) -> None:
    harness.options = replace(harness.options, limits=TurnLimits(steps=1))
    harness.model = ScriptedModel(call(1), ModelReply("Now I am done.", (), "m"))
    async with harness.open() as brain:
        go_on = await limited(harness, brain)
        await brain.router.accept(clicked(go_on, person=GUEST))
        await brain.router.idle()
        await brain.delivery.idle()
        assert [(who, told.text) for who, told in harness.adapter.whispers] == [(GUEST.id, NOT_YOURS)]
        await brain.router.accept(clicked(go_on))
        await harness.until(lambda: "Now I am done." in harness.adapter.texts())


@pytest.mark.parametrize("command", ["undo", "new"])
async def test_nobody_goes_on_with_what_is_not_read_any_more(harness: Harness, command: str) -> None:
    harness.options = replace(harness.options, limits=TurnLimits(steps=1))
    harness.model = model = ScriptedModel(call(1))
    async with harness.open() as brain:
        go_on = await limited(harness, brain)
        await brain.router.accept(said(command))
        await brain.router.idle()
        await brain.router.accept(clicked(go_on))
        await harness.until(lambda: any("Say in words" in told.text for _, told in harness.adapter.whispers))
        await brain.router.idle()
    assert len(model.asked) == 1


async def test_minutes_are_a_limit_too_and_it_may_be_left_at_that(harness: Harness) -> None:
    harness.options = replace(harness.options, limits=TurnLimits(minutes=0.0))
    harness.model = ScriptedModel()
    async with harness.open() as brain:
        await brain.router.accept(said("look around"))
        await harness.until(lambda: any("has taken 0 minutes" in text for text in harness.adapter.texts()))
        await brain.router.accept(clicked(harness.adapter.button("leave"), person=BOB))
        await harness.until(lambda: any(c.card and c.card.footer for c in harness.adapter.shown))
        (card,) = [content.card for content in harness.adapter.shown if content.card]
        assert (card.buttons, card.footer) == ((), "Left at that by bob")


async def test_a_turn_whose_time_is_used_up_waits_for_no_tool_that_reads(harness: Harness) -> None:
    slow = SlowTools()
    harness.toolsets, harness.options = (slow,), replace(harness.options, limits=TurnLimits(minutes=0.002))
    harness.model = ScriptedModel(call(1, "look_long", '{"what": "a"}'))
    async with harness.open() as brain:
        await limited(harness, brain)
        assert any("this turn has taken 0 minutes" in text for text in harness.adapter.texts())
    assert (slow.begun, slow.ended) == (["a"], [])


async def test_circles_are_noted_once_and_then_asked_about(harness: Harness) -> None:
    harness.model = model = ScriptedModel(*(call(n, "look_up") for n in range(4)), ModelReply("Better now.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("what is up"))
        await harness.until(lambda: any("I go round in circles" in text for text in harness.adapter.texts()))
        notes = [[as_read(message).count("You made the same calls") for message in asked] for asked in model.asked]
        assert [sum(note) for note in notes] == [0, 0, 0, 1]
        assert "You made the same calls with the same results 3 times: `look_up`" in as_read(model.asked[3][-1])
        assert len(model.asked) == 4
        await brain.router.accept(clicked(harness.adapter.button("continue")))
        await harness.until(lambda: "Better now." in harness.adapter.texts())


async def test_calls_of_one_reply_that_repeat_are_noted_once_before_people_are_asked(harness: Harness) -> None:
    def twice(number: int) -> ModelReply:
        return ModelReply("", tuple(ToolCall(f"c{number}-{n}", "look_up", "{}") for n in range(2)), "m")

    harness.model = model = ScriptedModel(twice(1), twice(2), ModelReply("I see.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("what is up"))
        await harness.until(lambda: "I see." in harness.adapter.texts())
    assert len([message for message in model.asked[-1] if message.note]) == 1


async def test_asking_again_how_a_run_is_doing_is_no_circle(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        for step in range(1, 9):
            await stage.says(run, rows(step))

    def asks(number: int) -> ModelReply:
        return call(number, "run_status", f'{{"run": "{run.id}"}}')

    harness.model = model = ScriptedModel(*map(asks, range(6)), ModelReply("It learns.", (), "m"))
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        stage._seqs[run.id, 1] = 10
        stream, steps = model.stream, iter(range(20, 40))

        async def moves(messages: Sequence[ModelMessage], tools: object) -> object:  # type: ignore[misc]
            await stage.says(run, rows(next(steps)))
            async for piece in stream(messages, ()):
                yield piece

        model.stream = moves  # type: ignore[method-assign, assignment]
        await brain.router.accept(said("watch it"))
        await harness.until(lambda: "It learns." in harness.adapter.texts())
    assert not [message for message in model.asked[-1] if "same calls" in message.note]


def turn_of(*steps: tuple[str, str], notes: Sequence[int] = ()) -> list[ModelMessage]:
    """A turn with these calls, each by its tool and what it gave; after those numbers of calls there was a note."""
    said = [ModelMessage(Role.USER, "go")]
    for number, (tool, result) in enumerate(steps, 1):
        said.append(ModelMessage(Role.ASSISTANT, "", (ToolCall("c", tool, '{"b": 1, "a": null}'),), model="m"))
        said.append(ModelMessage(Role.TOOL, result, call_id="c", note="n" if number in notes else ""))
    return said


POLLS = frozenset({"run_status", "run_logs", "list_queue"})
A, B, C, D, E = (("a", "1"), ("b", "2"), ("c", "3"), ("d", "4"), ("e", "5"))
LIVE, ENDED = ("run_status", '{"state": "running"}'), ("run_status", '{"state": "failed"}')


@pytest.mark.parametrize(
    ("steps", "named"),
    [
        ([A, A], ""),
        ([A, A, A], "`a`"),
        ([B, A, A, A], "`a`"),
        ([A, ("a", "2"), A], ""),
        ([A, B] * 2, ""),
        ([C, *[A, B] * 3], "`a`, `b`"),
        ([A, B, C] * 3, "`a`, `b`, `c`"),
        ([A, B, C, D, E] * 3, "`a`, `b`, `c`, `d`, `e`"),
        ([A, B, C, D, E] * 2, ""),
        ([ENDED] * 3, "`run_status`"),
        ([LIVE] * 5, ""),
        ([LIVE, A] * 3, "`run_status`, `a`"),
        ([A, B, ("a", "x"), B, A, B], ""),
    ],
)
def test_what_is_a_circle(steps: list[tuple[str, str]], named: str) -> None:
    note = note_on(turn_of(*steps), POLLS)
    assert (f" times: {named}. " in note) if named else not note
    assert not circles(turn_of(*steps), POLLS)


def test_a_circle_is_noted_once_and_ended_after_another_round() -> None:
    noted = turn_of(A, A, A, notes=[3])
    assert not note_on(noted, POLLS)
    assert not circles(noted, POLLS)
    assert circles(turn_of(A, A, A, A, notes=[3]), POLLS)
    assert not circles(turn_of(A, A, A, B, A, notes=[3]), POLLS)
    assert circles(turn_of(*[A, B] * 4, notes=[6]), POLLS)


def test_words_of_people_begin_the_count_anew() -> None:
    noted = turn_of(A, A, A, notes=[3])
    again = turn_of(A, A, A)[1:]
    words = ModelMessage(Role.USER, "I have mended it, try again", steers=BOB.key)
    assert not circles([*noted, words, *again[:2]], POLLS)
    assert not note_on([*noted, words, *again[:4]], POLLS)
    assert note_on([*noted, words, *again], POLLS)


def test_a_tool_that_breaks_again_and_again_is_a_circle() -> None:
    broken = [("a", f'{{"error": "`a` broke (id {bug}); the log has the details."}}') for bug in ("x1", "y2", "z3")]
    assert note_on(turn_of(*broken), POLLS)


@pytest.mark.parametrize(
    "look", [[LIVE], [("list_queue", '{"state": "queued"}')], [LIVE, ("run_logs", "{}")], [("run_logs", "{}")]]
)
def test_looking_at_what_waits_is_noted_gently_and_ends_much_later(look: list[tuple[str, str]]) -> None:
    assert not note_on(turn_of(*look * 5), POLLS)
    note = note_on(turn_of(*look * 6), POLLS)
    assert note.startswith("Nothing has changed in 6 looks: `")
    assert "end your answer" in note
    noted = [6 * len(look)]
    assert not circles(turn_of(*look * 11, notes=noted), POLLS)
    assert circles(turn_of(*look * 12, notes=noted), POLLS)


async def test_tools_that_look_at_what_goes_on_declare_it(harness: Harness) -> None:
    async with harness.open() as brain:
        looks = {"run_status", "run_logs", "run_metrics", "list_queue", "list_runs", "list_hosts"}
        assert brain.dispatcher.polls == looks
