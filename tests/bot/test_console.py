"""The terminal shows files as paths, once."""

import io
from pathlib import Path

from rich.console import Console

from agent.domain.content import Content, Document
from bot.console.door import ConsoleDoor


async def test_a_terminal_prints_where_a_file_lies(tmp_path: Path) -> None:
    printed = io.StringIO()
    door = ConsoleDoor(thread="t", person="ann", read=False, console=Console(file=printed, width=500))
    path = tmp_path / "metrics.csv"
    path.write_text("step,loss\n")
    content = Content(
        text="All metrics.", files=(Document(path=str(path), name="metrics.csv", sha256="0", size_bytes=10),)
    )

    ref = await door.post(door.room, content, key="k")
    await door.edit(door.room, ref, content.model_copy(update={"text": "All metrics, done."}))
    stream = await door.stream(door.room, key="k2")
    await stream.append("Once more.")
    await stream.finish(content)

    assert printed.getvalue().count(f"file: {path} (10 B)") == 2
    assert "All metrics, done." in printed.getvalue()
