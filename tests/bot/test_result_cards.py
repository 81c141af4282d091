"""Cards of results within the limits of Slack and Discord, with the longest names that facts may have."""

from pathlib import Path

import pytest

from agent.domain.content import Card, Content, Picture
from agent.domain.pictures import Reported, Table
from agent.domain.results import Classification
from agent.domain.runs import Run, RunPicture, RunState
from agent.runs.cards.run_cards import result_card
from agent.runs.pictures.reported import label_of, reported_buttons, words_of_reported
from agent.runs.pictures.results import LABELS, result_buttons, views_of, words_of
from agent.tools.charts.chart_views import view_of
from agent.tools.runs.resulting import results_arguments
from bot.discord.embeds import card_piece
from bot.slack.blocks import single
from tests.agent.engine import SPEC
from tests.agent.facts import facts, outcome
from tests.fakes import START
from tests.platforms.discord_rules import check_message
from tests.platforms.discord_world import Limits
from tests.platforms.slack_limits import refused_blocks

LONG = "語" * 80


def longest(found: Classification) -> Classification:
    """With names of 80 letters wherever there are names."""
    confusion = found.confusion.model_copy(update={"labels": (LONG,) * len(found.confusion.labels)})
    classes = tuple(one.model_copy(update={"label": LONG}) for one in found.classes)
    rows = tuple(one.model_copy(update={"true": LONG, "predicted": LONG}) for one in found.mistakes.rows)
    curves = tuple(one.model_copy(update={"label": LONG}) for one in found.curves)
    update = {"confusion": confusion, "classes": classes, "curves": curves}
    return found.model_copy(update=update | {"mistakes": found.mistakes.model_copy(update={"rows": rows})})


@pytest.fixture
def cards(tmp_path: Path) -> list[Card]:
    found = longest(facts(tmp_path, 60, rows=3000, text=True).found)
    ended = outcome(tmp_path, None)
    run = Run(
        id="r-abc123",
        session_id="s",
        requester="u",
        state=RunState.SUCCEEDED,
        spec=SPEC,
        attempt=1,
        created_at=START,
        outcome=ended,
    )
    picture = Picture(path=str(tmp_path / "none.png"), alt="x" * 5000, sha256="ab")
    there = views_of(found)
    made = [result_card(run, picture, result_buttons(run.id, there, shown="overview"))]
    for view in there:
        said = words_of(run, found, view)
        ways = result_buttons(run.id, there, shown=view)
        made.append(Card(kind="notice", title=LABELS[view], body=said, picture=picture, buttons=ways))
    names = [f"{i:02d}{'x' * 30}" for i in range(20)]
    pictures = [RunPicture(name=n, form="table", step=2**62, sha256="a" * 64, attempt=1, at=START) for n in names]
    reported = [Reported(step=2**62, picture=Table(title="t", columns=("a",), rows=()))]
    for shown in (pictures[:1], pictures[:4]):
        body = words_of_reported(run, pictures, shown, reported)
        ways = reported_buttons(run, pictures, shown=[one.name for one in shown])
        made.append(Card(kind="notice", title=label_of(names[0]), body=body, picture=picture, buttons=ways))
    return made


def test_slack_takes_them(cards: list[Card]) -> None:
    for card in cards:
        message = single(Content(card=card), {card.picture.sha256: "F0123456789"} if card.picture else {})
        assert refused_blocks(message.blocks, lambda _: True) is None
        assert any(block["type"] == "image" for block in message.blocks)


async def test_discord_takes_them(cards: list[Card]) -> None:
    for card in cards:
        piece = card_piece(card)
        view = piece.view()
        form = {
            "content": piece.text,
            "embeds": [piece.embed.to_dict()] if piece.embed else [],
            "components": view.to_components() if view else [],
        }
        files = {0: ("chart.png", b"\x89PNG")}
        check_message(form, files, Limits(), new=True)
        assert 1 <= len(form["components"]) <= 2


def test_every_button_leads_somewhere(cards: list[Card]) -> None:
    for card in cards:
        for button in card.buttons:
            if button.action == "chart":
                assert view_of(button.subject) is not None
            else:
                assert results_arguments([button.subject])["run"] == "r-abc123"
