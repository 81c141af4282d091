"""The terminal shows files as paths, once; menus as lines; and nothing that would steer it."""

import asyncio
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from agent.domain.content import Button, Card, Choice, Content, Document, Fact, Menu, Table
from agent.domain.inbound import Inbound, Said
from agent.llm.requests.words import NOT_UNDERSTOOD
from bot.console.adapter import ConsoleAdapter
from bot.console.paint import painted
from bot.console.plain import PlainScreen


async def test_a_terminal_prints_where_a_file_lies(tmp_path: Path) -> None:
    printed = io.StringIO()
    adapter = ConsoleAdapter(
        thread_id="t", person="ann", files=tmp_path, read=False, screen=PlainScreen(Console(file=printed, width=500))
    )
    path = tmp_path / "metrics.csv"
    path.write_text("step,loss\n")
    content = Content(
        text="All metrics.", files=(Document(path=str(path), name="metrics.csv", sha256="0", size_bytes=10),)
    )

    ref = await adapter.post(adapter.thread, content, key="k")
    await adapter.edit(adapter.thread, ref, content.model_copy(update={"text": "All metrics, done."}))
    stream = await adapter.stream(adapter.thread, key="k2")
    await stream.append("Once more.")
    await stream.finish(content)

    assert printed.getvalue().count(f"file: {path} (10 B)") == 2
    assert "All metrics, done." in printed.getvalue()


async def test_a_file_is_handed_over_under_its_name_and_another_of_that_name_beside_it(tmp_path: Path) -> None:
    printed = io.StringIO()
    adapter = ConsoleAdapter(
        thread_id="t",
        person="ann",
        files=tmp_path / "files",
        read=False,
        screen=PlainScreen(Console(file=printed, width=500)),
    )
    for digest in ("f5c6ab", "0a1b2c"):
        blob = tmp_path / digest
        blob.write_text(f"prediction\n{digest}\n")
        file = Document(path=str(blob), name="predictions-r-abc123.csv", sha256=digest * 8, size_bytes=18)
        for _ in range(2):
            await adapter.post(adapter.thread, Content(text="Predicted.", files=(file,)), key=digest)

    first, second = tmp_path / "files/predictions-r-abc123.csv", tmp_path / "files/predictions-r-abc123-0a1b2c.csv"
    assert (first.read_text(), second.read_text()) == ("prediction\nf5c6ab\n", "prediction\n0a1b2c\n")
    assert [printed.getvalue().count(f"file: {path} ") for path in (first, second)] == [2, 2]


async def test_a_file_that_is_named_and_lies_there_is_attached_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    adapter = ConsoleAdapter(
        thread_id="t", person="ann", files=tmp_path, read=False, screen=PlainScreen(Console(file=printed, width=500))
    )
    came: list[Said] = []

    async def accept(inbound: Inbound) -> None:
        assert isinstance(inbound.act, Said)
        came.append(inbound.act)

    task = asyncio.create_task(adapter.run(accept))
    for name in ("churn.csv", "new data.csv", "train.py", "notes.md"):
        Path(name).write_text("a,b\n1,2\n")
    lines = {
        "what is in churn.csv?": ["churn.csv"],
        "train on (churn.csv), target a": [],  # it is there already
        "start churn file=train.py `new data.csv`": ["train.py", "new data.csv"],
        "fetch https://example.org/churn.csv, notes.md and gone.csv": [],
        f"{'x' * 5000}.csv and ~nobody-of-that-name/a.csv": [],
    }
    for line in lines:
        await adapter.say(line)
    Path("churn.csv").write_text("a,b\n1,2\n3,4\n")
    await adapter.say("look at churn.csv again, and at @churn.csv")
    Path("more").mkdir()
    Path("more/left.csv").write_text("a,b\n1,2\n")
    await adapter.say(f"train on {tmp_path}/more/left.csv, not on more/left.csv or {tmp_path}/gone.csv")
    task.cancel()
    assert [[file.name for file in said.attachments] for said in came] == [*lines.values(), ["churn.csv"], ["left.csv"]]
    assert [said.text for said in came][:-2] == list(lines)
    assert came[-1].text == f"train on left.csv, not on left.csv or {tmp_path}/gone.csv"
    assert printed.getvalue().splitlines()[:2] == ["Attached churn.csv.", "Attached train.py, new data.csv."]


async def test_a_plan_that_was_changed_is_shown_whole_and_a_decision_in_a_line(tmp_path: Path) -> None:
    printed = io.StringIO()
    adapter = ConsoleAdapter(
        thread_id="t", person="ann", files=tmp_path, read=False, screen=PlainScreen(Console(file=printed, width=200))
    )
    approve = Button(label="Approve", action="approve", subject="a-1")
    card = Card(kind="approval", title="Train?", facts=(Fact(name="Cost", value="36 s"),), buttons=(approve,))
    ref = await adapter.post(adapter.thread, Content(card=card), key="k")
    changed = card.model_copy(update={"facts": (Fact(name="Changed by ann", value="epochs: default → 6"),)})
    await adapter.edit(adapter.thread, ref, Content(card=changed))
    assert "Changed by ann  epochs: default → 6" in printed.getvalue()
    decided = changed.model_copy(update={"buttons": (), "footer": "Approved by ann"})
    await adapter.edit(adapter.thread, ref, Content(card=decided))
    assert printed.getvalue().splitlines()[-1] == "Train? Approved by ann"
    assert printed.getvalue().count("epochs: default → 6") == 1


@pytest.mark.parametrize("width", [60, 100])
def test_what_the_rule_planner_understands_is_a_line_each(width: int) -> None:
    lines = [line.lstrip(" •") for line in shown(Content(text=NOT_UNDERSTOOD), width)]
    for word in ("train:", "predict:", "pause,", "chart:", "status,"):
        assert any(line.startswith(word) for line in lines), lines


def shown(content: Content, width: int = 100) -> list[str]:
    """The lines of a message in a terminal that is so wide."""
    printed = io.StringIO()
    Console(file=printed, width=width).print(painted(content))
    assert all(cell_len(line) <= width for line in printed.getvalue().splitlines())
    return [line.strip(" │") for line in printed.getvalue().splitlines()]


def picking(
    *labels: str, taken: tuple[int, ...] = (), most: int = 4, subject: str = "r-abc123.m", action: str = "card"
) -> Content:
    """A card with a menu."""
    choices = tuple(Choice(value=f"{n}", label=label, chosen=n in taken) for n, label in enumerate(labels))
    menu = Menu(action=action, subject=subject, label="Metrics", choices=choices, most=most)
    return Content(card=Card(kind="data", title="r-abc123", menus=(menu,)))


@pytest.mark.parametrize("width", [60, 100])
def test_a_menu_says_what_is_chosen_and_what_to_type(width: int) -> None:
    lines = shown(picking("loss", "accuracy", "lr", taken=(0, 2)), width)
    assert lines[1:3] == ["Metrics (up to 3): ✓ loss · accuracy · ✓ lr", "type: card r-abc123 loss, accuracy"]


@pytest.mark.parametrize(
    ("content", "typed"),
    [
        (picking("loss", most=4), "card r-abc123 loss"),
        (picking("loss", "lr", most=1), "card r-abc123 loss"),
        (picking("", "a,b", "x" * 61, "lr", "f1"), "card r-abc123 lr, f1"),
        (picking("a,b", "c,d"), "card r-abc123 a,b, c,d"),
        (picking("log", "all", "r-def456", "vs", "lr"), "card r-abc123 lr"),
        (picking("my metric", "log", "all metrics"), "card r-abc123.m01"),
        (picking("mae", "rmse", action="chart"), "chart r-abc123.m01"),
        (picking("train_loss", "gpu", "mae", action="chart"), "chart r-abc123 train_loss"),
        (picking("loss", "lr", subject="r-abc123.l.w600.m"), "card r-abc123 loss, lr"),
        (picking("one", "two", subject="r-abc123.z"), "card r-abc123.z01"),
    ],
)
def test_what_is_typed_for_a_choice(content: Content, typed: str) -> None:
    assert f"type: {typed}" in shown(content)


@pytest.mark.parametrize(
    ("labels", "line"),
    [
        (("age", "health"), "[1: age]   [2: health]   (type 1 or 2)"),
        (("10", "20"), "[10]   [20]   (type 10 or 20)"),
    ],
)
def test_a_choice_has_the_number_that_answers_it(labels: tuple[str, ...], line: str) -> None:
    buttons = (Button(action="answer", subject=f"q-1.{number}", label=label) for number, label in enumerate(labels))
    card = Card(kind="notice", title="A question", buttons=tuple(buttons))
    assert any(line in one for one in shown(Content(card=card)))


def test_a_menu_without_choices_is_not_shown() -> None:
    assert not any("Metrics" in line for line in shown(picking()))


@pytest.mark.parametrize("width", [40, 60, 100])
def test_a_long_footer_is_shown_whole(width: int) -> None:
    footer = "Try it: predict with r-abc123 and attach a csv with the same columns"
    lines = shown(Content(card=Card(kind="result", title="Result of r-abc123", footer=footer)), width)
    assert footer in " ".join(line.strip("│ ") for line in lines)


@given(st.lists(st.text(max_size=200), max_size=40), st.sampled_from([40, 60, 100]))
def test_any_menu_fits_into_a_terminal(labels: list[str], width: int) -> None:
    assert len(shown(picking(*labels), width)) >= 2


STEERING = "\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m\x9b1m\x1b]52;c;aGk=\x1b\\\x07\x08"


@pytest.mark.parametrize("words", ["speed [m/s]", "label[/s]", "[red]x", "rate [/INST]", "[link=x]y[/link]", ":smile:"])
def test_brackets_are_shown_as_they_are(words: str) -> None:
    table = Table(columns=(words, "kind"), rows=((words, words),))
    facts = (Fact(name=words, value=words),)
    card = Card(kind="approval", title=words, facts=facts, table=table, log=(words,), footer=words)
    assert "\n".join(shown(Content(card=card))).count(words) == 8


async def test_a_file_that_is_not_there_is_told_of_whatever_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.StringIO()
    adapter = ConsoleAdapter(
        thread_id="main", person="you", files=tmp_path, screen=PlainScreen(Console(file=written, width=200))
    )
    monkeypatch.setattr("sys.stdin", io.StringIO("look at @no[/s].csv\n"))

    async def accept(inbound: Inbound) -> None:
        raise AssertionError(inbound)

    await adapter.run(accept)
    assert "no[/s].csv" in written.getvalue()


async def test_nothing_that_is_shown_can_steer_the_terminal(tmp_path: Path) -> None:
    printed = io.StringIO()
    adapter = ConsoleAdapter(
        thread_id="t", person="ann", files=tmp_path, read=False, screen=PlainScreen(Console(file=printed, width=200))
    )
    card = Card(
        kind="run",
        tone="busy",
        title=STEERING,
        body=STEERING,
        facts=(Fact(name=STEERING, value=STEERING),),
        table=Table(columns=(STEERING,), rows=((STEERING,),)),
        log=(STEERING, "step 1\tloss 0.5"),
        menus=(Menu(action="card", subject="r.m", label=STEERING, choices=(Choice(value="1", label=STEERING),)),),
        buttons=(Button(action="stop", subject="r", label=STEERING),),
        footer=STEERING,
    )
    content = Content(text=STEERING, card=card)
    ref = await adapter.post(adapter.thread, content, key="k")
    for change in ({}, {"kind": "approval"}, {"tone": "good"}):
        await adapter.edit(adapter.thread, ref, content.model_copy(update={"card": card.model_copy(update=change)}))
    stream = await adapter.stream(adapter.thread, key="k2")
    for piece in (STEERING[:3], STEERING[3:]):
        await stream.append(piece)
    await stream.finish(content)
    assert not {char for char in printed.getvalue() if char < " " or "\x7f" <= char <= "\x9f"} - {"\n"}
    assert printed.getvalue().count("red") >= 13
    assert adapter.shown[0] == content


async def test_a_spinner_turns_while_the_bot_is_at_work_and_makes_room_for_words(tmp_path: Path) -> None:
    printed, piped = io.StringIO(), io.StringIO()
    terminal = Console(file=printed, force_terminal=True, width=80, color_system=None, _environ={"TERM": "xterm"})
    for console in (terminal, Console(file=piped, width=80)):
        adapter = ConsoleAdapter(thread_id="t", person="ann", files=tmp_path, read=False, screen=PlainScreen(console))
        async with adapter.busy(adapter.thread, None), adapter.busy(adapter.thread, None):
            await turned(console, printed)
            stream = await adapter.stream(adapter.thread, key="k")
            await stream.append("half a ")
            await asyncio.sleep(0)
            await stream.append("line")
            await stream.finish(Content(text="half a line"))
            await adapter.post(adapter.thread, Content(text="Done."), key="k2")
            await turned(console, printed)

    assert piped.getvalue().split() == ["half", "a", "line", "Done."]
    screen = printed.getvalue()
    assert "half a line\n" in screen  # nothing turns within a line
    assert screen.endswith("\r\x1b[K")
    before, _, after = screen.partition("half a")
    assert before.endswith("\r\x1b[K\n")
    assert " working… " in after


async def turned(console: Console, printed: io.StringIO) -> None:
    """Wait until the spinner is drawn below what stands there."""
    while console.file is printed and not printed.getvalue().rpartition("\x1b[K")[2].endswith(" working… "):
        await asyncio.sleep(0.005)
