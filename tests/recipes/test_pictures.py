"""What a script shows of itself: the files are whole and within bounds, and nothing it is handed breaks a training."""

import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from agent.domain.pictures import (
    LIMIT_BYTES,
    MOST_POINTS,
    Histogram,
    Images,
    Lines,
    Matrix,
    Reported,
    Scatter,
    Span,
    Table,
    Texts,
)
from trainyard import TrainingRuntime, images, pictures

REPO = Path(__file__).resolve().parents[2]
NAN, INF = math.nan, math.inf


@pytest.fixture
def rt(tmp_path: Path) -> TrainingRuntime:
    return TrainingRuntime("r-abc123", tmp_path)


def shown(rt: TrainingRuntime, name: str) -> Reported:
    """The picture as whoever reads the file sees it; it must keep to the form."""
    data = (rt.run_dir / "pictures" / f"{name}.json").read_bytes()
    assert len(data) <= LIMIT_BYTES
    return Reported.model_validate(json.loads(data))


def pixels(tile: Any) -> Image.Image:
    found = Image.open(io.BytesIO(tile.image))
    found.load()
    return found


def log_each(rt: TrainingRuntime, **about: Any) -> list[str]:
    """One picture of each kind; their names."""
    import torch

    rt.log_table("samples", ["prompt", "text", "p"], [["a", "b", 0.25], ["c", None, 1]], marks=["good", ""], **about)
    rt.log_scatter("residuals", [1, 2, 3], np.array([0.5, NAN, -INF]), guide="zero", x_label="said", **about)
    band = {"x": [3, 4], "y": torch.tensor([1.0, 2.0]), "low": [0, 1], "high": [2, 3]}
    rt.log_lines("forecast", {"measured": [1, 2, 3], "forecast": band}, since=3, **about)
    rt.log_bars("scores", ["cat", "dog"], {"precision": [1, 0.5], "recall": [0.2, None]}, most=1, **about)
    rt.log_histogram("lengths", {"train": [1, 2, 2, 9], "test": np.array([3])}, unit="tokens", **about)
    rt.log_matrix("confusion", np.eye(2), rows=["cat", "dog"], **about)
    rt.log_images("mistakes", [np.eye(8)], captions=["3, not 8"], right=[False], boxes=[[(0, 0, 4, 8)]], **about)
    rt.log_texts("entities", ["Ada in London"], spans=[[(0, 3, "person")]], captions=["row 1"], right=[True], **about)
    return ["samples", "residuals", "forecast", "scores", "lengths", "confusion", "mistakes", "entities"]


def test_each_kind_keeps_to_the_form(rt: TrainingRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    rt.log_metrics(step=12, loss=1.0)
    names = log_each(rt)
    assert [shown(rt, name).step for name in names] == [12] * 8
    assert sorted(path.stem for path in (rt.run_dir / "pictures").iterdir()) == sorted(names)
    table = shown(rt, "samples").picture
    assert table.kind == "table"
    assert table.rows == (("a", "b", "0.25"), ("c", "", "1"))
    images = shown(rt, "mistakes").picture
    assert isinstance(images, Images)
    box = images.tiles[0].boxes[0]
    assert (box.left, box.top, box.right, box.bottom) == (0, 0, 0.5, 1)
    assert pixels(images.tiles[0]).size == (160, 160)
    assert capsys.readouterr().err == ""
    rt.log_table("samples", ["a"], [], step=40, title="Anew")
    assert (shown(rt, "samples").step, shown(rt, "samples").picture.title) == (40, "Anew")


def test_a_picture_in_the_form_of_the_file(rt: TrainingRuntime) -> None:
    rt.log_picture("own", {"kind": "bars", "names": ["a"], "groups": [{"values": np.array([1.5])}]}, step=3)
    assert shown(rt, "own").picture.title == "own"


@pytest.mark.parametrize(
    ("given", "mode", "size"),
    [
        (np.zeros((20, 30), np.uint8), "L", (150, 100)),
        (np.full((20, 30), 255, np.int64), "L", (150, 100)),
        (lambda _: np.random.default_rng(1).random((3, 300, 200)), "RGB", (200, 300)),
        (lambda _: np.random.default_rng(1).random((2000, 3000, 3)), "RGB", (600, 400)),
        (np.array([[NAN, INF], [-INF, 1e300]]), "L", (160, 160)),
        (np.array([[-1e308, 1e308]]), "L", (160, 80)),
        (lambda torch: torch.rand(4, 50, 200, requires_grad=True), "RGBA", (200, 50)),
        (lambda torch: torch.rand(1, 8, 8, dtype=torch.bfloat16), "L", (160, 160)),
        ([[0, 1], [1, 0.5]], "L", (160, 160)),
        ([[[1, 0, 0], [0, 1, 0]]], "RGB", (160, 80)),
        (Image.new("CMYK", (1000, 500)), "RGB", (640, 320)),
    ],
)
def test_whatever_is_an_image_becomes_one(rt: TrainingRuntime, given: Any, mode: str, size: tuple[int, int]) -> None:
    import torch

    rt.log_images("i", [given(torch) if callable(given) else given])
    found = shown(rt, "i").picture
    assert isinstance(found, Images)
    image = pixels(found.tiles[0])
    assert image.size == size
    assert image.mode == mode
    assert images.image_size(found.tiles[0].image) == size


def test_shades_and_places_are_right(rt: TrainingRuntime) -> None:
    rows = np.zeros((4, 6, 3))
    rows[1, 2] = (1, 0, 0)
    shades = [[16.0, 0.0], [8.0, 16.0]]
    rt.log_images("i", [rows, np.moveaxis(rows, 2, 0), rows.tolist(), np.array(shades), shades])
    found = shown(rt, "i").picture
    assert isinstance(found, Images)
    for tile in found.tiles[:3]:
        image = np.asarray(pixels(tile))
        larger = 160 // 6
        assert image.shape == (4 * larger, 6 * larger, 3)
        red = np.argwhere(image[..., 0] == 255)
        assert red.min(0).tolist() == [larger, 2 * larger]
        assert red.max(0).tolist() == [2 * larger - 1, 3 * larger - 1]
        assert image[..., 1:].max() == 0
    for tile in found.tiles[3:]:
        image = np.asarray(pixels(tile))
        assert (image[0, 0], image[0, -1], image[-1, 0]) == (255, 0, 128)


def test_images_of_others_are_taken_as_they_are(rt: TrainingRuntime, tmp_path: Path) -> None:
    image = Image.fromarray(np.random.default_rng(1).integers(0, 255, (60, 40, 3)).astype(np.uint8))
    for kind in ("PNG", "JPEG"):
        path = tmp_path / f"i.{kind}"
        image.save(path, kind)
        rt.log_images("i", [path, str(path), path.read_bytes()], boxes=[[], [(10, 15, 20, 30)], []])
        found = shown(rt, "i").picture
        assert isinstance(found, Images)
        assert {tile.image for tile in found.tiles} == {path.read_bytes()}
        assert found.tiles[1].boxes[0].right == 0.5
        assert images.image_size(path.read_bytes()) == (40, 60)


def test_many_large_images_fit(rt: TrainingRuntime) -> None:
    noise = np.random.default_rng(2).integers(0, 256, (500, 700, 3)).astype(np.uint8)
    rt.log_images("i", [noise] * 10 + [Image.fromarray(noise)] * 5)
    found = shown(rt, "i")
    assert isinstance(found.picture, Images)
    assert (len(found.picture.tiles), found.picture.left_out) == (12, 3)
    assert min(min(pixels(tile).size) for tile in found.picture.tiles) >= 80


def test_too_many_points_are_thinned_and_said(rt: TrainingRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    many = 10_000
    x = np.arange(many)
    y = np.sin(x / 900)
    y[4321] = 50
    y[7000] = NAN
    rt.log_scatter("s", x, y, groups=["a" if i % 10 else "b" for i in range(many)])
    rt.log_lines("l", {"long": y, "short": [1, 2]})
    scatter, line = shown(rt, "s"), shown(rt, "l")
    assert isinstance(scatter.picture, Scatter)
    counts = {group.name: len(group.x) for group in scatter.picture.groups}
    assert counts == {"a": (MOST_POINTS - 12) * 9 // 10, "b": (MOST_POINTS - 12) // 10}
    assert scatter.picture.left_out == many - sum(counts.values())
    assert isinstance(line.picture, Lines)
    assert max(line.picture.lines[0].y) == 50
    assert math.isnan(line.picture.lines[0].y[line.picture.lines[0].x.index(7000)])
    assert line.picture.lines[0].x[-1] == many - 1
    assert line.picture.left_out + len(line.picture.lines[0].x) == many
    assert capsys.readouterr().err.count("did not fit") == 2


@pytest.mark.parametrize(
    "values",
    [
        [1, 1, 1],
        [0.1, 0.2, 0.2],
        [-1e308, 1e308],
        [1e300, 1e300 * (1 + 1e-15)],
        [5e-324, 0],
        [0, -0.0],
        [2**60, 2**61],
        list(range(100_000)),
        [NAN, 3, INF],
        np.random.default_rng(1).normal(size=5000),
    ],
)
def test_a_histogram_counts_every_finite_value(rt: TrainingRuntime, values: Any) -> None:
    rt.log_histogram("h", values)
    found = shown(rt, "h")
    assert isinstance(found.picture, Histogram)
    finite = [one for one in values if math.isfinite(one)]
    assert sum(found.picture.groups[0].values) == len(finite)
    assert found.picture.left_out == len(values) - len(finite)
    edges = found.picture.edges
    assert edges[0] <= min(finite) <= max(finite) <= edges[-1]


class Odd:
    def __str__(self) -> str:
        raise RuntimeError("no text of me")

    def __float__(self) -> float:
        raise RuntimeError("no number of me")

    def tolist(self) -> list[int]:
        raise MemoryError

    detach = tolist


@pytest.mark.parametrize("odd", [None, "abc", 7, [1, [2]], Odd(), {"a": Odd()}, [Odd()], b"GIF89a", Path("/nowhere")])
def test_what_cannot_be_shown_is_a_warning(rt: TrainingRuntime, odd: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rt.log_table("t", ["a"], odd)
    rt.log_table("t2", odd, [[odd]])
    rt.log_scatter("s", odd, odd)
    rt.log_lines("l", odd)
    rt.log_lines("l2", {"a": odd})
    rt.log_bars("b", odd, odd)
    rt.log_histogram("h", odd)
    rt.log_matrix("m", odd, rows=odd)
    rt.log_images("i", odd)
    rt.log_images("i2", [odd])
    rt.log_picture("p", odd)
    rt.log_picture("q", {"form": "table", "columns": ["a"], "rows": odd})
    rt.log_lines(odd, {"a": [1]}, step=odd, titel=odd)
    assert "trainyard: picture" in capsys.readouterr().err
    for path in (rt.run_dir / "pictures").glob(".*"):
        pytest.fail(f"{path} was left behind")


def test_a_set_of_wrong_arguments_says_what_is_wrong(rt: TrainingRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    rt.log_lines("l", {"a": [1, 2]}, titel="x")
    rt.log_table("t", ["a", "b"], [[1]])
    rt.log_images("i", [np.eye(3)], captions=["a", "b"])
    said = capsys.readouterr().err
    assert "there is no titel to set" in said
    assert "each row a cell for each of them" in said
    assert "there are 1 images and 2 captions" in said


@pytest.mark.parametrize("small", [1, 11])
def test_small_groups_keep_a_point_within_the_bound(rt: TrainingRuntime, small: int) -> None:
    groups = ["large"] * 50_000 + [f"small {i}" for i in range(small)]
    rt.log_scatter("s", range(len(groups)), range(len(groups)), groups=groups)
    found = shown(rt, "s").picture
    assert isinstance(found, Scatter)
    assert len(found.groups) == small + 1
    assert MOST_POINTS - 20 <= sum(len(group.x) for group in found.groups) <= MOST_POINTS


def test_long_lines_stay_within_the_bound(rt: TrainingRuntime) -> None:
    rng = np.random.default_rng(1)
    walks = {f"walk {i}": rng.normal(size=5000).cumsum() for i in range(12)}
    walks["walk 3"][rng.integers(0, 5000, 2500)] = NAN
    rt.log_lines("l", walks)
    found = shown(rt, "l").picture
    assert isinstance(found, Lines)
    for line in found.lines:
        assert max(y for y in line.y if y == y) == np.nanmax(walks[line.name])
        assert min(y for y in line.y if y == y) == np.nanmin(walks[line.name])


def test_arrays_are_taken_for_everything(rt: TrainingRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    boxes = [
        torch.tensor([[0, 0, 4.0, 8]]),
        np.zeros((0, 4)),
        [{"box": np.array([1, 2, 3, 4]), "score": torch.tensor(0.5)}],
    ]
    rt.log_images(
        "i", torch.rand(3, 3, 8, 8), captions=np.array(["a", "b", "c"]), right=np.array([True] * 3), boxes=boxes
    )
    rt.log_table("t", np.array(["a", "b"]), np.eye(2), marks=np.array(["good", "bad"]))
    rt.log_scatter("s", np.arange(4), np.arange(4), groups=np.array([0, 1, 0, 1]), title=7, x_label=np.float32(0.5))
    rt.log_bars("b", np.array(["a", "b"]), np.arange(2), errors=np.arange(2), most=np.float32(1), step=np.int64(3))
    assert capsys.readouterr().err == ""
    found = shown(rt, "i").picture
    assert isinstance(found, Images)
    assert [len(tile.boxes) for tile in found.tiles] == [1, 0, 1]
    assert shown(rt, "s").picture.title == "7"
    assert (shown(rt, "b").step, shown(rt, "t").picture.kind) == (3, "table")


def test_spans_are_characters_of_their_text(rt: TrainingRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    truth = {"span": np.array([7, 13]), "name": "place", "truth": True}
    rt.log_texts(
        "t", ["Ada in London", "x" * 900, *["more"] * 18], spans=[[(0, 3), truth], [(0, 900, "x")], *[None] * 18]
    )
    found = shown(rt, "t").picture
    assert isinstance(found, Texts)
    assert found.passages[0].spans == (Span(0, 3), Span(7, 13, "place", truth=True))
    assert (len(found.passages[1].text), found.passages[1].spans) == (600, ())
    assert (len(found.passages), found.left_out) == (12, 8)
    for wrong in ((3, 3), (2, 1), (0, 14), (-1, 2), ("a", "b"), (1,)):
        rt.log_texts("wrong", ["Ada in London"], spans=[[wrong]])
    rt.log_texts("wrong", ["a", "b"], spans=[[]])
    assert not (rt.run_dir / "pictures/wrong.json").exists()
    assert "3 to 3 of 13 is none" in capsys.readouterr().err


def test_many_groups_and_classes_are_folded(rt: TrainingRuntime) -> None:
    of = [i % 40 if i % 3 else 0 for i in range(400)]
    rt.log_scatter("s", range(400), range(400), groups=of)
    scatter = shown(rt, "s").picture
    assert isinstance(scatter, Scatter)
    assert len(scatter.groups) == 12
    assert sum(len(group.x) for group in scatter.groups) == 400
    assert {"0", "others"} <= {group.name for group in scatter.groups}
    counts = np.arange(10_000).reshape(100, 100)
    rt.log_matrix("m", counts, rows=[f"class {i}" for i in range(100)])
    matrix = shown(rt, "m").picture
    assert isinstance(matrix, Matrix)
    assert matrix.others
    assert (len(matrix.rows), matrix.rows[-1]) == (51, "50 others")
    assert sum(map(sum, matrix.counts)) == counts.sum()
    assert matrix.counts[0][0] == counts[50, 50]


def test_a_full_disk_is_a_warning_and_leaves_nothing(tmp_path: Path) -> None:
    script = (
        "import resource, signal\nfrom trainyard import TrainingRuntime\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nrt = TrainingRuntime()\n"
        "rt.log_table('t', ['a'], [['small']])\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "rt.log_table('t', ['a'], [['x' * 500]] * 9)\nprint('goes on')\n"
    )
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPO)}
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=env, check=True, timeout=60, capture_output=True, text=True
    )
    assert ran.stdout == "goes on\n"
    assert "picture 't' left out: '[Errno 27] File too large" in ran.stderr
    assert [path.name for path in (tmp_path / "pictures").iterdir()] == ["t.json"]
    assert "small" in (tmp_path / "pictures/t.json").read_text()


def test_names_are_tidied_and_bounded_in_number(rt: TrainingRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("Residuals (test)", "../../etc/passwd", "损失", "x" * 200, "-_-"):
        rt.log_table(name, ["a"], [])
    found = sorted(path.name for path in (rt.run_dir / "pictures").iterdir())
    assert found == sorted(["residuals-test.json", "etc-passwd.json", "picture.json", f"{'x' * 32}.json"])
    for i in range(30):
        rt.log_table(f"n{i}", ["a"], [])
    assert len(list((rt.run_dir / "pictures").iterdir())) == pictures.MOST_PICTURES
    assert "20 pictures already" in capsys.readouterr().err
    rt.log_table("n1", ["b"], [])  # one that is there can be replaced
    table = shown(rt, "n1").picture
    assert isinstance(table, Table)
    assert table.columns == ("b",)


def test_a_folder_that_takes_nothing_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pictures").write_text("a file")
    log_each(TrainingRuntime("r", tmp_path))
    assert "left out" in capsys.readouterr().err


def test_only_the_first_rank_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    log_each(TrainingRuntime("r", tmp_path))
    assert not (tmp_path / "pictures").exists()


def test_alone_without_numpy_or_trainyard(tmp_path: Path) -> None:
    """The package is enough, and the runtime loads what writes pictures when the first one comes."""
    package = tmp_path / "trainyard"
    package.mkdir()
    for path in (REPO / "trainyard").glob("*.py"):
        (package / path.name).write_bytes(path.read_bytes())
    script = (
        "import sys\nfrom trainyard import TrainingRuntime\n"
        "assert 'trainyard.pictures' not in sys.modules\n"
        "rt = TrainingRuntime()\nrt.log_images('i', [[[0, 1]]], boxes=[[(0, 0, 1, 1)]])\n"
        "rt.log_lines('l', {'a': [1, 2]})\nassert 'numpy' not in sys.modules\n"
    )
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-S", "-c", script], cwd=tmp_path, env=env, check=True, timeout=60)
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == ["i.json", "l.json"]
    (package / "pictures.py").unlink()
    told = subprocess.run(
        [sys.executable, "-S", "-c", script], cwd=tmp_path, env=env, check=True, timeout=60, capture_output=True
    )
    assert b"No module named" in told.stderr or b"cannot import name 'pictures'" in told.stderr


def test_bounds_are_those_of_whoever_reads() -> None:
    from agent.domain import pictures as read

    names = [name for name in dir(pictures) if name.startswith("MOST_") and name != "MOST_BYTES"]
    assert {name: getattr(pictures, name) for name in names} == {name: getattr(read, name) for name in names}
    assert (images.MOST_SIDE, images.MOST_PIXELS) == (read.MOST_SIDE, read.MOST_PIXELS)
    assert pictures.MOST_BYTES == read.LIMIT_BYTES


def test_the_page_about_scripts_says_what_works(tmp_path: Path) -> None:
    page = (REPO / "docs/scripts.md").read_text()
    code = "\n".join(block.split("```")[0] for block in page.split("```python\n")[1:])
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPO)}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, check=True, timeout=60, capture_output=True, text=True
    )
    assert ran.stderr == ""
    found = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "pictures").iterdir()}
    assert all(Reported.model_validate(one).step == 100 for one in found.values())
    named = {line.split('"')[1] for line in page.splitlines() if line.startswith("rt.log_") and '("' in line}
    assert found.keys() == named | {"forecast"}
