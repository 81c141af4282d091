"""Files that come with a message: attached once, kept by edits, private where the message is private."""

import hashlib
from pathlib import Path

import pytest

from agent.domain.content import Content, Document, Picture
from agent.domain.errors import Unavailable
from agent.ports import Whisper
from tests.discord.conftest import Bot
from tests.discord.test_outbound import PNG, run_card
from tests.platforms.discord_server import DiscordServer
from tests.platforms.discord_world import Message

ROWS = b"step,loss\n1,0.5\n"


def document(folder: Path, name: str = "metrics.csv", data: bytes = ROWS) -> Document:
    path = folder / f"on-disk-{name}"
    path.write_bytes(data)
    return Document(path=str(path), name=name, sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))


def attached(message: Message) -> list[str]:
    return [str(file["filename"]) for file in message.attachments]


async def test_a_file_comes_with_the_message_and_an_edit_keeps_it(
    server: DiscordServer, bot: Bot, tmp_path: Path
) -> None:
    address, files = bot.address(server.general), (document(tmp_path), document(tmp_path, "the log.txt"))
    ref = await bot.adapter.post(address, Content(text="All metrics.", files=files), key="k")
    [message] = server.messages(server.general)
    first = [file["id"] for file in message.attachments]

    await bot.adapter.edit(address, ref, Content(text="All metrics, done.", files=files))

    assert attached(message) == ["metrics.csv", "the_log.txt"]
    assert [file["id"] for file in message.attachments] == first, "the same files, not new ones"
    assert (server.file(message), message.content) == (ROWS, "All metrics, done.")


async def test_after_a_restart_an_edit_keeps_the_file_too(server: DiscordServer, bot: Bot, tmp_path: Path) -> None:
    address, content = bot.address(server.general), Content(text="All metrics.", files=(document(tmp_path),))
    ref = await bot.adapter.post(address, content, key="k")
    await bot.stop()
    other = await Bot(server).start()
    await other.adapter.edit(address, ref, Content(text="Done.", files=content.files))
    [message] = server.messages(server.general)
    assert (attached(message), message.content) == (["metrics.csv"], "Done.")
    await other.stop()


async def test_a_file_comes_once_though_the_answer_was_lost(server: DiscordServer, bot: Bot, tmp_path: Path) -> None:
    address, content = bot.address(server.general), Content(text="All metrics.", files=(document(tmp_path),))
    server.lose_answer("POST .*messages")
    with pytest.raises(Unavailable):
        await bot.adapter.post(address, content, key="k")
    await bot.adapter.post(address, content, key="k")
    [message] = server.messages(server.general)
    assert attached(message) == ["metrics.csv"]


async def test_a_file_stands_beside_a_chart_that_changes(server: DiscordServer, bot: Bot, tmp_path: Path) -> None:
    address, files = bot.address(server.general), (document(tmp_path), document(tmp_path, "chart.png", b"theirs"))
    charts = []
    for n in range(2):
        chart = tmp_path / f"{n}.png"
        chart.write_bytes(PNG + bytes([n]))
        charts.append(Picture(path=str(chart), alt="Loss", sha256=str(n)))
    ref = await bot.adapter.post(address, run_card(1, picture=charts[0]).model_copy(update={"files": files}), key="k")
    await bot.adapter.edit(address, ref, run_card(2, picture=charts[1]).model_copy(update={"files": files}))
    [message] = server.messages(server.general)
    assert sorted(attached(message)) == ["chart.png", "file-chart.png", "metrics.csv"]
    ours = next(file for file in message.attachments if file["filename"] == "chart.png")
    assert message.embed["image"]["url"] == ours["url"]


async def test_a_growing_answer_ends_with_its_files(server: DiscordServer, bot: Bot, tmp_path: Path) -> None:
    address = bot.address(server.general)
    stream = await bot.adapter.stream(address, key="k")
    await stream.append("The metrics ")
    await server.wait_for(lambda: server.messages(server.general))
    await stream.finish(Content(text="The metrics of r-1.", files=(document(tmp_path),)))
    [message] = server.messages(server.general)
    assert (attached(message), message.content) == (["metrics.csv"], "The metrics of r-1.")


async def test_files_without_words_are_a_message(server: DiscordServer, bot: Bot, tmp_path: Path) -> None:
    await bot.adapter.post(bot.address(server.general), Content(files=(document(tmp_path),)), key="k")
    [message] = server.messages(server.general)
    assert attached(message) == ["metrics.csv"]


async def test_what_discord_does_not_take_is_a_sentence(server: DiscordServer, bot: Bot, tmp_path: Path) -> None:
    large = document(tmp_path, "weights.tar", b"\0" * (10 * 1024 * 1024 + 1))
    many = [document(tmp_path, f"{n}.bin", bytes(6 * 1024 * 1024)) for n in range(3)]
    gone = document(tmp_path, "gone.csv")
    Path(gone.path).unlink()
    await bot.adapter.post(bot.address(server.general), Content(text="Here:", files=(large, gone, *many)), key="k")
    [message] = server.messages(server.general)
    assert attached(message) == ["0.bin", "1.bin"]
    assert "`weights.tar` (10.5 MB): Discord takes 10.5 MB a file at most" in message.content
    assert "`gone.csv` is not on my disk any more" in message.content
    assert "`2.bin` (6.3 MB): Discord takes 14.7 MB a message at most" in message.content


async def test_the_files_of_a_whisper_are_seen_by_one_person(server: DiscordServer, bot: Bot, tmp_path: Path) -> None:
    used = await server.user("alice").slash("train status")
    came = await bot.next()
    content = Content(text="All metrics.", files=(document(tmp_path),))
    to = Whisper(person=came.person.id, handle=came.reply_handle)
    await bot.adapter.post(came.thread, content, key="k", whisper=to)
    server.limits.interaction_life_s = 0.0
    await bot.adapter.post(came.thread, content, key="k2", whisper=to)
    assert [attached(message) for message in used.replies] == [["metrics.csv"]]
    direct = server.world.direct(server.user("alice").person)
    assert [attached(message) for message in server.messages(direct)] == [["metrics.csv"]]
    assert server.messages(server.general) == []
