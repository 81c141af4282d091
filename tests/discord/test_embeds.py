"""Cards as Discord shows them, exactly; and whatever a card holds, it keeps Discord's limits."""

from hypothesis import given
from hypothesis import strategies as st

from agent.domain.content import Button, Card, Content, Fact, Table
from agent.domain.errors import BadRequest
from bot.discord.embeds import Piece, bar, card_piece, pieces
from bot.discord.markup import PHONE_COLUMNS, marked_up
from tests.platforms.discord_rules import check_message
from tests.platforms.discord_world import Json, Limits


def form_of(piece: Piece) -> Json:
    """The body that would be sent."""
    view = piece.view()
    return {
        "content": piece.text,
        "embeds": [piece.embed.to_dict()] if piece.embed else [],
        "components": view.to_components() if view else [],
    }


def shown(piece: Piece) -> str:
    """A piece as text, for comparing."""
    form = form_of(piece)
    [embed] = form["embeds"]
    lines = [f"#{embed['color']:06x} {embed['title']}", embed.get("description", "")]
    for field in embed.get("fields", ()):
        end = "" if field["inline"] else " ↵"
        lines += [f"[{field['name']}] {field['value']}{end}"]
    lines += [embed["footer"]["text"]] if "footer" in embed else []
    for row in form["components"]:
        lines += [f"({b['style']}) {b['label']} = {b['custom_id']}" for b in row["components"]]
    return "\n".join(line for line in lines if line)


async def test_approval_card() -> None:
    digest = "0123456789abcdef"
    buttons = (
        Button(action="approve", subject="a-0123456789ab", label="Approve", style="primary", digest=digest),
        Button(action="reject", subject="a-0123456789ab", label="Reject", style="danger", digest=digest),
    )
    facts = (
        Fact(name="Data", value="tickets.csv, 12,000 rows"),
        Fact(name="Target", value="is_urgent"),
        Fact(name="Settings", value="learning_rate = 0.0001, epochs = 3"),
        Fact(name="Left out", value=""),
    )
    card = Card(
        kind="approval",
        title="Train a model for `is_urgent`?",
        tone="busy",
        facts=facts,
        buttons=buttons,
        body="1. Split by seed 7\n2. Train, and compare with **two** baselines\n\n• @everyone appears in 3 rows",
        footer="Expires 2026-11-21 10:00 UTC",
    )
    assert (
        shown(card_piece(card))
        == """\
#3b82f6 Train a model for `is_urgent`?
1. Split by seed 7
2. Train, and compare with **two** baselines

• @\u200beveryone appears in 3 rows
[Data] tickets.csv, 12,000 rows
[Target] is\\_urgent
[Settings] learning\\_rate = 0.0001, epochs = 3 ↵
[Left out] –
Expires 2026-11-21 10:00 UTC
(1) Approve = v1:approve:a-0123456789ab:0123456789abcdef
(4) Reject = v1:reject:a-0123456789ab:0123456789abcdef"""
    )


async def test_run_card() -> None:
    card = Card(
        kind="run",
        title="r-abc123 · is_urgent from tickets.csv",
        tone="busy",
        progress=0.42,
        facts=(Fact(name="State", value="running"), Fact(name="Step", value="420 of 1,000")),
        table=Table(columns=("model", "macro F1"), rows=(("this run", "0.91"), ("majority", "0.5"))),
        log=("step 419 loss 0.31", "\x1b[31mstep 420\x1b[0m ```loss``` 0.30"),
        buttons=(Button(action="stop", subject="r-abc123", label="Stop", style="danger"),),
        footer="text classification on gpu-1",
    )
    assert (
        shown(card_piece(card))
        == """\
#3b82f6 r-abc123 · is_urgent from tickets.csv
▰▰▰▰▰▱▱▱▱▱▱▱ 42 %
```
model     macro F1
────────  ────────
this run      0.91
majority       0.5
```
```
step 419 loss 0.31
step 420 ``\u200b`loss``\u200b` 0.30
```
[State] running
[Step] 420 of 1,000
text classification on gpu-1
(4) Stop = v1:stop:r-abc123:"""
    )


def test_a_wide_table_becomes_lines() -> None:
    columns = ("column", "kind", "missing", "distinct", "values")
    table = Table(columns=columns, rows=(("ticket_id", "number", "–", "12,000", "1 … 12000"),))
    embed = card_piece(Card(kind="data", title="Data", table=table)).embed
    assert embed is not None
    assert embed.description == "**ticket\\_id** · kind: number · missing: – · distinct: 12,000 · values: 1 … 12000"


def test_a_pipe_table_in_prose_becomes_a_block() -> None:
    text = "Scores:\n| model | F1 |\n|---|---:|\n| **ours** | 0.9 |\n#### Next\n| no table"
    assert marked_up(text) == "Scores:\n```\nmodel   F1\n─────  ───\nours   0.9\n```\n**Next**\n| no table"
    assert all(len(line) <= PHONE_COLUMNS for line in marked_up(text).splitlines())


def test_what_has_no_room_is_in_the_file() -> None:
    body = "\n".join(f"{n}. a step of the plan that is spelled out" for n in range(200))
    piece = card_piece(Card(kind="approval", title="Plan", body=body, log=("x" * 100,) * 50))
    assert piece.rest == body
    assert piece.embed is not None
    assert "-# The rest is in the attached file." in (piece.embed.description or "")


def test_progress() -> None:
    assert [bar(value)[-5:] for value in (0.0, 0.999, 1.0, 7.0, float("nan"))] == [
        "▱ 0 %",
        " 99 %",
        "100 %",
        "100 %",
        "▱ 0 %",
    ]


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=300) | st.sampled_from(
    ["```py\n" * 30, "😀" * 1500, "@everyone " * 500, "a" * 5000, "\n" * 50, "| a |\n|--|\n| b |"],
)
cards = st.builds(
    Card,
    kind=st.just("run"),
    title=words,
    body=words,
    footer=words,
    log=st.lists(words, max_size=8).map(tuple),
    facts=st.lists(st.builds(Fact, name=words, value=words), max_size=30).map(tuple),
    table=st.none() | st.builds(Table, columns=st.just(("a", "b")), rows=st.lists(st.tuples(words, words)).map(tuple)),
    progress=st.none() | st.floats(),
)


@given(text=words, card=st.none() | cards)
def test_every_content_keeps_the_limits(text: str, card: Card | None) -> None:
    try:
        made = pieces(Content(text=text, card=card))
    except BadRequest:
        assert card is None
        return
    for piece in made:
        check_message(form_of(piece), {0: ("x", b"")}, Limits(), new=True)
        assert "`" in piece.text or "@everyone" not in piece.text
