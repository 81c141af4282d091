"""Menus in Discord: the components exactly, and choices through the gateway as Discord delivers them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.domain.content import Button, Card, Choice, Content, Menu
from agent.domain.errors import BadRequest
from agent.domain.inbound import Clicked
from agent.ports import Whisper
from bot.discord.embeds import card_piece, pieces
from tests.discord.conftest import Bot
from tests.discord.test_embeds import form_of
from tests.platforms.discord_rules import check_message
from tests.platforms.discord_server import DiscordServer
from tests.platforms.discord_world import ApiError, Json, Limits

METRICS = {"loss": "a1", "accuracy": "b2", "lr": "c3"}


def picking(*taken: str, text: str = "", buttons: int = 1, menus: int = 1, progress: float | None = None) -> Content:
    """A card with menus of three metrics above buttons."""
    choices = tuple(Choice(value=value, label=name, chosen=name in taken) for name, value in METRICS.items())
    subjects = ("r-abc123.m", *(f"r-{n}.m" for n in range(1, menus)))
    return Content(
        text=text,
        card=Card(
            kind="run",
            title="r-abc123",
            menus=tuple(
                Menu(action="card", subject=subject, label="Metrics", choices=choices, most=2)
                for subject in subjects[:menus]
            ),
            buttons=tuple(Button(action="card", subject=f"r-abc123.l{n}", label=f"Log {n}") for n in range(buttons)),
            progress=progress,
        ),
    )


async def test_a_menu_has_a_row_above_the_buttons() -> None:
    menu, buttons = form_of(pieces(picking("accuracy", text="Choose."))[0])["components"]
    assert menu["components"] == [
        {
            "type": 3,
            "custom_id": "v1:card:r-abc123.m:",
            "placeholder": "Metrics",
            "min_values": 0,
            "max_values": 2,
            "required": False,
            "disabled": False,
            "options": [
                {"label": "loss", "value": "a1", "default": False},
                {"label": "accuracy", "value": "b2", "default": True},
                {"label": "lr", "value": "c3", "default": False},
            ],
        }
    ]
    assert [button["label"] for button in buttons["components"]] == ["Log 0"]


async def test_five_rows_hold_menus_and_buttons_together() -> None:
    check_message(form_of(pieces(picking(menus=3, buttons=10))[0]), {}, Limits(), new=True)
    check_message(form_of(pieces(picking(menus=5, buttons=0))[0]), {}, Limits(), new=True)
    check_message(form_of(pieces(picking(menus=0, buttons=25))[0]), {}, Limits(), new=True)
    with pytest.raises(BadRequest, match="11 buttons; Discord shows 10 at most beside 3 menus"):
        pieces(picking(menus=3, buttons=11))
    with pytest.raises(BadRequest, match="26 buttons; Discord shows 25 at most\\."):
        pieces(picking(menus=0, buttons=26))
    with pytest.raises(BadRequest, match="6 menus"):
        pieces(picking(menus=6, buttons=0))


def test_pieces_with_other_choices_are_other_pieces() -> None:
    assert pieces(picking("loss")) == pieces(picking("loss"))
    assert pieces(picking("loss")) != pieces(picking("lr"))
    assert pieces(picking("loss")) != pieces(picking())


async def test_a_choice_comes_back_in_its_order(server: DiscordServer, bot: Bot) -> None:
    await bot.adapter.post(bot.address(server.general), picking("loss"), key="k")
    card = server.messages(server.general)[0]
    bot.gate.clear()
    click = await server.user("alice").choose(card, "Metrics", "lr", "loss", wait=False)
    await server.wait_for(lambda: bot.entered)
    assert not click.callback, "nothing is acknowledged before it is stored"
    bot.gate.set()
    await server.wait_for(lambda: click.callback == 6)
    came = await bot.next()
    assert came.act == Clicked(action="card", subject="r-abc123.mc3a1", digest="")
    assert (came.thread, came.event_id) == (bot.address(server.general), str(click.id))


async def test_a_choice_of_nothing_after_a_restart(server: DiscordServer, bot: Bot) -> None:
    await bot.adapter.post(bot.address(server.general), picking("loss"), key="k")
    await bot.stop()
    other = await Bot(server).start()
    card = server.messages(server.general)[0]
    await server.user("bob").choose(card, "Metrics")
    await server.user("bob").click(card, "Log 0")
    assert [(await other.next(n)).act for n in (1, 2)] == [
        Clicked(action="card", subject="r-abc123.m"),
        Clicked(action="card", subject="r-abc123.l0"),
    ]
    await other.stop()


async def test_an_edit_keeps_the_menu_and_shows_what_was_chosen(server: DiscordServer, bot: Bot) -> None:
    ref = await bot.adapter.post(bot.address(server.general), picking("loss"), key="k")
    card = server.messages(server.general)[0]
    for content in (picking("loss", progress=0.5), picking("accuracy", "lr", progress=0.6)):
        await bot.adapter.edit(bot.address(server.general), ref, content)
    await server.wait_for(lambda: "60 %" in card.text)
    chosen = [option["label"] for option in card.menus["Metrics"]["options"] if option["default"]]
    assert chosen == ["accuracy", "lr"]
    await bot.adapter.edit(bot.address(server.general), ref, picking(menus=0, buttons=0, progress=1.0))
    await server.wait_for(lambda: "100 %" in card.text)
    assert card.components == []


async def test_a_menu_in_a_private_answer(server: DiscordServer, bot: Bot) -> None:
    used = await server.user("alice").slash("train status")
    asked = await bot.next()
    to = Whisper(person=asked.person.id, handle=asked.reply_handle)
    await bot.adapter.post(asked.thread, picking("loss", text="Choose."), key="w1", whisper=to)
    await bot.adapter.post(asked.thread, picking(), key="w2", whisper=to)
    for number, answer in enumerate(used.replies, start=2):
        click = await server.user("alice").choose(answer, "Metrics", "accuracy")
        came = await bot.next(number)
        assert came.act == Clicked(action="card", subject="r-abc123.mb2")
        assert (click.callback, came.reply_handle != asked.reply_handle) == (6, True)
    assert len(used.replies) == 2


@pytest.mark.parametrize(
    ("custom_id", "value"),
    [("old-form", "a1"), ("v1:card:r-abc123.m:0123", "a1"), ("v1:card:r-abc123.m:", "a.1")],
)
async def test_an_unknown_choice_is_answered(server: DiscordServer, bot: Bot, custom_id: str, value: str) -> None:
    await bot.adapter.post(bot.address(server.general), picking(), key="k")
    card = server.messages(server.general)[0]
    card.menus["Metrics"]["custom_id"] = custom_id
    card.menus["Metrics"]["options"][0]["value"] = value
    click = await server.user("alice").choose(card, "Metrics", "loss")
    assert (click.callback, click.ephemeral) == (4, True)
    assert click.original is not None
    assert "older version" in click.original.content
    assert bot.came == []


texts = st.text(max_size=200) | st.sampled_from(
    ["", " ", "@everyone <@1>", "`a`", "שלום", "\u202eabc", "🚀" * 90, "x" * 200, "x" * 199 + "y", "\0", "\u200b"]
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
def test_any_menu_keeps_the_limits(made: list[Menu]) -> None:
    form = form_of(card_piece(Card(kind="run", title="t", menus=tuple(made))))
    check_message(form, {}, Limits(), new=True)
    assert len(form["components"]) == sum(bool(menu.choices) for menu in made)
    for row in form["components"]:
        labels = [option["label"] for option in row["components"][0]["options"]]
        assert len(set(labels)) == len(labels)


OPTION: Json = {"label": "l", "value": "v"}


@pytest.mark.parametrize(
    "changes",
    [
        {"options": []},
        {"options": [OPTION] * 2},
        {"options": [{"label": f"{n}", "value": f"{n}"} for n in range(26)]},
        {"options": [{"label": " ", "value": "v"}]},
        {"options": [{"label": "l" * 101, "value": "v"}]},
        {"options": [{"label": "l", "value": "v" * 101}]},
        {"options": [OPTION | {"default": True}, {"label": "k", "value": "k", "default": True}]},
        {"max_values": 2},
        {"min_values": 2},
        {"placeholder": "x" * 151},
        {"custom_id": ""},
        {"custom_id": "x" * 101},
    ],
)
def test_the_local_discord_refuses_what_discord_refuses(changes: Json) -> None:
    menu: Json = {"type": 3, "custom_id": "x", "options": [OPTION], **changes}
    with pytest.raises(ApiError, match="Invalid Form Body"):
        check_message({"components": [{"type": 1, "components": [menu]}]}, {}, Limits(), new=True)


def test_a_menu_has_its_row_for_itself() -> None:
    menu, button = {"type": 3, "custom_id": "x", "options": [OPTION]}, {"type": 2, "custom_id": "y", "label": "l"}
    check_message({"components": [{"type": 1, "components": [menu]}]}, {}, Limits(), new=True)
    with pytest.raises(ApiError, match="Invalid Form Body"):
        check_message({"components": [{"type": 1, "components": [menu, button]}]}, {}, Limits(), new=True)
