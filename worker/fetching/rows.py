"""`python -m worker.fetching.rows FOLDER [--config C] [--split S] [--name N]`: one file out of a data set's folder.

Runs in the sandbox, without network: the files are a stranger's. Prints what it made as JSON. Rows go to Parquet;
rows of which a column is an image go to a zip of images and a csv. Where nobody asked for one part, the official ones
are taken together, and a column says which row is of which. Exits as the other scripts do on bad data.
"""

import argparse
import csv
import io
import json
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BAD_DATA_EXIT = 65  # as `worker.supervisor.exits` has it; this script imports nothing of ours
_TRAINING = ("train", "training")
_MEASURING = ("test", "validation", "valid", "val", "dev")
_BOXES, _LABELS = ("bbox", "bboxes", "box", "boxes"), ("category", "categories", "label", "labels", "class", "name")


class BadData(Exception):
    """The folder cannot be used; the message is a sentence for people."""


def main() -> None:
    """Make the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--config", default="")
    parser.add_argument("--split", default="")
    parser.add_argument("--name", default="data")
    asked = parser.parse_args()
    try:
        print(json.dumps(made(asked.folder, asked.name, config=asked.config, split=asked.split)))
    except BadData as error:
        print(json.dumps({"error": str(error)}))
        sys.exit(BAD_DATA_EXIT)


def made(folder: Path, name: str, *, config: str, split: str) -> dict[str, Any]:
    """Write `rows.parquet` or `images.zip` beside; its path, rows, the part that it is if only one, and what to say."""
    import datasets

    datasets.disable_progress_bars()
    try:
        configs = datasets.get_dataset_config_names(str(folder))
        chosen = config or ("default" if "default" in configs else configs[0])
        if chosen not in configs or (not config and len(configs) > 1 and "default" not in configs):
            raise BadData(f"{name} has {len(configs)} configurations. Say which: {', '.join(configs[:30])}.")
        found = datasets.load_dataset(str(folder), chosen, cache_dir=str(Path.cwd() / "cache"))
    except (datasets.exceptions.DatasetsError, ValueError, OSError, RuntimeError) as error:
        raise BadData(f"{name} cannot be read as a data set: {str(error).splitlines()[0][:300]}") from error
    if split and split not in found:
        raise BadData(f"{name} has no part `{split}`. It has {', '.join(found)}.")
    parts = [split] if split else _official(found, datasets)
    rows = {part: found[part] for part in parts}
    features = rows[parts[0]].features
    images = [column for column, kind in features.items() if isinstance(kind, datasets.Image)]
    path, left_out = _zipped(rows, images[0], datasets) if images else (_parquet(rows, datasets), [])
    return {
        "file": path,
        "rows": sum(map(len, rows.values())),
        "split": parts[0] if len(parts) == 1 else "",
        "said": _said(parts, [other for other in found if other not in parts], left_out),
    }


def _official(found: Mapping[str, Any], datasets: Any) -> list[str]:
    """The training part with those that it is measured on, where they have the same columns and their labels."""
    first = next(part for part in (*_TRAINING, *found) if part in found)
    alike = [
        part
        for part in _MEASURING
        if part in found and found[part].features == found[first].features and _is_labelled(found[part], datasets)
    ]
    return [first, *alike] if first in _TRAINING else [first]


def _is_labelled(rows: Any, datasets: Any) -> bool:
    """Whether its classes are known: a competition's are often kept back, as -1."""
    classes = [column for column, kind in rows.features.items() if isinstance(kind, datasets.ClassLabel)]
    return all(any(at is not None and at >= 0 for at in rows[column]) for column in classes)


def _said(parts: Sequence[str], others: Sequence[str], left_out: Sequence[str]) -> list[str]:
    """Sentences on what was taken and what not."""
    taken, rest = (" and ".join(f"`{part}`" for part in names) for names in (parts, others))
    said = [f"The parts {taken} were taken together; a column says which row is of which."] if len(parts) > 1 else []
    if others:
        said.append(f"The part {taken} was taken, not {rest}." if len(parts) == 1 else f"{rest} was not taken.")
    return said + ([f"Left out: {', '.join(left_out)}, which are neither values nor boxes."] if left_out else [])


def _part_column(names: Sequence[str]) -> str:
    return next(name for name in ("part", "split", "official_part") if name not in names)


def _parquet(rows: Mapping[str, Any], datasets: Any) -> str:
    """Class numbers become the names of the classes, and objects within a row columns of their own."""
    flat = {part: _with_names(one.flatten(), datasets) for part, one in rows.items()}
    if len(flat) > 1:
        column = _part_column(next(iter(flat.values())).column_names)
        flat = {part: one.add_column(column, [part] * len(one)) for part, one in flat.items()}
    datasets.concatenate_datasets(list(flat.values())).to_parquet("rows.parquet")
    return "rows.parquet"


def _with_names(rows: Any, datasets: Any) -> Any:
    for column, kind in list(rows.features.items()):
        if _has_classes(kind, datasets):
            words = [_named(kind, value, datasets) for value in rows[column]]
            rows = rows.remove_columns(column).add_column(column, words)
    return rows


def _has_classes(kind: Any, datasets: Any) -> bool:
    if isinstance(kind, dict):
        return any(_has_classes(one, datasets) for one in kind.values())
    return isinstance(kind, datasets.ClassLabel) or (hasattr(kind, "feature") and _has_classes(kind.feature, datasets))


def _named(kind: Any, value: Any, datasets: Any) -> Any:
    """A value with the names of its classes, in lists and objects too; None for a class that is not known."""
    if value is None:
        return None
    if isinstance(kind, datasets.ClassLabel):
        return kind.names[value] if value >= 0 else None
    if isinstance(kind, dict):
        return {key: _named(one, value[key], datasets) for key, one in kind.items()}
    if hasattr(kind, "feature"):
        return [_named(kind.feature, one, datasets) for one in value]
    return value


def _zipped(parts: Mapping[str, Any], image: str, datasets: Any) -> tuple[str, list[str]]:
    """The images as they are stored, and a csv that names them beside the other columns; the columns left out."""
    features = next(iter(parts.values())).features
    plain = [column for column, kind in features.items() if isinstance(kind, datasets.Value | datasets.ClassLabel)]
    boxed = _boxes_column(features)
    names = ["image", *plain, *(["boxes"] if boxed else []), *([_part_column(plain)] if len(parts) > 1 else [])]
    lines: list[list[Any]] = []
    boxes: list[list[dict[str, Any]]] = []
    sizes: list[tuple[int, int]] = []
    with zipfile.ZipFile("images.zip", "w") as archive:
        for part, rows in parts.items():
            for row in rows.cast_column(image, datasets.Image(decode=False)):
                data = row[image]["bytes"] or Path(row[image]["path"]).read_bytes()
                entry = f"{len(lines):06d}{_ending(data)}"
                archive.writestr(entry, data)
                lines.append([entry, *(_named(features[column], row[column], datasets) for column in plain), part])
                if boxed:
                    boxes.append(_boxes(features[boxed], row[boxed], datasets))
                    sizes.append(_size(data))
        if boxed:
            written = [json.dumps(one, ensure_ascii=False) for one in _with_sides(boxes, sizes)]
            lines = [[*line[:-1], cell, line[-1]] for line, cell in zip(lines, written, strict=True)]
        text = io.StringIO(newline="")
        csv.writer(text).writerows([names, *(line[: len(names)] for line in lines)])
        archive.writestr("labels.csv", text.getvalue())
    return "images.zip", [column for column in features if column not in {image, boxed, *plain}]


def _boxes_column(features: Mapping[str, Any]) -> str:
    """The column of objects with a box and a class each; empty where there is none."""
    for column, kind in features.items():
        if _keys(kind) is not None:
            return column
    return ""


def _keys(kind: Any) -> tuple[str, str] | None:
    """Under which names objects have their box and their class."""
    inner = kind if isinstance(kind, dict) else getattr(kind, "feature", None)
    if not isinstance(inner, dict):
        return None
    box, label = (next((name for name in names if name in inner), None) for names in (_BOXES, _LABELS))
    return (box, label) if box and label else None


def _boxes(kind: Any, objects: Any, datasets: Any) -> list[dict[str, Any]]:
    """The boxes of one image, whether its objects are an object of lists or a list of objects."""
    box, label = _keys(kind) or ("", "")
    named = _named(kind, objects, datasets) or {box: [], label: []}
    pairs = (
        zip(named[box], named[label], strict=True) if isinstance(named, dict) else [(o[box], o[label]) for o in named]
    )
    return [{"label": str(name), "box": [float(side) for side in sides]} for sides, name in pairs]


def _with_sides(boxes: list[list[dict[str, Any]]], sizes: Sequence[tuple[int, int]]) -> list[list[dict[str, Any]]]:
    """Boxes as left, top, width and height. They are corners where widths and heights would leave their images."""

    def leaves(one: dict[str, Any], size: tuple[int, int]) -> bool:
        left, top, width, height = one["box"]
        return bool(left + width > size[0] + 1 or top + height > size[1] + 1)

    outside = any(leaves(one, size) for each, size in zip(boxes, sizes, strict=True) for one in each)
    if outside and all(
        one["box"][2] >= one["box"][0] and one["box"][3] >= one["box"][1] for each in boxes for one in each
    ):
        for each in boxes:
            for one in each:
                left, top, right, bottom = one["box"]
                one["box"] = [left, top, right - left, bottom - top]
    return boxes


def _size(data: bytes) -> tuple[int, int]:
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        return int(image.width), int(image.height)


def _ending(data: bytes) -> str:
    return ".jpg" if data.startswith(b"\xff\xd8") else ".webp" if data[8:12] == b"WEBP" else ".png"


if __name__ == "__main__":
    main()
