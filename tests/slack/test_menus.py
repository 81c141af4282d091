"""Menus in Slack: the blocks to the letter, and choices through the socket as Slack delivers them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slack_sdk.models.blocks import SectionBlock

from agent.domain.content import Button, Card, Choice, Content, Menu
from agent.domain.inbound import Clicked
from agent.ports import Whisper
from bot.slack.blocks import card_blocks
from tests.platforms.slack_limits import refused_blocks

METRICS = ("loss", "accuracy", "lr")
WORDS = {"loss": "a1", "accuracy": "b2", "lr": "c3"}


def picking(*taken: str, text: str = "") -> Content:
    """A card with a menu of three metrics above a button."""
    choices = tuple(Choice(value=WORDS[name], label=name, chosen=name in taken) for name in METRICS)
    menu = Menu(action="card", subject="r-abc123.m", label="Metrics", choices=choices, most=4)
    buttons = (Button(action="card", subject="r-abc123.l1", label="Log scale"),)
    return Content(text=text, card=Card(kind="run", title="r-abc123", menus=(menu,), buttons=buttons, footer="gpu-1"))


def option(name: str) -> dict[str, object]:
    return {"text": {"type": "plain_text", "text": name}, "value": WORDS[name]}


def test_a_menu_is_a_section_above_the_buttons():
    card = picking("lr", "loss").card
    assert card is not None
    _, section, actions, _ = card_blocks(card, {})

    assert actions["type"] == "actions"
    assert section.pop("block_id").startswith("menu.")
    assert section == {
        "type": "section",
        "text": {"type": "plain_text", "text": "Metrics"},
        "accessory": {
            "type": "multi_static_select",
            "action_id": "v1:card:r-abc123.m:",
            "placeholder": {"type": "plain_text", "text": "Choose up to 3"},
            "options": [option("loss"), option("accuracy"), option("lr")],
            "initial_options": [option("loss"), option("lr")],
            "max_selected_items": 3,
        },
    }


def test_its_block_id_changes_with_what_it_shows_and_only_then():
    def block_id(content: Content) -> str:
        assert content.card is not None
        return card_blocks(content.card, {})[1]["block_id"]

    busier = picking("loss").model_copy(update={"card": picking("loss").card.model_copy(update={"progress": 0.5})})
    assert block_id(picking("loss")) == block_id(picking("loss"))
    assert card_blocks(busier.card, {})[2]["block_id"] == block_id(picking("loss"))
    assert len({block_id(picking()), block_id(picking("loss")), block_id(picking("lr"))}) == 3


async def test_a_choice_comes_back_in_the_order_in_which_it_was_made(server, adapter, inbox, address):
    ref = await adapter.post(address, picking("loss"), key="card-1")
    card = server.message(ref.channel, ref.id)

    delivery = server.user("bob").choose(card, "Metrics", "lr", "loss", "accuracy")
    await server.wait_for(lambda: delivery.acked)

    came = inbox.stored[-1]
    assert came.act == Clicked(action="card", subject="r-abc123.mc3a1b2", digest="")
    assert came.thread == address
    assert came.person.id == server.user("bob").id
    assert came.event_id == f"{card.ts}:{delivery.payload['actions'][0]['action_ts']}:{came.person.id}"


async def test_a_choice_of_nothing_and_a_button_beside_the_menu(server, adapter, inbox, address):
    ref = await adapter.post(address, picking("loss"), key="card-1")
    card = server.message(ref.channel, ref.id)

    first = server.user("bob").choose(card, "Metrics")
    await server.wait_for(lambda: first.acked)
    second = server.user("bob").click(card, "Log scale")
    await server.wait_for(lambda: second.acked)

    assert [came.act for came in inbox.stored[-2:]] == [
        Clicked(action="card", subject="r-abc123.m"),
        Clicked(action="card", subject="r-abc123.l1"),
    ]


async def test_an_edit_shows_what_was_chosen(server, adapter, inbox, address):
    ref = await adapter.post(address, picking(), key="card-1")
    await adapter.edit(address, ref, picking("accuracy"))

    card = server.message(ref.channel, ref.id)
    assert card.menus["Metrics"]["accessory"]["initial_options"] == [option("accuracy")]
    before = next(block for block in card.edits[0][1] if "accessory" in block)
    assert "initial_options" not in before["accessory"]
    assert before["block_id"] != card.menus["Metrics"]["block_id"]


async def test_a_menu_in_a_private_answer(server, adapter, inbox, address):
    alice = server.user("alice")
    used = alice.slash("card r-abc123", channel="general")
    await server.wait_for(lambda: used.acked)
    asked = inbox.stored[-1]
    await adapter.post(
        asked.thread, picking(text="Choose."), key="w", whisper=Whisper(person=alice.id, handle=asked.reply_handle)
    )
    await adapter.post(address, picking(), key="w2", whisper=Whisper(person=alice.id, handle=""))

    for whisper in server.whispers:
        assert whisper.only_for == alice.id
        delivery = alice.choose(whisper, "Metrics", "accuracy")
        await server.wait_for(lambda delivery=delivery: delivery.acked)
        assert delivery.payload["container"]["is_ephemeral"]
        assert "message" not in delivery.payload
        assert inbox.stored[-1].act == Clicked(action="card", subject="r-abc123.mb2")
        assert inbox.stored[-1].reply_handle == delivery.payload["response_url"]
    assert [len(server.whispers), inbox.stored[-1].thread.thread_id] == [2, address.thread_id]


async def test_what_no_menu_of_ours_says_is_acknowledged_and_left(server, adapter, inbox, address):
    ref = await adapter.post(address, picking(), key="card-1")
    card = server.message(ref.channel, ref.id)
    element = card.menus["Metrics"]["accessory"]

    for action_id, value in (("v2:card:r-abc123.m:", "a1"), ("v1:card:r-abc123.m:", "a.1"), ("metrics", "a1")):
        element["action_id"], element["options"][0]["value"] = action_id, value
        delivery = server.user("bob").choose(card, "Metrics", "loss")
        await server.wait_for(lambda delivery=delivery: delivery.acked)
    element["action_id"] = "v1:card:r-abc123.m:"
    element["options"][0]["value"] = None
    last = server.user("bob").choose(card, "Metrics", "loss")
    await server.wait_for(lambda: last.acked)

    assert not any(isinstance(act, Clicked) for act in inbox.acts)


texts = st.text(max_size=200) | st.sampled_from(
    ["", " ", "<!channel> <@U1>", "`a`", "שלום", "\u202eabc", "🚀" * 90, "x" * 200, "x" * 199 + "y", "\0", "&&&" * 40]
)
menus = st.builds(
    lambda names, label, most, taken, number: Menu(
        action="card",
        subject=f"r-abc123.m{number}",
        label=label,
        choices=tuple(Choice(value=f"{n}", label=name, chosen=n in taken) for n, name in enumerate(names)),
        most=most,
    ),
    st.lists(texts, max_size=40),
    texts,
    st.integers(-1, 30),
    st.sets(st.integers(0, 40)),
    st.integers(0, 10**6),
)


@given(st.lists(menus, max_size=5, unique_by=lambda menu: menu.subject))
def test_any_menu_is_within_slacks_limits(made):
    blocks = card_blocks(Card(kind="run", title="t", menus=tuple(made)), {})
    sections = [block for block in blocks if block["type"] == "section"]

    assert refused_blocks(blocks, lambda _: True) is None
    assert len(sections) == sum(bool(menu.choices) for menu in made)
    for section in sections:
        SectionBlock(**section).validate_json()  # Slack's own SDK knows some limits
        labels = [choice["text"]["text"] for choice in section["accessory"]["options"]]
        assert len(set(labels)) == len(labels)


def bad(**changes: object) -> list[dict[str, object]]:
    """The blocks of a good menu with changes in its element."""
    card = picking("loss").card
    assert card is not None
    blocks = card_blocks(card, {})
    blocks[1]["accessory"] |= changes
    return blocks


@pytest.mark.parametrize(
    "blocks",
    [
        bad(options=[]),
        bad(options=[option("loss")] * 2),
        bad(options=[option("loss") | {"value": ""}], initial_options=None),
        bad(options=[option("loss") | {"value": "x" * 151}], initial_options=None),
        bad(options=[option("loss") | {"text": {"type": "mrkdwn", "text": "x"}}], initial_options=None),
        bad(options=[option("loss") | {"text": {"type": "plain_text", "text": "x" * 76}}], initial_options=None),
        bad(initial_options=[]),
        bad(initial_options=[option("loss") | {"value": "z"}]),
        bad(initial_options=[option("loss"), option("lr")], max_selected_items=1),
        bad(max_selected_items=0),
        bad(placeholder={"type": "plain_text", "text": "x" * 151}),
        bad(action_id="x" * 256),
        bad(action_id="0.card"),
        [{"type": "actions", "elements": [bad()[1]["accessory"]]}],
        [bad()[1], bad()[1] | {"accessory": bad(action_id="other")[1]["accessory"]}],
    ],
)
def test_the_local_slack_refuses_what_slack_refuses(blocks):
    refused = refused_blocks(blocks, lambda _: True)
    assert refused is not None
    assert refused[0] == "invalid_blocks"
