"""Boxes that lie in an archive beside its images: COCO files and YOLO label files. Copied beside a model.

They become a column `boxes` with a JSON list a row: `[{"label": …, "box": [x, y, width, height]}, …]`, in pixels. Where
several files are called after parts, such as train and val, a column `part` says which image is of which.
"""

from __future__ import annotations

import io
import json
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from worker.recipes.common.formats import BadData, Cells
from worker.recipes.common.numerals import counted

FORM = "images"
IMAGE, BOXES, PART = "image", "boxes", "part"
_MOST_LOST = 0.1
_PARTS = {"train": "train", "training": "train", "test": "test", "testing": "test", "val": "validation",
          "valid": "validation", "validation": "validation", "dev": "validation"}  # fmt: skip
_TURNED = 0x0112  # in EXIF, how the camera was held
_YOLO = re.compile(r"\s*\d+(\s+-?\d*\.?\d+(e-?\d+)?){4,}\s*", re.IGNORECASE)
_NAMES = re.compile(r"^names:\s*(\[[^\]]*\]|(?:\n[ \t]*(?:-|\d+\s*:).*)+)", re.MULTILINE)
Box = dict[str, Any]


def part_of(file: str) -> str:
    """The part that a file is of, by its name and its folders; empty where they say none or several."""
    found = {_PARTS[word] for word in re.findall(r"[a-z]+", file.lower()) if word in _PARTS}
    return found.pop() if len(found) == 1 else ""


def coco_boxes(archive: zipfile.ZipFile, files: Sequence[str], images: list[str], name: str) -> Cells | None:
    """The boxes of all COCO files of an archive; None where it has none. Raises: BadData."""
    rows: dict[str, list[Box]] = {}
    parts: dict[str, str] = {}
    said, read = list[str](), list[str]()
    for file in files:
        whole = _coco(archive.read(file))
        if whole is None:
            continue
        read.append(file)
        for image, boxes in _boxes_of(whole, images, f"{name}: {file}", said):
            rows.setdefault(image, []).extend(boxes)
            parts.setdefault(image, part_of(file))
    if len(read) > 1:
        said.append(f"The boxes are those of {len(read)} files: {', '.join(read[:5])}.")
    return _cells(rows, parts, said) if read else None


def _coco(data: bytes) -> dict[str, Any] | None:
    try:
        whole = json.loads(data)
    except ValueError:
        return None
    known = isinstance(whole, dict) and {"images", "annotations"} <= set(whole)
    return whole if known else None


def _boxes_of(
    whole: Mapping[str, Any], images: list[str], name: str, said: list[str]
) -> Iterator[tuple[str, list[Box]]]:
    """Each image of a COCO file with its boxes. Raises: BadData."""
    places, lost = by_name(images), list[tuple[int, str]]()
    try:
        boxes = _by_image(whole, name, said)
        for number, image in enumerate(whole["images"], start=1):
            file = str(image["file_name"])
            place = places.get(file) or places.get(key_of(file))
            if place is None:
                lost.append((number, file))
            else:
                yield place, boxes[image["id"]]
    except KeyError as error:
        raise BadData(f"{name} looks like COCO annotations, but an entry has no “{error.args[0]}”.") from error
    except (TypeError, ValueError) as error:
        raise BadData(f"{name} looks like COCO annotations, but cannot be read: {error}.") from error
    said += lost_words(name, lost, len(whole["images"]))


def _by_image(whole: Mapping[str, Any], name: str, said: list[str]) -> dict[Any, list[Box]]:
    """The boxes of each image by its id; sentences on what was left out. Raises: BadData."""
    labels = {category["id"]: str(category["name"]) for category in whole["categories"]}
    sizes = {image["id"]: (image.get("width"), image.get("height")) for image in whole["images"]}
    found: dict[Any, list[Box]] = {image: [] for image in sizes}
    counts: Counter[str] = Counter()
    largest = 0.0
    for note in whole["annotations"]:
        where, image, label = f"{name}: annotation {note.get('id')}", note["image_id"], note["category_id"]
        for known, key, group in ((sizes, image, "images"), (labels, label, "categories")):
            if key not in known:
                raise BadData(f"{where} names {key}, which “{group}” does not have.")
        if note.get("iscrowd"):
            counts["Left out, annotations of crowds (iscrowd)"] += 1
            continue
        box = _box_of(note, where)
        largest = max(largest, *box)
        kept = _cut(box, sizes[image], counts)
        found[image] += [{"label": labels[label], "box": kept}] if kept else []
    if 0 < largest <= 1:
        raise BadData(
            f"{name}: all boxes lie between 0 and 1; those of COCO are left, top, width and height in pixels."
        )
    said += [f"{words}: {count:,}." for words, count in counts.items()]
    return found


def _box_of(note: Mapping[str, Any], where: str) -> list[float]:
    """The box of an annotation, or the one around its outline. Raises: BadData."""
    outline = note.get("segmentation")
    if not note.get("bbox") and isinstance(outline, list) and outline:
        across = [float(side) for part in outline for side in part[::2]]
        down = [float(side) for part in outline for side in part[1::2]]
        return [min(across), min(down), max(across) - min(across), max(down) - min(down)]
    box = [float(side) for side in note["bbox"]]
    if len(box) != 4:
        raise BadData(f"{where} has the box {note['bbox']}; it needs four numbers.")
    return box


def _cut(box: list[float], size: tuple[Any, Any], counts: Counter[str]) -> list[float]:
    """The part of a box that lies in its image; empty where none does."""
    left, top, width, height = box
    if width <= 0 or height <= 0:
        counts["Left out, boxes without a width or a height"] += 1
        return []
    if not all(size):
        return box
    right, bottom = min(left + width, float(size[0])), min(top + height, float(size[1]))
    left, top = max(left, 0.0), max(top, 0.0)
    if right <= left or bottom <= top:
        counts["Left out, boxes outside of their image"] += 1
        return []
    if right - left < width - 1 or bottom - top < height - 1:
        counts["Cut at the edge of the image, boxes that reach beyond it"] += 1
    return [left, top, right - left, bottom - top]


def yolo_boxes(archive: zipfile.ZipFile, files: Sequence[str], images: list[str], name: str) -> Cells | None:
    """The boxes of label files of YOLO, one an image; None where half of the images have none. Raises: BadData."""
    labels = _label_files(archive, files, images)
    if len(labels) * 2 < len(images):
        return None
    names = _class_names(archive, files)
    rows = {}
    for image in images:
        lines = archive.read(labels[image]).decode("utf-8", "replace").splitlines() if image in labels else []
        size = _size(archive.read(image)) if lines else (1, 1)
        rows[image] = [_of_line(line, size, names, f"{name}: {labels[image]}") for line in lines if line.strip()]
    bare = len(images) - len(labels)
    said = [f"{counted(bare, 'image has', 'images have')} no label file, so no box."] if bare else []
    said += [] if names else ["No data.yaml or classes.txt names the classes; they are called by their numbers."]
    return _cells(rows, {image: part_of(image) for image in images}, said)


def _label_files(archive: zipfile.ZipFile, files: Sequence[str], images: list[str]) -> dict[str, str]:
    """The label file of each image: beside it, or in the folder labels where the image is in images."""
    texts = {str(PurePosixPath(file).with_suffix("")): file for file in files if file.lower().endswith(".txt")}
    found = {}
    for image in images:
        stem = str(PurePosixPath(image).with_suffix(""))
        beside = "labels".join(stem.rsplit("images", 1))
        file = texts.get(stem) or texts.get(beside)
        if file is not None:
            found[image] = file
    lines = [
        line
        for file in list(found.values())[:20]
        for line in archive.read(file).decode("utf-8", "replace").splitlines()
    ]
    return found if all(_YOLO.fullmatch(line) for line in lines if line.strip()) else {}


def _class_names(archive: zipfile.ZipFile, files: Sequence[str]) -> list[str]:
    """The names of the classes, in the order of their numbers; none where no file says them."""
    for file in files:
        if file.lower().endswith((".yaml", ".yml")):
            found = _NAMES.search(archive.read(file).decode("utf-8", "replace"))
            if found:
                listed = found[1].strip("[]").replace("\n", ",").split(",")
                return [re.sub(r"^\s*(-|\d+\s*:)", "", one).strip(" '\"\t") for one in listed if one.strip()]
        if PurePosixPath(file).name.lower() in {"classes.txt", "obj.names"}:
            return archive.read(file).decode("utf-8", "replace").split("\n")
    return []


def _of_line(line: str, size: tuple[int, int], names: Sequence[str], where: str) -> Box:
    """A box as YOLO writes it: class, middle and size as parts of the image; of an outline the box around it."""
    try:
        number, *sides = (float(word) for word in line.split())
    except ValueError:
        raise BadData(f"{where}: “{line.strip()[:60]}” is no class with the four numbers of a box.") from None
    if len(sides) < 4:
        raise BadData(f"{where}: “{line.strip()[:60]}” has no four numbers of a box.")
    if len(sides) > 5:
        across, down = sides[::2], sides[1::2]
        left, top, width, height = min(across), min(down), max(across) - min(across), max(down) - min(down)
    else:
        left, top, width, height = sides[0] - sides[2] / 2, sides[1] - sides[3] / 2, sides[2], sides[3]
    at = int(number)
    label = names[at].strip() if at < len(names) and names[at].strip() else f"class {at}"
    box = [left * size[0], top * size[1], width * size[0], height * size[1]]
    return {"label": label, "box": [round(side, 2) for side in box]}


def _size(data: bytes) -> tuple[int, int]:
    from PIL import Image, ImageOps

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(io.BytesIO(data)) as image:
            return ImageOps.exif_transpose(image).size if image.getexif().get(_TURNED) else image.size


def _cells(rows: Mapping[str, list[Box]], parts: Mapping[str, str], said: list[str]) -> Cells:
    """A row an image, with its part where each has one."""
    lines = list(range(1, len(rows) + 1))
    written = {image: json.dumps(boxes) for image, boxes in rows.items()}
    if len(set(parts.values())) > 1 and "" not in parts.values():
        return Cells(
            [IMAGE, PART, BOXES], [[image, parts[image], cell] for image, cell in written.items()], lines, FORM, said
        )
    return Cells([IMAGE, BOXES], [[image, cell] for image, cell in written.items()], lines, FORM, said)


def lost_words(name: str, lost: list[tuple[int, str]], rows: int) -> list[str]:
    """The sentence on rows whose image is not there. Raises: BadData where that is more than a tenth of them."""
    if not lost:
        return []
    line, missing = lost[0]
    more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
    if len(lost) > _MOST_LOST * rows:
        raise BadData(f"{name}, line {line}: there is no readable image “{missing}” in the archive{more}.")
    return [f"Left out, because there is no readable image: “{missing}” in line {line} of {name}{more}."]


def key_of(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).name


def by_name(images: list[str]) -> dict[str, str]:
    """The place of each image by its path, by its name alone, and by that without its ending, where that is clear."""
    found = {file: file for file in images}
    for shorten in (key_of, lambda file: PurePosixPath(file).stem):
        counts = Counter(shorten(file) for file in images)
        found |= {shorten(file): file for file in images if counts[shorten(file)] == 1 and shorten(file) not in found}
    return found
