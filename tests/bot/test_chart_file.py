"""`trainyard chart`: a file of metrics as a picture, drawn once, or again while it grows, in a real process."""

import asyncio
import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agent.domain.charts import ChartSpec
from agent.runs.charts.run_charts import Look
from bot.chart_file import ChartFile, Wanted
from bot.cli import main
from trainyard import TrainingRuntime

PATIENCE_S = 60
RUN = [sys.executable, "-c", "from bot.start import main; main()", "chart"]


def rows(first: int, stop: int) -> str:
    made = [
        {"step": n, "at": 1.79e9 + n, "values": {"train_loss": 1 / (n + 1), "lr": 1e-3}} for n in range(first, stop)
    ]
    return "".join(json.dumps(row) + "\n" for row in made)


def chart(*arguments: str | Path, code: int = 0) -> str:
    done = subprocess.run([*RUN, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def chart_here(*arguments: str | Path, code: int = 0) -> str:
    """The same within this process, which is quicker."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["trainyard", "chart", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
    assert (ended.value.code or 0) == code, err.getvalue()
    return (err if code else out).getvalue()


def size_of(path: Path) -> tuple[int, int]:
    with Image.open(path) as picture:
        picture.verify()
        return picture.size


def test_a_file_is_drawn_and_told_of(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(rows(0, 500) + "half a li")
    said = chart(path)
    assert "metrics.png: 500 rows. Left out: 1 line without a row." in said
    assert "loss" in said
    assert "lr" in said
    assert size_of(tmp_path / "metrics.png")[0] == 1200
    said = chart_here(path, "--metric", "LOSS", "--last", "10", "--by", "time", "--dark", "-o", tmp_path / "other.png")
    assert "lr" not in said
    assert "0.002" in said
    assert size_of(tmp_path / "other.png")[0] == 1200


def test_a_file_is_drawn_by_epoch(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps({"step": n, "epoch": n / 50, "loss": 1 / n}) + "\n" for n in range(1, 101)))
    said = chart_here(path, "--by", "epoch")
    assert "at epoch 2" in said
    assert "epoch:" not in said.replace("log.jsonl", "")  # the clock is no panel of its own


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        (None, (), "There is no file"),
        ("nonsense\n", (), "has no metrics: a row is one JSON object a line"),
        (rows(0, 3), ("--metric", "acc"), "There are train_loss, lr."),
        ('{"step": 1, "loss": 2}\n', ("--by", "time"), "have no moment"),
        (rows(0, 3), ("--by", "epoch"), "no metric `epoch`"),
        (rows(0, 3), ("-o", "/nowhere/a.png"), "cannot be written"),
    ],
)
def test_what_cannot_be_drawn_is_a_sentence(
    tmp_path: Path, text: str | None, arguments: tuple[str, ...], words: str
) -> None:
    path = tmp_path / "metrics.jsonl"
    if text is not None:
        path.write_text(text)
    assert words in chart_here(path, *arguments, code=1)


def until(done: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    end = time.monotonic() + PATIENCE_S
    while not done():
        assert process.poll() is None, "it ended"
        assert time.monotonic() < end, "it hangs"
        time.sleep(0.05)


def test_a_growing_file_is_followed_until_it_is_enough(tmp_path: Path) -> None:
    path, said = tmp_path / "metrics.jsonl", tmp_path / "said"
    with said.open("w") as out:
        process = subprocess.Popen([*RUN, str(path), "--follow"], stdout=out, stderr=subprocess.STDOUT, text=True)
    try:
        until(lambda: "Following" in said.read_text(), process)
        path.write_text(rows(0, 10))
        until(lambda: ": 10 rows." in said.read_text(), process)
        first = (tmp_path / "metrics.png").read_bytes()
        with path.open("a") as file:
            file.write(rows(10, 300))
        until(lambda: ": 300 rows." in said.read_text(), process)
        assert (tmp_path / "metrics.png").read_bytes() != first
        path.write_text(rows(0, 5))
        until(lambda: ": 5 rows." in said.read_text(), process)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 130
    assert size_of(tmp_path / "metrics.png")[0] == 1200
    assert [found.name for found in tmp_path.iterdir() if found.name.startswith(".")] == []


def test_a_picture_of_a_script_is_drawn_too(tmp_path: Path) -> None:
    runtime = TrainingRuntime("r", tmp_path)
    runtime.log_scatter("residuals", [1, 2, 3], [0.5, -0.5, 0.25], guide="zero", step=7)
    runtime.finish()
    said = chart_here(tmp_path / "pictures/residuals.json")
    assert "residuals.png" in said
    assert "3 points" in said
    assert size_of(tmp_path / "pictures/residuals.png")[0] == 1200
    assert "dark.png" in chart_here(tmp_path / "pictures/residuals.json", "--dark", "-o", tmp_path / "dark.png")


def test_lines_of_rows_are_curves_whatever_the_file_is_called(tmp_path: Path) -> None:
    """detectron2 and mmengine write such lines into files with this ending."""
    path = tmp_path / "metrics.json"
    path.write_text("".join(json.dumps({"iteration": 20 * n, "total_loss": 1 / n}) + "\n" for n in range(1, 50)))
    assert "metrics.png: 49 rows." in chart_here(path)


NO_IMAGE = '{"step": 1, "picture": {"kind": "images", "title": "t", "tiles": [{"image": "abc"}]}}'


@pytest.mark.parametrize(
    "text", [None, "", "[", "{}", '{"step": 1, "picture": {"kind": "virus"}}', "[" * 100_000, NO_IMAGE]
)
def test_what_is_no_picture_is_a_sentence(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "x.json"
    if text is not None:
        path.write_text(text)
    said = chart_here(path, code=1)
    assert ("There is no file" if text is None else "is no picture that a training logged") in said
    assert "Traceback" not in said


def spec_of(path: Path, **wanted: Any) -> ChartSpec:
    """What is drawn of a file."""
    drawing = ChartFile(path, path.with_suffix(".png"), Wanted(Look(), **wanted), lambda _: None)
    asyncio.run(drawing.load())
    return drawing.spec()[0]


def test_of_steps_that_were_trained_anew_the_later_pass_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    passes = [(range(5000), 1.0), (range(3000, 4000), 5.0), (range(3500, 9000), 9.0)]
    path.write_text("".join(json.dumps({"step": n, "loss": y}) + "\n" for steps, y in passes for n in steps))
    (series,) = spec_of(path).panels[0].series
    assert (
        list(zip(series.x, series.y, strict=True))
        == [(n, 1.0 if n < 3000 else 5.0 if n < 3500 else 9.0) for n in range(9000)]
        or len(series.x) < 9000
    )
    assert set(series.y) <= {1.0, 5.0, 9.0}
    assert list(series.breaks) == [3000, 3500]


def test_a_byte_order_mark_and_steps_between_whole_numbers_cost_no_row(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    text = "".join(json.dumps({"step": n / 4, "loss": n}) + "\n" for n in range(200))
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert "metrics.png: 200 rows.\n" in chart_here(path)
    spec = spec_of(path)
    assert (list(spec.panels[0].series[0].x), spec.x_label) == ([n / 4 for n in range(200)], "step")
    assert list(spec_of(path, last=2).panels[0].series[0].x) == [n / 4 for n in range(192, 200)]


def test_a_page_that_is_not_there_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps({"step": n, **{f"m{k}": 1 for k in range(6)}}) + "\n" for n in range(9)))
    assert "More metrics are on page 2." in chart_here(path)
    said = chart_here(path, "--page", "9")
    assert "There is no page 9: this is page 2, the last." in said
    assert "page 10" not in said
    assert "m5" in said
