"""Cards as Slack gets them, to the letter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.domain.content import Button, Card, Content, Fact, Picture, Table
from bot.slack.blocks import MESSAGE_CHARS, WHISPER_CHARS, escape, fallback, messages, neutral, single, weight
from tests.platforms.slack_limits import refused_blocks

RUN = Card(
    kind="run",
    title="Run r-7f3a · tickets",
    tone="busy",
    body="Fine-tuning **distilbert** on `tickets.csv`",
    facts=(Fact(name="Step", value="120 / 400"), Fact(name="Loss", value="0.31 < 0.5 & falling")),
    progress=0.3,
    table=Table(columns=("epoch", "f1"), rows=(("1", "0.81"), ("2", ""))),
    log=("step 119", "step 120 <!channel>"),
    picture=Picture(path="/none.png", alt="loss, last 0.31", sha256="ab"),
    buttons=(Button(action="pause", subject="r-7f3a", label="Pause"),),
    footer="gpu-1 · 2 min left",
)
APPROVAL = Card(
    kind="approval",
    title="Start this run?",
    tone="warn",
    body="About **$0.40**, 12 minutes.",
    buttons=(
        Button(action="approve", subject="ap-1", label="Approve", style="primary", digest="0123456789abcdef"),
        Button(action="reject", subject="ap-1", label="Reject", style="danger", digest="0123456789abcdef"),
    ),
    footer="expires in 24 h",
)


def test_an_approval_card():
    message = single(Content(card=APPROVAL), {})

    assert message.text == "Start this run?: About $0.40, 12 minutes."
    assert message.blocks == [
        {"type": "header", "text": {"type": "plain_text", "text": "⚠️ Start this run?"}},
        {"type": "markdown", "text": "About **$0.40**, 12 minutes."},
        {
            "type": "actions",
            "elements": [
                {
                    "type": "button",
                    "text": {"type": "plain_text", "text": "Approve"},
                    "action_id": "0.approve",
                    "value": "v1:approve:ap-1:0123456789abcdef",
                    "style": "primary",
                },
                {
                    "type": "button",
                    "text": {"type": "plain_text", "text": "Reject"},
                    "action_id": "1.reject",
                    "value": "v1:reject:ap-1:0123456789abcdef",
                    "style": "danger",
                    "confirm": {
                        "title": {"type": "plain_text", "text": "Reject"},
                        "text": {"type": "plain_text", "text": "Reject: are you sure?"},
                        "confirm": {"type": "plain_text", "text": "Reject"},
                        "deny": {"type": "plain_text", "text": "Cancel"},
                        "style": "danger",
                    },
                },
            ],
        },
        {"type": "context", "elements": [{"type": "mrkdwn", "text": "expires in 24 h"}]},
    ]


def test_a_run_card():
    message = single(Content(card=RUN), {"ab": "F0123456789"})

    assert message.text == "Run r-7f3a · tickets (30%): Fine-tuning distilbert on tickets.csv"
    assert message.blocks == [
        {"type": "header", "text": {"type": "plain_text", "text": "⏳ Run r-7f3a · tickets"}},
        {"type": "markdown", "text": "Fine-tuning **distilbert** on `tickets.csv`"},
        {
            "type": "section",
            "fields": [
                {"type": "mrkdwn", "text": "*Step*\n120 / 400"},
                {"type": "mrkdwn", "text": "*Loss*\n0.31 &lt; 0.5 &amp; falling"},
            ],
        },
        {"type": "context", "elements": [{"type": "mrkdwn", "text": "▓▓▓▓▓▓░░░░░░░░░░░░░░ 30 %"}]},
        {
            "type": "table",
            "column_settings": [{"is_wrapped": True}, {"is_wrapped": True}],
            "rows": [
                [{"type": "raw_text", "text": "epoch"}, {"type": "raw_text", "text": "f1"}],
                [{"type": "raw_text", "text": "1"}, {"type": "raw_text", "text": "0.81"}],
                [{"type": "raw_text", "text": "2"}, {"type": "raw_text", "text": "–"}],
            ],
        },
        {"type": "image", "slack_file": {"id": "F0123456789"}, "alt_text": "loss, last 0.31"},
        {
            "type": "rich_text",
            "elements": [
                {
                    "type": "rich_text_preformatted",
                    "elements": [
                        {"type": "text", "text": "step 119\nstep 120 <!channel>"},
                    ],
                }
            ],
        },
        {
            "type": "actions",
            "elements": [
                {
                    "type": "button",
                    "text": {"type": "plain_text", "text": "Pause"},
                    "action_id": "0.pause",
                    "value": "v1:pause:r-7f3a:",
                }
            ],
        },
        {"type": "context", "elements": [{"type": "mrkdwn", "text": "gpu-1 · 2 min left"}]},
    ]


def test_nothing_from_a_file_or_a_model_can_ping():
    bait = "<!channel> <!here|x> <@U0123> <#C0123> <!subteam^S1> @here @channel @everyone, mail a@b.c, 1 < 2 <b>"

    assert neutral(bait) == (
        "<\u200b!channel> <\u200b!here|x> <\u200b@U0123> <\u200b#C0123> <\u200b!subteam^S1> @\u200bhere @\u200bchannel"
        " @\u200beveryone, mail a@b.c, 1 < 2 <b>"
    )
    assert "<" not in escape(bait)


HEAVY = RUN.model_copy(
    update={
        "body": "word " * 2_000,
        "facts": tuple(Fact(name="n" * 80, value="v" * 600) for _ in range(20)),
        "log": ("y" * 100,) * 100,
        "footer": "f" * 2_000,
    }
)


@pytest.mark.parametrize("text", ["hello " * 10, "word " * 4_000, " " * 25_000 + "x", ""])
@pytest.mark.parametrize("limit", [MESSAGE_CHARS, WHISPER_CHARS])
def test_a_card_that_would_fill_several_messages_is_cut_so_that_it_fits(text, limit):
    message = single(Content(text=text, card=HEAVY), {}, limit=limit)
    assert refused_blocks(message.blocks, lambda _: True) is None
    assert weight(message.blocks) <= max(limit, 6_000)
    assert ("cut here" in str(message.blocks[0])) == (len(text) > 200)
    for shown in messages(Content(text=text, card=HEAVY), {}):
        assert refused_blocks(shown.blocks, lambda _: True) is None
        assert weight(shown.blocks) <= MESSAGE_CHARS


texts = st.text("ab &<>@#!`*_|\n-1é👩🏽‍🚀", max_size=300)
lines = st.lists(texts, max_size=40).map(tuple)
cards = st.builds(
    Card,
    kind=st.just("data"),
    title=texts,
    tone=st.sampled_from(["good", "bad"]),
    body=st.tuples(texts, st.integers(0, 200)).map(lambda pair: pair[0] * pair[1]),
    facts=st.lists(st.builds(Fact, name=texts, value=texts), max_size=30).map(tuple),
    table=st.none()
    | st.builds(
        lambda columns, rows: Table(columns=columns, rows=tuple((row * 30)[: len(columns)] for row in rows)),
        st.lists(texts, min_size=1, max_size=30).map(tuple),
        st.lists(st.lists(texts, min_size=1, max_size=2).map(tuple), max_size=20),
    ),
    progress=st.none() | st.floats(-1, 2),
    log=lines.map(lambda some: some * 5),
    buttons=st.lists(
        st.builds(
            Button,
            action=st.just("go"),
            subject=st.just("r-1"),
            label=st.text(min_size=1, max_size=200),
            style=st.sampled_from(["plain", "danger"]),
        ),
        max_size=12,
    ).map(tuple),
    footer=texts.map(lambda text: text * 9),
)


@given(st.tuples(texts, st.integers(0, 300)).map(lambda pair: pair[0] * pair[1]), st.none() | cards)
def test_whatever_is_shown_is_within_slacks_limits(text, card):
    content = Content(text=text, card=card)

    for message in (*messages(content, {}), single(content, {})):
        assert refused_blocks(message.blocks, lambda _: True) is None
        assert message.text
        assert len(message.text.encode()) <= 4_000


@given(st.text(max_size=5_000))
def test_a_fallback_never_exceeds_the_bytes_of_an_update(text):
    assert len(fallback(text * 3).encode()) <= 3_900
