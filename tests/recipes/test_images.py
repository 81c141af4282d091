"""Images: archives of every layout, and real trainings on digits."""

from __future__ import annotations

import base64
import csv
import io
import json
import random
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from agent.domain.orders import LabelPrediction
from agent.domain.results import Results
from agent.domain.runs import Scorecard
from agent.runs.pictures.results import views_of
from tests.recipes.folders import RunFolder, apply_run, make_run
from tests.recipes.pictures_of import archive, digits, png, turned_digits
from worker.recipes.common.images import opened
from worker.recipes.common.job import BadSettings
from worker.recipes.common.predict import main as predict_here
from worker.recipes.common.table import BadData, Table, read_table
from worker.recipes.images.network import network_settings
from worker.recipes.images.squares import Squares, checksum
from worker.recipes.inspect import audit
from worker.recipes.inspect import main as inspect_here

DOT = png(Image.new("RGB", (4, 4), "red"))
OTHER = png(Image.new("RGB", (4, 5), "blue"))


def read(tmp_path: Path, files: dict[str, bytes | str], name: str = "pets.zip") -> Table:
    (tmp_path / name).write_bytes(archive(files))
    return read_table(tmp_path / name)


def test_a_folder_is_a_class(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        "pets/cat/1.png": DOT, "pets/dog/1.png": OTHER, "__MACOSX/pets/cat/._1.png": b"x", "pets/.DS_Store": b"y",
    }  # fmt: skip
    table = read(tmp_path, files)
    assert table.columns == {"image": ["pets/cat/1.png", "pets/dog/1.png"], "label": ["cat", "dog"]}
    assert (table.form, table.warnings) == ("images", [])


def test_the_folders_that_all_folders_have_are_the_classes(tmp_path: Path) -> None:
    table = read(tmp_path, {f"{day}/raw/{kind}/1.png": DOT for day in ("may", "june") for kind in ("cat", "dog")})
    assert table.columns["label"] == ["cat", "dog"] * 2


def test_a_test_part_without_classes_is_left_out(tmp_path: Path) -> None:
    table = read(tmp_path, {"train/cat/1.png": DOT, "train/dog/2.png": OTHER, "test/9.png": DOT})
    assert table.columns == {"image": ["train/cat/1.png", "train/dog/2.png"], "label": ["cat", "dog"]}
    assert "Left out, files of “test” that lie in no folder of a class: 1." in table.warnings


def test_deep_grey_and_transparent_images_keep_their_tones() -> None:
    deep = Image.fromarray(np.full((2, 2), 60 * 257, np.uint16))
    clear = Image.new("RGBA", (2, 2), (0, 0, 0, 0))
    assert [opened(png(image)).getpixel((0, 0)) for image in (deep, clear)] == [(60, 60, 60), (255, 255, 255)]


def test_images_without_labels_are_said_to_have_none(tmp_path: Path) -> None:
    assert "No labels are found" in read(tmp_path, {"pets/1.png": DOT, "pets/2.png": OTHER}).warnings[0]


def test_the_only_number_beside_images_is_what_is_learned(tmp_path: Path) -> None:
    files = {f"{at}.png": DOT for at in range(25)} | {
        "t.csv": "file,angle\n" + "".join(f"{at}.png,{at}.5\n" for at in range(25))
    }
    report = audit(read(tmp_path, files))
    assert (report["suggested_target"], report["suggested_task"]) == ("angle", "image_regression")


def test_folders_of_parts_are_no_classes(tmp_path: Path) -> None:
    table = read(tmp_path, {"train/cat/1.png": DOT, "test/dog/2.png": OTHER})
    assert table.columns["label"] == ["cat", "dog"]
    assert table.columns["part"] == ["train", "test"]


@pytest.mark.parametrize("cell", ["a.png", "img/a.png", "a"])
def test_a_csv_names_the_images(cell: str, tmp_path: Path) -> None:
    table = read(tmp_path, {"img/a.png": DOT, "img/b.png": OTHER, "ages.csv": f"who;file;age\nx;{cell};3\n"})
    assert table.columns == {"image": ["img/a.png"], "who": ["x"], "age": ["3"]}
    assert table.warnings == ["1 of 2 images is not named in “file” and left out."]


def test_coco_boxes(tmp_path: Path) -> None:
    notes = {
        "images": [{"id": 1, "file_name": "a.png"}],
        "categories": [{"id": 7, "name": "cat"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 7, "bbox": [0, 1, 2, 3]}],
    }
    table = read(tmp_path, {"images/a.png": DOT, "annotations.json": json.dumps(notes)})
    assert json.loads(table.columns["boxes"][0]) == [{"label": "cat", "box": [0.0, 1.0, 2.0, 3.0]}]
    notes["annotations"][0]["bbox"] = [0, 1, 3]
    with pytest.raises(BadData, match=r"annotation 1 has the box .*; it needs four numbers"):
        read(tmp_path, {"images/a.png": DOT, "annotations.json": json.dumps(notes)})


def test_copies_and_wrong_labels_are_said(tmp_path: Path) -> None:
    table = read(tmp_path, {"cat/1.png": DOT, "cat/2.png": DOT, "dog/1.png": DOT})
    assert table.warnings == [
        "2 images are exact copies of another one; copies stay on one side of the split.",
        "1 of these have different answers: probably wrong labels.",
    ]


def test_copies_stay_on_one_side_and_those_in_two_given_parts_are_said(tmp_path: Path) -> None:
    shades = [png(Image.new("RGB", (4, 4), (at, 0, 0))) for at in range(40)]
    files = {f"{'cat' if at % 2 else 'dog'}/{at}-{copy}.png": shades[at] for at in range(40) for copy in range(2)}
    run = make_run(tmp_path, archive(files), "label", recipe="image_classification", settings={})
    assert run.prepare_here() == 0
    learned, measured = (
        {(run.dir / row["image"]).read_bytes() for row in run.rows(f"data/{part}.csv")} for part in ("train", "test")
    )
    assert (len(learned), len(measured)) == (32, 8)
    table = read(tmp_path, {"train/cat/1.png": DOT, "test/cat/2.png": DOT, "train/dog/1.png": OTHER})
    assert "1 of these stand in several parts" in table.warnings[-1]


def test_pixels_that_do_not_fit_are_read_again_and_are_the_same(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{at}.png") for at in range(5)]
    for at, path in enumerate(paths):
        Image.new("RGB", (6, 6), (40 * at, 0, 0)).save(path)
    held, read = Squares(paths, 4), Squares(paths, 4, held_bytes=100)
    assert (held.said, read.said[:30]) == ("", "The pixels of 5 images take 0.")
    for places in (2, slice(1, 4), np.array([3, 0])):
        assert np.array_equal(held[places], read[places])
    assert checksum(held, 0) == checksum(read, 0)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a.txt": "x"}, "holds no images"),
        ({"cat/1.png": DOT[:40], "dog/1.png": DOT[:30]}, "2 of 2 images cannot be read: cat/1.png, dog/1.png"),
        ({"a.png": DOT, "b.png": OTHER, "l.csv": "file,y\na.png,1\nc.png,2\n"}, "l.csv, line 3: there is no readable"),
    ],
)
def test_a_bad_archive_gets_a_sentence(files: dict[str, bytes | str], said: str, tmp_path: Path) -> None:
    with pytest.raises(BadData, match=said):
        read(tmp_path, files)


def test_one_broken_image_of_many_is_left_out_and_said(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {f"{label}/{at}.png": DOT for label in ("cat", "dog") for at in range(15)}
    table = read(tmp_path, files | {"cat/0.png": DOT[:50]})
    assert table.rows == 29
    assert "Left out, because they cannot be read as images: cat/0.png." in table.warnings


def test_a_cut_archive_and_a_table_of_names_without_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cut.zip").write_bytes(archive({"cat/1.png": DOT})[:-30])
    with pytest.raises(BadData, match="cannot be read"):
        read_table(tmp_path / "cut.zip")
    names = "".join(f"{at}.png,{'ab'[at % 2]}\n" for at in range(30))
    (tmp_path / "names.csv").write_text(f"file,kind\n{names}")
    report = audit(read_table(tmp_path / "names.csv"), target="kind", task="image_classification")
    assert report["problems"][0].startswith("The table names files, but they are not in it. Send a zip archive")
    assert inspect_here(["--file", str(tmp_path / "names.csv"), "--target", "kind"]) == 0
    assert json.loads(capsys.readouterr().out)["columns"][0]["kind"] == "image"


def test_an_archive_that_unpacks_too_large_is_refused(tmp_path: Path) -> None:
    blank = io.BytesIO()
    Image.new("RGB", (2000, 2000)).save(blank, "BMP")
    (tmp_path / "a.zip").write_bytes(archive({"a.bmp": blank.getvalue()}))
    with pytest.raises(BadData, match="unpacks to 12 MB; the limit is 1 MB"):
        read_table(tmp_path / "a.zip", limit_bytes=1_000_000)


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    files = archive([(f"digits/{label}/{at}.png", image) for at, (label, image) in enumerate(digits(240))])
    run = make_run(
        tmp_path_factory.mktemp("images"), files, "label", recipe="image_classification", settings={"epochs": 3}
    )
    run.all_steps_here()
    return run


def test_a_classifier_of_images_is_measured_on_other_images(numbers: RunFolder, tmp_path: Path) -> None:
    files = archive([(f"other/{label}/{at}.png", image) for at, (label, image) in enumerate(digits(400)[240:])])
    run = apply_run(tmp_path, numbers, files, job="evaluation")
    card = Scorecard.model_validate(run.all_steps_here())
    assert ([score.name for score in card.baselines], card.test_rows) == (["majority"], 160)
    assert card.model.value > 0.7


def test_digits_are_told_apart(numbers: RunFolder) -> None:
    card = Scorecard.model_validate(numbers.json("scorecard.json"))
    assert card.metric == "macro_f1"
    assert [score.name for score in card.baselines] == ["majority", "linear"]
    kept = numbers.json("artifacts/metrics.json")["chosen"]
    assert {score.name for score in card.not_kept} == {"network"} - {kept}
    assert card.model.value > 0.8
    assert card.baselines[0].value < 0.1
    assert len(numbers.metrics()) > 1


def test_no_name_tells_a_class_and_no_label_lies_beside_the_training(numbers: RunFolder) -> None:
    test = numbers.rows("data/test.csv")
    assert all(row["image"].startswith("data/images/") and "label" not in row for row in test)
    names = sorted(path.name for path in (numbers.dir / "data/images").iterdir())
    assert len(names) == 240
    order = [row["image"] for row in numbers.rows("data/train.csv")]
    assert order != sorted(order)  # numbers do not follow the folders
    assert len(list((numbers.sealed / "thumbnails").iterdir())) == len(test)


def test_single_images_are_shown(numbers: RunFolder) -> None:
    found = Results.model_validate_json((numbers.dir / "results.json").read_bytes()).found
    assert found.kind == "classification"
    assert found.samples is not None
    assert found.samples.kind == "images"
    assert 1 <= len(found.samples.tiles) <= 12
    assert "samples" in views_of(found)


def test_the_finished_model_answers_for_an_image_and_for_an_archive(
    numbers: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = digits(12)
    (tmp_path / "seven").write_bytes(found[7][1])
    assert predict_here([str(tmp_path / "seven"), "--out", str(tmp_path / "out.csv")], numbers.dir / "artifacts") == 0
    (tmp_path / "all.zip").write_bytes(archive([(f"{at}.png", image) for at, (_, image) in enumerate(found)]))
    out = tmp_path / "all.csv"
    assert predict_here([str(tmp_path / "all.zip"), "--out", str(out)], numbers.dir / "artifacts") == 0
    with out.open() as file:
        rows = list(csv.DictReader(file))
    right = sum(row["prediction"] == str(label) for row, (label, _) in zip(rows, found, strict=True))
    assert right >= 9
    assert rows[0]["image"] == "0.png"
    small = json.loads((tmp_path / "all.images.json").read_text())
    assert [one["name"] for one in small] == [row["image"] for row in rows]
    assert opened(base64.b64decode(small[7]["image"])).size == (160, 160)
    (tmp_path / "rows.csv").write_text("a\n1\n")
    assert predict_here([str(tmp_path / "rows.csv")], numbers.dir / "artifacts") == 65
    assert "no column “image”" in capsys.readouterr().out
    LabelPrediction(label="7", probabilities=(("7", 1.0),))


def test_the_angle_of_a_digit_is_measured_in_degrees(tmp_path: Path) -> None:
    found = turned_digits(240)
    shuffled = list(enumerate(found))
    random.Random(1).shuffle(shuffled)
    table = "file,angle\n" + "".join(f"{at}.png,{angle}\n" for at, (angle, _) in shuffled)
    files = archive([("angles.csv", table), *((f"img/{at}.png", image) for at, (_, image) in enumerate(found))])
    run = make_run(tmp_path, files, "angle", recipe="image_regression", settings={"epochs": 2})
    card = Scorecard.model_validate(run.all_steps_here())
    assert card.metric == "rmse"
    assert [score.name for score in card.baselines] == ["linear", "mean"]
    assert card.model.value < 0.8 * card.baselines[-1].value
    found = Results.model_validate_json((run.dir / "results.json").read_bytes()).found
    assert found.kind == "pictured"
    assert [shown.view for shown in found.pictures][-1] == "samples"


def test_names_tell_the_labels_where_no_folder_does(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(
        archive([(f"{kind}.{at}.png", png_of(at)) for kind in ("cat", "dog") for at in range(6)])
    )
    table = read_table(tmp_path / "a.zip")
    assert table.columns["label"] == ["cat"] * 6 + ["dog"] * 6
    assert table.warnings[:1] == ["The labels are the beginnings of the files' names: cat, dog."]
    (tmp_path / "b.zip").write_bytes(archive([(f"IMG_{at}.png", png_of(at)) for at in range(6)]))
    assert read_table(tmp_path / "b.zip").names == ["image"]


def test_a_few_rows_without_their_image_are_left_out_and_many_are_refused(tmp_path: Path) -> None:
    files = [(f"{at}.png", png_of(at)) for at in range(20)]
    names = "".join(f"{at}.png,{'ab'[at % 2]}\n" for at in range(21))
    (tmp_path / "a.zip").write_bytes(archive([*files, ("names.csv", f"file,kind\n{names}")]))
    table = read_table(tmp_path / "a.zip")
    assert (table.rows, len(table.columns["kind"])) == (20, 20)
    assert "no readable image: “20.png” in line 22" in table.warnings[0]
    more = "".join(f"x{at}.png,a\n" for at in range(5))
    (tmp_path / "b.zip").write_bytes(archive([*files, ("names.csv", f"file,kind\n{names}{more}")]))
    with pytest.raises(BadData, match=r"line 22: there is no readable image “20.png” in the archive \(and 5 more\)"):
        read_table(tmp_path / "b.zip")


def png_of(at: int) -> bytes:
    return png(Image.new("L", (9, 9), 10 * at))


@pytest.mark.skipif(find_spec("timm") is not None, reason="it is there")
def test_a_model_of_a_package_that_is_missing_is_refused() -> None:
    with pytest.raises(BadSettings, match=r"“timm/resnet18\.a1_in1k” needs the package timm, which this host lacks"):
        network_settings({"model": "timm/resnet18.a1_in1k"}, {})
