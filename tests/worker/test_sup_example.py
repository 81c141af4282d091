"""The example that logs a picture of each kind, trained for real under a real worker, and drawn."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.domain.events import Logged, Measured, Pictured
from agent.domain.pictures import Images, Lines, PictureSpec, Reported, Scatter, Table
from agent.domain.runs import Run, RunState
from agent.runs.pictures.reported import sheet_of
from agent.wire import decode
from charts_render.alt_text import describe
from charts_render.pool import ChartPool
from charts_render.render import compose, render
from tests.agent.conftest import Harness
from tests.agent.engine import SPEC
from tests.agent.stage import Stage
from tests.charts.picture_cases import collisions
from tests.fakes import START
from tests.worker.conftest import Yard
from tests.worker.test_sup_reported import REPO, RUNTIME

RUN = Run(id="r-abc123", session_id="s", requester="u", state="running", spec=SPEC, created_at=START)  # type: ignore[arg-type]
FORMS = {
    "detections": "images",
    "digit-confusion": "matrix",
    "digit-mistakes": "images",
    "digit-scores": "bars",
    "forecast": "lines",
    "residual-sizes": "histogram",
    "residuals": "scatter",
    "samples": "table",
    "wine-clusters": "scatter",
    "word-lengths": "histogram",
}


@pytest.mark.faults
async def test_every_kind_of_result_comes_from_a_real_training(yard: Yard) -> None:
    script = (REPO / "examples/result_pictures.py").read_text()
    await yard.launch(yard.order("r-example", f"{script}\nfinish()\n", files=RUNTIME))
    outcome = yard.outcome("r-example", limit_s=120)
    assert outcome.state is RunState.SUCCEEDED, outcome
    bodies = [event.body for event in yard.events("r-example")]
    newest = {body.name: body for body in bodies if isinstance(body, Pictured)}
    assert {name: body.form for name, body in newest.items()} == FORMS
    lines = [line for body in bodies if isinstance(body, Logged) for line in body.lines]
    assert not [line for line in lines if "picture" in line], lines  # nothing was refused or left out
    reported = {name: decode(Reported, yard.blobs.get_file(body.sha256).read_bytes()) for name, body in newest.items()}
    check_facts(reported)
    await check_thread(yard.home, list(newest.values()))
    reached: dict[str, float] = {}
    for body in bodies:
        for row in body.rows if isinstance(body, Measured) else ():
            reached |= row.values
    assert reached["digits_f1"] > 0.9
    assert 0.3 < reached["diabetes_r2"] < 0.7
    assert reached["wine_purity"] > 0.9
    assert reached["detection_ap"] > 0.6


async def check_thread(home: Path, pictured: Sequence[Pictured]) -> None:
    """The bot over the same store of files shows each, drawn by its own processes, while the run still trains."""
    harness, pool = Harness(home), ChartPool()
    harness.charts = pool  # type: ignore[assignment]
    try:
        async with harness.open() as brain:
            stage = Stage(harness, brain)
            run = await stage.running()
            await stage.says(run, *pictured)
            for name in ("", *FORMS):
                answer = (await stage.asks("results", run.id, *([name] if name else []))).card
                assert answer is not None
                assert answer.picture is not None, name
                assert Path(answer.picture.path).read_bytes().startswith(b"\x89PNG")
                assert "reported by train.py at step" in answer.body
                assert "cannot be shown" not in answer.picture.alt
    finally:
        await pool.close()


def check_facts(reported: dict[str, Reported]) -> None:
    """What is shown is what was trained: parts of real data, not shapes."""
    residuals, wines = reported["residuals"].picture, reported["wine-clusters"].picture
    assert isinstance(residuals, Scatter)
    assert isinstance(wines, Scatter)
    assert len(residuals.groups[0].x) == 442
    assert sum(len(group.x) for group in wines.groups) == 178
    forecast = reported["forecast"].picture
    assert isinstance(forecast, Lines)
    said = forecast.lines[1]
    assert all(low <= y <= high for low, y, high in zip(said.low, said.y, said.high, strict=True))
    assert said.x[0] == pytest.approx((forecast.since or 0) + 0.5)
    boxes, mistakes = reported["detections"].picture, reported["digit-mistakes"].picture
    assert isinstance(boxes, Images)
    assert isinstance(mistakes, Images)
    assert len(mistakes.tiles) == 12
    for tile in boxes.tiles:
        assert sum(box.truth for box in tile.boxes) == 4
        assert all(0 <= box.left < box.right <= 1 and 0 <= box.top < box.bottom <= 1 for box in tile.boxes)
    samples = reported["samples"].picture
    assert isinstance(samples, Table)
    assert len(samples.rows) == 4
    for name, one in reported.items():
        check_drawn(name, one)


def check_drawn(name: str, reported: Reported) -> None:
    """Each is drawn on a phone and a wide screen without two texts meeting."""
    sizes: tuple[tuple[Any, int], ...] = (("light", 400), ("dark", 1200))
    for theme, width in sizes:
        sheet = sheet_of(RUN, [reported], theme=theme)
        spec = PictureSpec(sheet.title, sheet.pictures, sheet.subtitle, sheet.theme, width)
        assert collisions(compose(spec)) == [], name
        assert render(spec).startswith(b"\x89PNG")
        assert "cannot be shown" not in describe(spec), name


def test_the_example_runs_alone(tmp_path: Path) -> None:

    path = REPO / "examples/result_pictures.py"
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPO), "HOME": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, env=env, capture_output=True, check=True, timeout=300
    )
    assert ran.stderr == b""
    assert sorted(found.stem for found in (tmp_path / "pictures").glob("*.json")) == sorted(FORMS)
