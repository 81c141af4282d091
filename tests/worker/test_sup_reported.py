"""What a training shows of itself, taken in by the supervisor: bounded, distrusted, reported once, over deaths too."""

import base64
import json
import os
import signal
import socket
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.domain.events import Logged, Pictured
from agent.domain.pictures import LIMIT_BYTES, Reported
from agent.domain.runs import RunState
from agent.wire import decode
from tests.worker.conftest import GOOD, Yard, eventually, opened
from trainyard import TrainingRuntime
from worker.client.blobs import FolderBlobs, RedisBlobs
from worker.sandbox.tiers import why_not
from worker.supervisor import reported as module
from worker.supervisor.reported import PictureWatch, Refused, checked, reported_in

REPO = Path(__file__).resolve().parents[2]
RUNTIME = {f"trainyard/{path.name}": path.read_bytes() for path in (REPO / "trainyard").glob("*.py")}
TABLE = {"kind": "table", "title": "t", "columns": ["a"], "rows": [["b"]]}


def png(width: int, height: int) -> str:
    """A PNG that says it is this large, and holds a byte."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + head + struct.pack(">I", zlib.crc32(b"IHDR" + head))
    return base64.b64encode(data).decode()


def images(image: str) -> dict[str, object]:
    return {"kind": "images", "title": "i", "tiles": [{"image": image}]}


def lay(folder: Path, name: str, picture: object, *, step: int = 1) -> None:
    (folder / "pictures").mkdir(exist_ok=True)
    text = json.dumps({"step": step, "left_out": 0, "picture": picture})
    aside = folder / "pictures" / f".{name}"
    aside.write_text(text)
    aside.replace(folder / "pictures" / f"{name}.json")


@pytest.fixture
def watch(tmp_path: Path) -> PictureWatch:
    (tmp_path / "run").mkdir()
    return watching(tmp_path)


def watching(tmp_path: Path, *, reported: dict[str, str] | None = None, secrets: tuple[str, ...] = ()) -> PictureWatch:
    store = FolderBlobs(tmp_path / "blobs")
    return PictureWatch(tmp_path / "run", store=lambda: store, secrets=secrets, reported=reported or {})


def test_pictures_are_told_once_and_again_when_they_change(tmp_path: Path, watch: PictureWatch) -> None:
    run = tmp_path / "run"
    assert watch.look().reported == []
    lay(run, "b", TABLE)
    lay(run, "a", images(png(4, 4)))
    first = watch.look()
    assert [(one.name, one.form, one.step) for one in first.reported] == [("a", "images", 1), ("b", "table", 1)]
    kept = decode(Reported, FolderBlobs(tmp_path / "blobs").get_file(first.reported[1].sha256).read_bytes())
    assert kept.picture.kind == "table"
    assert kept.picture.rows == (("b",),)
    lay(run, "b", {**TABLE, "title": "anew"}, step=2)
    assert watch.look().reported == []  # not so soon after the first
    at_end = watch.look(at_end=True)
    assert [(one.name, one.step) for one in at_end.reported] == [("b", 2)]
    lay(run, "b", {**TABLE, "title": "anew"}, step=2)  # written again, the same
    assert watch.look(at_end=True).reported == []
    again = watching(tmp_path, reported={one.name: one.sha256 for one in (*first.reported, *at_end.reported)})
    assert again.look(at_end=True).reported == []
    assert (first.said, at_end.said) == ([], [])


def test_a_script_that_shows_too_much_is_taken_at_its_end(
    tmp_path: Path, watch: PictureWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_AGAIN_S", 0.0)
    monkeypatch.setattr(module, "_WHILE_RUNNING_BYTES", 1000)
    reported = 0
    for step in range(60):
        lay(tmp_path / "run", "t", {**TABLE, "rows": [["x" * 50]]}, step=step)
        reported += len(watch.look().reported)
    assert 2 < reported < 20
    (last,) = watch.look(at_end=True).reported
    assert last.step == 59


def huge(path: Path) -> None:
    path.write_text(" " * (LIMIT_BYTES + 1) + "{}")


def text(of: str) -> Callable[[Path], None]:
    return lambda path: void(path.write_text(of))


def void(_: object) -> None:
    return


def picture(of: object) -> Callable[[Path], None]:
    return text(json.dumps({"step": 1, "picture": of}))


HOSTILE: dict[str, tuple[Callable[[Path], None], str]] = {
    "huge": (huge, "larger than"),
    "link": (lambda path: path.symlink_to("/etc/passwd"), "symbolic link"),
    "fifo": (lambda path: os.mkfifo(path), "no plain file"),
    "folder": (lambda path: path.mkdir(), "no plain file|directory"),
    "empty": (text(""), "not such JSON"),
    "half": (text('{"step": 1, "pict'), "not such JSON"),
    "binary": (lambda path: void(path.write_bytes(b"\xff\xfe\x00\x01" * 9)), "not such JSON"),
    "deep": (text("[" * 200_000), "not such JSON"),
    "deep-inside": (text('{"step": 1, "picture": ' + '{"a":' * 900 + "1" + "}" * 901), "kind|not such JSON"),
    "list": (text("[]"), "dictionary|object"),
    "digits": (text('{"step": 1' + "0" * 9000 + "}"), "not such JSON"),
    "step": (text(json.dumps({"step": 2**70, "picture": TABLE})), "step"),
    "no-kind": (picture({"kind": "virus", "title": "t"}), "kind|tag"),
    "measured": (text(json.dumps({"step": 1, "origin": "measured", "picture": TABLE})), "origin"),
    "more": (picture({**TABLE, "evil": 1}), "evil"),
    "ragged": (picture({**TABLE, "rows": [["a", "b"]]}), "a cell for each column"),
    "long-cell": (picture({**TABLE, "rows": [["a" * 10_000]]}), "at most"),
    "many-rows": (picture({**TABLE, "rows": [["a"]] * 10_000}), "at most"),
    "wrong-cells": (picture({**TABLE, "rows": [[1] * 600_000]}), "more than 50,000 values"),
    "wrong-numbers": (
        picture({"kind": "scatter", "title": "s", "groups": [{"x": [[]] * 450_000, "y": []}]}),
        "more than 50,000 values",
    ),
    "many-fields": (picture({**TABLE, **{f"{i:x}": 1 for i in range(150_000)}}), "more than 50,000 values"),
    "surrogate": (text(json.dumps({"step": 1, "picture": {**TABLE, "title": "\ud800"}})), "title|JSON"),
    "points": (
        picture({"kind": "scatter", "title": "s", "groups": [{"x": [1] * 1500, "y": [1] * 1500}] * 2}),
        "3,000 points",
    ),
    "unpaired": (picture({"kind": "lines", "title": "l", "lines": [{"x": [1], "y": [1, 2]}]}), "one length"),
    "falling": (
        picture({"kind": "histogram", "title": "h", "edges": [2, 1], "groups": [{"values": [1]}]}),
        "edges must rise",
    ),
    "no-number": (picture({"kind": "bars", "title": "b", "names": ["a"], "groups": [{"values": ["x"]}]}), "number"),
    "bomb": (picture(images(png(100_000, 100_000))), "100,000 × 100,000 pixels"),
    "wide": (picture(images(png(2**31, 1))), "pixels are the most|pixels; "),
    "nothing": (picture(images(png(0, 5))), "0 × 5 pixels"),
    "gif": (picture(images(base64.b64encode(b"GIF89a" + b"0" * 99).decode())), "neither a PNG nor a JPEG"),
    "svg": (picture(images(base64.b64encode(b"<svg/>").decode())), "neither a PNG nor a JPEG"),
    "jpeg": (picture(images(base64.b64encode(b"\xff\xd8\xff\xe0\x00\x00" * 9).decode())), "neither a PNG nor a JPEG"),
    "no-base64": (picture(images("<script>")), "not base64"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_no_picture_is_a_line_and_harms_no_other(tmp_path: Path, watch: PictureWatch, kind: str) -> None:
    make, why = HOSTILE[kind]
    lay(tmp_path / "run", "good", TABLE)
    make(tmp_path / "run/pictures/evil.json")
    found = watch.look()
    assert [one.name for one in found.reported] == ["good"]
    (said,) = found.said
    assert said.startswith("picture evil is not shown: ")
    assert any(part.lower() in said.lower() for part in why.split("|")), said
    assert len(said) < 400
    assert watch.look(at_end=True).said == []  # once


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e300", "-0.0", "1e999", "5e-324"])
def test_odd_numbers_are_numbers(number: str) -> None:
    of = f'{{"step":1,"picture":{{"kind":"scatter","title":"","groups":[{{"x":[{number}],"y":[{number}]}}]}}}}'
    reported = checked(of.encode(), str)
    assert decode(Reported, reported.model_dump_json()) is not None


def test_a_folder_that_is_none_is_left_alone(tmp_path: Path, watch: PictureWatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    lay(elsewhere, "secret", TABLE)
    (tmp_path / "run/pictures").symlink_to(elsewhere / "pictures")
    assert watch.take().reported == []
    assert watch.look(at_end=True).reported == []
    assert watch.finish().reported == []


def test_names_are_bounded(tmp_path: Path, watch: PictureWatch) -> None:
    for i in range(30):
        lay(tmp_path / "run", f"n{i:02d}", TABLE)
    for name in ("..", "a b", "A", "a.b"):
        (tmp_path / "run/pictures" / f"{name}.json").write_text("{}")
    found = watch.look()
    assert [one.name for one in found.reported] == [f"n{i:02d}" for i in range(20)]
    assert found.said == ["30 pictures are too many; 20 are shown"]
    lay(tmp_path / "run", "a-first", TABLE)  # what is shown already goes before
    assert watch.look(at_end=True).reported == []
    (tmp_path / "run/pictures/n03.json").unlink()
    assert [one.name for one in watch.look(at_end=True).reported] == ["a-first"]


def test_secrets_are_taken_out_of_texts(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    watch = watching(tmp_path, secrets=("hunter2-is-secret",))
    key = "-----BEGIN PRIVATE KEY-----"
    rows = [["hunter2-is-secret"], ["it is hunter2-is-se…"], [f"{key}\nMIIE"], ["plain words"]]
    marks = ["", "good", "bad", ""]
    lay(tmp_path / "run", "t", {**TABLE, "title": "ghp_" + "a" * 40, "rows": rows, "marks": marks})
    lay(tmp_path / "run", "u", TABLE)
    lay(tmp_path / "run", "hunter2-is-secret", TABLE)
    (tmp_path / "run/pictures/v.json").write_text('{"step": 1, "hunter2-is-secret": 1}')
    found = watch.look()
    assert [one.name for one in found.reported] == ["t", "u"], found.said
    said = " ".join(found.said)
    assert "hunter2" not in said
    assert "its name is a secret" in said
    kept = b"".join(path.read_bytes() for path in (tmp_path / "blobs").iterdir())
    assert b"hunter2" not in kept
    assert b"ghp_" not in kept
    assert b"MIIE" not in kept
    assert b"plain words" in kept


def test_all_that_the_runtime_writes_is_taken(tmp_path: Path, watch: PictureWatch) -> None:
    from tests.recipes.test_pictures import log_each

    names = log_each(TrainingRuntime("r", tmp_path / "run"))
    found = watch.look()
    assert sorted(one.name for one in found.reported) == sorted(names)
    assert found.said == []


def test_a_store_that_is_away_delays_pictures_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    away: list[Any] = [RedisBlobs("redis://127.0.0.1:1/0", tmp_path / "cache")]
    watch = PictureWatch(tmp_path / "run", store=lambda: Changing(away), secrets=(), reported={})
    lay(tmp_path / "run", "t", TABLE)
    assert watch.look().reported == []
    lay(tmp_path / "run", "u", TABLE)
    (said,) = watch.look(at_end=True).said
    assert "its last pictures are not kept: Redis at" in said
    away[0] = FolderBlobs(tmp_path / "blobs")
    assert [one.name for one in watch.look().reported] == ["t", "u"]


class Changing:
    """The store that is there at the moment."""

    def __init__(self, stores: list[Any]) -> None:
        self._stores = stores

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stores[0], name)


def test_a_store_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    lay(tmp_path / "run", "t", TABLE)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and never answers
        port = silent.getsockname()[1]
        store = RedisBlobs(f"redis://127.0.0.1:{port}/0", tmp_path / "cache")
        watch = PictureWatch(tmp_path / "run", store=lambda: store, secrets=(), reported={})
        assert watch.take().reported == []
        found = watch.finish(limit_s=0.3)
        assert found.reported == []
        assert any("does not answer" in said for said in found.said)


@pytest.mark.parametrize("data", [b"{}", b"null", b'"x"', b"{'a'}", b"\x00", b"1e5"])
def test_other_json_is_refused(data: bytes) -> None:
    with pytest.raises(Refused):
        checked(data, str)


# Under a real worker

SHOW = """
from trainyard import TrainingRuntime
rt = TrainingRuntime()
rt.start("m", total_steps=3)
rt.log_metrics(step=1, loss=1.0)
rt.log_table("samples", ["text"], [["hello hunter2-is-secret"]])
rt.log_scatter("residuals", [1, 2], [0.5, -0.5], guide="zero")
pathlib.Path("pictures/evil.json").symlink_to("/etc/passwd")
"""


def pictured(yard: Yard, run: str, *, attempt: int = 1) -> list[Pictured]:
    bodies = (event.body for event in yard.events(run, attempt=attempt))
    return [body for body in bodies if isinstance(body, Pictured)]


async def test_pictures_come_while_it_trains_and_the_last_at_its_end(yard: Yard) -> None:
    secrets = yard.home / "secrets"
    secrets.mkdir(mode=0o700, exist_ok=True)
    (secrets / "TOKEN").write_text("hunter2-is-secret")
    (secrets / "TOKEN").chmod(0o600)
    last = "rt.log_metrics(step=2, loss=0.5)\nrt.log_table('samples', ['text'], [['bye']])\nrt.finish()\n"
    script = f"{SHOW}wait_for('go-on')\n{last}{GOOD}"
    await yard.launch(yard.order("r-show00", script, files=RUNTIME, secrets=("TOKEN",)))
    eventually(lambda: len(pictured(yard, "r-show00")) == 2, what="two pictures while it trains")
    (yard.folder("r-show00").path / "go-on").touch()
    outcome = yard.outcome("r-show00")
    assert outcome.state is RunState.SUCCEEDED, outcome
    found = pictured(yard, "r-show00")
    assert sorted((one.name, one.step) for one in found) == [("residuals", 1), ("samples", 1), ("samples", 2)]
    samples = [one for one in found if one.name == "samples"]
    first, last_reported = (
        decode(Reported, yard.blobs.get_file(one.sha256).read_bytes()).model_dump_json() for one in samples
    )
    assert "hunter2" not in first
    assert "bye" in last_reported
    lines = [line for event in yard.events("r-show00") if isinstance(event.body, Logged) for line in event.body.lines]
    (said,) = [line for line in lines if "picture evil" in line]
    assert said.startswith("[trainyard] picture evil is not shown")


async def test_a_supervisor_killed_at_any_moment_doubles_and_loses_nothing(host: Yard) -> None:
    host.start_worker()
    hold = "wait_for('go-on')\n"
    await host.launch(host.order("r-kill00", SHOW + hold + GOOD, files=RUNTIME))
    eventually(lambda: len(pictured(host, "r-kill00")) == 2, what="two pictures")
    folder = host.folder("r-kill00").path
    lay(folder, "left", TABLE, step=7)  # nobody may have reported it yet
    os.kill(host.supervisor_pid("r-kill00"), signal.SIGKILL)
    host.outcome("r-kill00")
    reported = {one.name for one in pictured(host, "r-kill00")}
    (folder / "go-on").touch()
    again = SHOW.replace("hello", "hello again").replace(
        'pathlib.Path("pictures/evil', '0 and pathlib.Path("pictures/evil'
    )
    await host.launch(host.order("r-kill00", again + "rt.finish()\n" + GOOD, files=RUNTIME, attempt=2))
    assert host.outcome("r-kill00", attempt=2).state is RunState.SUCCEEDED
    second = [one.name for one in pictured(host, "r-kill00", attempt=2)]
    assert sorted(second) == sorted({"samples", "left"} - (reported - {"samples"}))  # the same residuals are no news
    spools = host.folder("r-kill00").spools()
    assert set(reported_in(spools)) == {"residuals", "samples", "left"}


@pytest.mark.parametrize("tier", ["bwrap", "landlock"])
async def test_pictures_come_out_of_walls(tmp_path: Path, tier: str) -> None:
    if why := why_not(tier):
        pytest.skip(f"{tier}: {why}")
    with opened(tmp_path / "yard", sandbox=tier) as yard:
        yard.start_worker()
        order = yard.order("r-walls0", f"{SHOW}rt.finish()\n{GOOD}", files=RUNTIME, sandbox=tier)
        await yard.launch(order)
        assert yard.outcome("r-walls0").state is RunState.SUCCEEDED
        assert sorted(one.name for one in pictured(yard, "r-walls0")) == ["residuals", "samples"]


async def test_pictures_go_through_redis_where_no_folder_is_shared(host: Yard) -> None:
    host.extra["TRAINYARD_BLOBS"] = "redis"
    store = RedisBlobs(host.server.url, host.home / "bot-cache")
    host.blobs = store  # type: ignore[assignment]
    order = host.order("r-redis0", f"{SHOW}rt.finish()\n{GOOD}", files=RUNTIME)
    host.launch_here(order)
    assert host.outcome("r-redis0").state is RunState.SUCCEEDED
    reported = pictured(host, "r-redis0")
    assert sorted(one.name for one in reported) == ["residuals", "samples"]
    for one in reported:
        assert decode(Reported, (await store.get(one.sha256)).read_bytes()).step == 1
