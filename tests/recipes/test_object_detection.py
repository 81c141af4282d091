"""Boxes: annotations of every layout, mAP, bad input, and a real training on squares at random places."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from agent.domain.results import Results
from agent.domain.runs import Scorecard
from tests.recipes.folders import RunFolder, make_run
from tests.recipes.pictures_of import archive, png
from worker.recipes.boxes.answers import sure
from worker.recipes.boxes.detecting import load_detector
from worker.recipes.boxes.measuring import Matched
from worker.recipes.boxes.network import BoxLearner, build, network_settings, save
from worker.recipes.boxes.reading import by_image
from worker.recipes.common.predict import main as predict_here
from worker.recipes.common.table import BadData, Table, read_table
from worker.recipes.inspect import audit
from worker.serving.app import make_app

DOT = png(Image.new("RGB", (10, 10), "red"))
OTHER = png(Image.new("RGB", (12, 10), "blue"))


def squares(count: int) -> bytes:
    """Bright squares and flat bars, one on each dark image, with COCO annotations."""
    chance = np.random.default_rng(3)
    files: list[tuple[str, bytes | str]] = []
    notes = []
    for at in range(count):
        kind = at % 2
        width, height = (20, 20) if kind == 0 else (32, 10)
        left, top = int(chance.integers(0, 64 - width)), int(chance.integers(0, 64 - height))
        pixels = chance.integers(0, 40, (64, 64)).astype(np.uint8)
        pixels[top : top + height, left : left + width] = 220
        files.append((f"images/{at}.png", png(Image.fromarray(pixels))))
        notes.append({"id": at + 1, "image_id": at, "category_id": kind, "bbox": [left, top, width, height]})
    names = [{"id": 0, "name": "square"}, {"id": 1, "name": "bar"}]
    about = {"images": [{"id": at, "file_name": f"{at}.png"} for at in range(count)], "categories": names}
    return archive([("notes.json", json.dumps({**about, "annotations": notes})), *files])


def test_boxes_without_a_size_are_left_out(tmp_path: Path) -> None:
    about = {"images": [{"id": 1, "file_name": "a.png"}], "categories": [{"id": 1, "name": "cat"}]}
    notes = [{"id": at, "image_id": 1, "category_id": 1, "bbox": [1, 1, at, 2]} for at in range(2)]
    (tmp_path / "a.zip").write_bytes(archive({"a.png": DOT, "n.json": json.dumps({**about, "annotations": notes})}))
    table = read_table(tmp_path / "a.zip")
    assert json.loads(table.columns["boxes"][0]) == [{"label": "cat", "box": [1, 1, 1, 2]}]
    assert table.warnings == ["Left out, boxes without a width or a height: 1."]


def coco(tmp_path: Path, *notes: dict[str, Any], **about: Any) -> Table:
    """Two images of 10 and 12 pixels by 10 with these annotations, read."""
    images = [
        {"id": 1, "file_name": "x/a.png", "width": 10, "height": 10},
        {"id": 2, "file_name": "b.png", "width": 12, "height": 10},
    ]
    whole = {"images": images, "categories": [{"id": 7, "name": "cat"}], "annotations": notes, **about}
    (tmp_path / "a.zip").write_bytes(archive({"a.png": DOT, "b.png": OTHER, "n.json": json.dumps(whole)}))
    return read_table(tmp_path / "a.zip")


def test_boxes_are_cut_at_the_edge_and_crowds_are_none(tmp_path: Path) -> None:
    note = {"image_id": 1, "category_id": 7}
    table = coco(
        tmp_path,
        {**note, "bbox": [-5, 2, 10, 20]},
        {**note, "bbox": [50, 50, 4, 4]},
        {**note, "bbox": [1, 1, 4, 4], "iscrowd": 1},
        {**note, "segmentation": [[1, 2, 4, 2, 4, 6], [3, 3, 5, 7, 3, 7]]},
    )
    assert [one["box"] for one in json.loads(table.columns["boxes"][0])] == [[0, 2, 5, 8], [1, 2, 4, 5]]
    assert table.warnings == [
        "Cut at the edge of the image, boxes that reach beyond it: 1.",
        "Left out, boxes outside of their image: 1.",
        "Left out, annotations of crowds (iscrowd): 1.",
    ]


@pytest.mark.parametrize(
    ("note", "about", "said"),
    [
        ({"category_id": 8, "bbox": [1, 1, 2, 2]}, {}, "annotation 5 names 8, which “categories” does not have"),
        ({"image_id": 9, "bbox": [1, 1, 2, 2]}, {}, "annotation 5 names 9, which “images” does not have"),
        ({}, {}, "an entry has no “bbox”"),
        ({"bbox": [0.1, 0.1, 0.5, 0.2]}, {}, "all boxes lie between 0 and 1"),
        ({"bbox": [1, 2, 3]}, {}, "annotation 5 has the box .1, 2, 3.; it needs four numbers"),
        ({"bbox": [1, 1, 2, 2]}, {"categories": [{"id": 7}]}, "an entry has no “name”"),
    ],
)
def test_a_bad_entry_of_coco_gets_a_sentence(
    note: dict[str, Any], about: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(BadData, match=said):
        coco(tmp_path, {"id": 5, "image_id": 1, "category_id": 7, **note}, **about)


def test_the_parts_of_coco_are_those_of_the_split(tmp_path: Path) -> None:
    def notes(first: int, count: int) -> str:
        images = [{"id": at, "file_name": f"{first + at}.png"} for at in range(count)]
        boxes = [{"id": at, "image_id": at, "category_id": at % 2, "bbox": [1, 1, 4, 5]} for at in range(count)]
        names = [{"id": 0, "name": "cat"}, {"id": 1, "name": "dog"}]
        return json.dumps({"images": images, "annotations": boxes, "categories": names})

    files: dict[str, bytes | str] = {f"images/{at}.png": png(np.full((9, 9), at / 3)) for at in range(30)}
    files |= {"annotations/instances_train.json": notes(0, 24), "annotations/instances_val.json": notes(24, 6)}
    run = make_run(tmp_path, archive(files), "boxes", recipe="object_detection", settings={},
                   split={"kind": "given", "column": "part"})  # fmt: skip
    table = read_table(run.dir / "data/source.csv")
    assert table.columns["part"] == ["train"] * 24 + ["validation"] * 6
    assert "The boxes are those of 2 files" in table.warnings[0]
    assert audit(table)["split"]["column"] == "part"
    assert run.prepare_here() == 0
    assert (len(run.rows("data/train.csv")), len(run.rows("data/test.csv"))) == (24, 6)


@pytest.mark.parametrize(
    "names", ["names: [cat, dog]\n", "nc: 2\nnames:\n  0: cat\n  1: 'dog'\n", "names:\n- cat\n- dog\n"]
)
def test_label_files_of_yolo_are_boxes(names: str, tmp_path: Path) -> None:
    files = {"images/train/a.png": DOT, "images/val/b.png": OTHER, "data.yaml": f"path: x\n{names}",
             "labels/train/a.txt": "1 0.5 0.5 0.2 0.4\n0 0.1 0.1 0.2 0.2\n",
             "labels/val/b.txt": "0 0 0 0.5 0 0.5 0.5\n"}  # fmt: skip
    (tmp_path / "a.zip").write_bytes(archive(files))
    table = read_table(tmp_path / "a.zip")
    first, second = (json.loads(cell) for cell in table.columns["boxes"])
    assert first == [{"label": "dog", "box": [4.0, 3.0, 2.0, 4.0]}, {"label": "cat", "box": [0.0, 0.0, 2.0, 2.0]}]
    assert second == [{"label": "cat", "box": [0.0, 0.0, 6.0, 5.0]}]  # around an outline
    assert table.columns["part"] == ["train", "validation"]


def read(tmp_path: Path, table: str) -> Table:
    (tmp_path / "a.zip").write_bytes(archive({"a.png": DOT, "b.png": OTHER, "boxes.csv": table}))
    return read_table(tmp_path / "a.zip")


@pytest.mark.parametrize(
    "table",
    [
        "file,class,xmin,ymin,xmax,ymax\na.png,cat,1,2,4,6\na.png,dog,0,0,5,5\nb.png,cat,0,0,2,2\n",
        'file,class,bbox\na.png,cat,"[1, 2, 3, 4]"\na.png,dog,"[0, 0, 5, 5]"\nb.png,cat,"[0, 0, 2, 2]"\n',
        "file,class,x,y,width,height\na.png,cat,1,2,3,4\na.png,dog,0,0,5,5\nb.png,cat,0,0,2,2\n",
    ],
)
def test_a_csv_has_a_row_a_box(table: str, tmp_path: Path) -> None:
    found = read(tmp_path, table)
    assert found.warnings == []  # an image with two boxes is no copy
    images = by_image(found, "class")
    assert json.loads(images.columns["boxes"][0]) == [
        {"label": "cat", "box": [1.0, 2.0, 3.0, 4.0]}, {"label": "dog", "box": [0.0, 0.0, 5.0, 5.0]},
    ]  # fmt: skip
    report = audit(found)
    assert (report["suggested_task"], report["suggested_target"]) == ("object_detection", "class")
    assert "3 boxes on 2 images: 2 × cat, 1 × dog" in report["target"]["about"]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("file,class,xmin,ymin,xmax,ymax\na.png,cat,4,2,1,6\nb.png,cat,0,0,2,2\n", "Line 2: the box .* has no size"),
        ("file,class,xmin,ymin,xmax,ymax\na.png,cat,1,2,x,6\nb.png,cat,0,0,2,2\n", "Line 2: .* must be four numbers"),
        ("file,class,xmin,ymin,xmax,ymax\na.png,cat,1,2,4,6\nb.png,,0,0,2,2\n", "Line 3: “class” is empty"),
        ("file,class\na.png,cat\nb.png,dog\n", "No columns say where the boxes are"),
    ],
)
def test_bad_boxes_get_a_sentence(table: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(BadData, match=said):
        by_image(read(tmp_path, table), "class")


def test_of_boxes_at_one_place_the_surest_is_said() -> None:
    boxes = [{"label": label, "box": [0, 0, 10, side], "score": score}
             for label, side, score in (("a", 10, 0.5), ("b", 9, 0.8), ("c", 3, 0.4), ("d", 5, 0.1))]  # fmt: skip
    assert [box["label"] for box in sure(boxes)] == ["b", "c"]


def test_a_transformer_of_a_folder_learns_and_is_loaded_again(tmp_path: Path) -> None:
    from transformers import YolosConfig, YolosForObjectDetection
    from transformers.models.yolos.image_processing_pil_yolos import YolosImageProcessorPil

    config = YolosConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=[32, 32],
        num_detection_tokens=4, num_labels=3,
    )  # fmt: skip
    YolosForObjectDetection(config).save_pretrained(tmp_path / "yolos")
    YolosImageProcessorPil().save_pretrained(tmp_path / "yolos")
    settings = network_settings({"model": str(tmp_path / "yolos"), "image_size": 32})
    detector = build([], ["bar", "square"], settings, seed=1)
    image = np.full((1, 32, 32, 3), 90, np.uint8)
    wanted = [(np.array([[0.1, 0.1, 0.5, 0.5]]), np.array([1]))]
    learner = BoxLearner(detector, image, wanted, image, lambda _found: {}, shift=0.0)
    loss = learner.loss(np.array([0]))
    loss.backward()
    assert float(loss.detach()) > 0
    save(detector, settings, tmp_path / "network")
    look = {"size_px": 32, "mean": list(detector.look.mean), "spread": list(detector.look.spread)}
    about = {"kind": "transformer", "file": "network", "classes": detector.classes, **look}
    again = load_detector(tmp_path, about)
    assert np.allclose(again.found(image)[0][0], detector.found(image)[0][0], atol=1e-5)


def test_map_is_that_of_coco() -> None:
    truth = [[{"label": "a", "box": [0, 0, 10, 10]}], [{"label": "a", "box": [5, 5, 10, 10]}]]
    exact = [[{**box, "score": 0.9} for box in boxes] for boxes in truth]
    assert Matched(truth, exact).scores() == {"map": 1.0, "map50": 1.0}
    half = [exact[0], [{"label": "a", "box": [5, 5, 10, 6], "score": 0.5}]]  # overlaps by 0.6: right at 0.5 to 0.6
    found = Matched(truth, half).scores()
    assert found["map50"] == pytest.approx(1.0)
    assert 0.5 < found["map"] < 0.7
    assert Matched(truth, [[], []]).scores() == {"map": 0.0, "map50": 0.0}
    assert Matched(truth, half).by_label(np.array([0, 0])).mean() == pytest.approx(1.0)


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    settings = {"epochs": 15, "width": 8, "batch_size": 8}
    run = make_run(
        tmp_path_factory.mktemp("shapes"), squares(60), "boxes", recipe="object_detection", settings=settings
    )
    run.all_steps_here()
    return run


def test_shapes_are_found_where_they_are(shapes: RunFolder) -> None:
    card = Scorecard.model_validate(shapes.json("scorecard.json"))
    assert (card.metric, card.higher_is_better, card.test_rows) == ("map", True, 12)
    assert [score.name for score in card.baselines] == ["mean_box"]
    assert card.model.value > card.baselines[0].value + 0.1
    assert card.not_kept == ()
    assert card.all_metrics["map50"] > 0.5
    assert card.interval is not None


def test_no_box_of_the_test_part_lies_in_the_run(shapes: RunFolder) -> None:
    assert set(shapes.rows("data/test.csv")[0]) == {"row_id", "image"}
    assert not (shapes.dir / "data/source.csv").exists()


def test_pictures_show_labels_and_boxes(shapes: RunFolder) -> None:
    found = Results.model_validate(shapes.json("results.json")).found
    assert found.kind == "pictured"
    assert [shown.view for shown in found.pictures] == ["classes", "boxes"]
    samples = found.pictures[1].picture
    assert samples.kind == "images"
    assert any(box.truth for box in samples.tiles[0].boxes)


def test_the_finished_model_finds_boxes_on_an_image(shapes: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "new.zip").write_bytes(squares(4))
    out = tmp_path / "out.csv"
    assert predict_here([str(tmp_path / "new.zip"), "--out", str(out)], shapes.dir / "artifacts") == 0
    with out.open() as file:
        found = [json.loads(row["prediction"]) for row in csv.DictReader(file)]
    assert found[0]
    assert {"label", "box", "score"} == set(found[0][0])
    images = json.loads((tmp_path / "out.images.json").read_text())
    assert images[0]["size"] == [64, 64]


async def test_a_served_detector_hands_small_images_over_with_its_boxes(shapes: RunFolder) -> None:
    transport = httpx.ASGITransport(make_app(shapes.dir / "artifacts", digests=()))
    async with httpx.AsyncClient(transport=transport, base_url="http://model") as client:
        answer = await client.post("/predict/file?pictures=true&name=new.zip", content=squares(2))
    assert answer.status_code == 200, answer.text
    assert [picture["size"] for picture in answer.json()["pictures"]] == [[64, 64], [64, 64]]
    assert len(answer.json()["csv"].splitlines()) == 3


def test_a_finished_training_goes_on_from_its_last_step(shapes: RunFolder, tmp_path: Path) -> None:
    run = shapes.copy(tmp_path)
    before = run.rows("predictions/model.csv")
    assert run.train_here() == 0
    assert run.rows("predictions/model.csv") == before
