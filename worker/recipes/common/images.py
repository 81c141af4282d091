"""A table out of an archive of images, of texts or of one table, or of one image. Copied beside a model.

What an archive says of its files is found by its content: boxes (`annotations`), a table with a column of file names,
or a folder for each class. Columns are `image` (the name in the archive) and, where there are classes, `label`. Where
folders or tables are called train and test, a column `part` says so.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from worker.recipes.common.annotations import (
    FORM,
    IMAGE,
    PART,
    by_name,
    coco_boxes,
    key_of,
    lost_words,
    part_of,
    yolo_boxes,
)
from worker.recipes.common.formats import BadData, Cells
from worker.recipes.common.numerals import counted

LABEL, TEXT = "label", "text"
ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff"})
MOST_IMAGES = 200_000
MOST_PIXELS = 100_000_000
_MOST_BYTES = 50_000_000  # of one image
_TEXTS = frozenset({".txt", ".md", ".text"})
_TABLES = frozenset({".csv", ".tsv", ".jsonl", ".parquet", ".xlsx"})
_PARTS = frozenset({"train", "training", "test", "testing", "val", "valid", "validation", "dev", "images", "data"})
_MOST_BROKEN = 0.05
_FEWEST_LINES = 20  # of two texts that lie side by side
_NAMED = re.compile(r"([^\W\d_]+)[ ._-]*\d+")  # dog.12, cat_3
_MAGIC = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\x00", b"MM\x00*", b"RIFF")

Read = Callable[[bytes, str], Cells]


def is_image(head: bytes) -> bool:
    """Whether a file that begins so is an image."""
    return head.startswith(_MAGIC) and (not head.startswith(b"RIFF") or head[8:12] == b"WEBP")


def of_image(path: Path, name: str) -> Cells:
    """One image as a table of one row. Raises: BadData."""
    if _broken(path.read_bytes()):
        raise BadData(f"{name} begins like an image, but cannot be read as one.")
    return Cells([IMAGE], [[name]], [1], FORM, [])


def of_archive(path: Path, name: str, limit_bytes: int, read_table: Read) -> Cells:
    """The files of an archive with what is said of them. `read_table` reads a table in it. Raises: BadData."""
    try:
        with zipfile.ZipFile(path) as archive:
            parts = {part.filename: part for part in archive.infolist() if _counts(part)}
            size = sum(part.file_size for part in parts.values())
            if size > limit_bytes:
                raise BadData(f"{name} unpacks to {size / 1e6:,.0f} MB; the limit is {limit_bytes / 1e6:,.0f} MB.")
            images = [file for file in parts if PurePosixPath(file).suffix.lower() in ENDINGS]
            if not images:
                return _without_images(archive, list(parts), name, read_table)
            if len(images) > MOST_IMAGES:
                raise BadData(f"{name} holds {len(images):,} images; the limit is {MOST_IMAGES:,}.")
            broken = {file for file in images if parts[file].file_size > _MOST_BYTES or _broken(archive.read(file))}
            said = _left_out(name, images, broken)
            whole = [file for file in images if file not in broken]
            cells = _described(archive, list(parts), whole, name, read_table)
            return Cells(cells.names, cells.rows, cells.lines, FORM, [*said, *cells.warnings, *_twice(parts, cells)])
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise BadData(f"{name} is a zip archive that cannot be read: {error}.") from error


def unpack(source: Path, names: Sequence[str], folder: Path, *, numbers: Sequence[int] | None = None) -> list[str]:
    """Write the named images into `folder` under numbers, so that no name tells a class; the paths that they got."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    with source.open("rb") as file:
        alone = is_image(file.read(16))
    archive = None if alone else zipfile.ZipFile(source)
    try:
        for at, name in enumerate(names):
            data = source.read_bytes() if archive is None else archive.read(name)
            path = folder / f"{at if numbers is None else numbers[at]:06d}{PurePosixPath(name).suffix.lower()}"
            path.write_bytes(data)
            found.append(str(path))
    finally:
        if archive is not None:
            archive.close()
    return found


def contents(source: Path) -> dict[str, tuple[int, int]]:
    """What tells the files of an archive apart by their content: checksum and size. One image alone has none."""
    if not zipfile.is_zipfile(source):
        return {}
    with zipfile.ZipFile(source) as archive:
        return {part.filename: (part.CRC, part.file_size) for part in archive.infolist()}


def opened(data: bytes | Path) -> Any:
    """The image, turned as its camera was held, in RGB. Raises: OSError, ValueError."""
    from PIL import Image, ImageOps

    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        image = Image.open(io.BytesIO(data) if isinstance(data, bytes) else data)
        if image.width * image.height > MOST_PIXELS:
            raise ValueError("too many pixels")
        return _in_rgb(ImageOps.exif_transpose(image))


def _in_rgb(image: Any) -> Any:
    """Grey values of more than 8 bits are scaled, where Pillow would cut them; what is transparent becomes white."""
    from PIL import Image

    if image.mode.startswith(("I", "F")):
        wide = image.convert("F")
        scale = 1 / 257 if wide.getextrema()[1] > 255 else 1.0
        return wide.point(lambda value: value * scale + 0).convert("L").convert("RGB")
    if image.has_transparency_data:
        below = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(below, image.convert("RGBA")).convert("RGB")
    return image.convert("RGB")


def _counts(part: zipfile.ZipInfo) -> bool:
    """Whether a member is a file that people mean."""
    path = PurePosixPath(part.filename)
    hidden = any(piece.startswith((".", "__MACOSX")) for piece in path.parts)
    return not part.is_dir() and not hidden


def _broken(data: bytes) -> bool:
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data)) as image:
                if image.width * image.height > MOST_PIXELS:
                    return True
                image.draft("RGB", (64, 64))  # a JPEG is decoded small; of others it changes nothing
                image.load()
    except Exception:  # noqa: BLE001 - Pillow raises whatever a broken file makes its decoders stumble over
        return True
    return False


def _left_out(name: str, images: list[str], broken: set[str]) -> list[str]:
    if not broken:
        return []
    some = ", ".join(sorted(broken)[:3]) + (f" and {len(broken) - 3} more" if len(broken) > 3 else "")
    if (len(broken) > _MOST_BROKEN * len(images) and len(broken) > 1) or len(broken) == len(images):
        raise BadData(f"{name}: {len(broken)} of {len(images)} images cannot be read: {some}. Repair or remove them.")
    return [f"Left out, because they cannot be read as images: {some}."]


def _described(archive: zipfile.ZipFile, files: list[str], images: list[str], name: str, read_table: Read) -> Cells:
    described = sorted(files, key=lambda file: (len(PurePosixPath(file).parts), file))
    coco = coco_boxes(archive, [file for file in described if _ending(file) == ".json"], images, name)
    if coco is not None:
        return coco
    for file in described:
        if _ending(file) in _TABLES or _ending(file) == ".json":
            table = _joined(read_table(archive.read(file), PurePosixPath(file).name), images, f"{name}: {file}")
            if table is not None:
                return table
    return yolo_boxes(archive, files, images, name) or _folders(images)


def _ending(file: str) -> str:
    return PurePosixPath(file).suffix.lower()


def _without_images(archive: zipfile.ZipFile, files: list[str], name: str, read_table: Read) -> Cells:
    """One table, or texts in folders. Raises: BadData where it is neither."""
    tables = [file for file in files if _ending(file) in _TABLES]
    texts = sorted(file for file in files if _ending(file) in _TEXTS)
    if len(tables) == 1 and len(texts) < 2:
        return read_table(archive.read(tables[0]), PurePosixPath(tables[0]).name)
    parted = _tables_of_parts({file: part_of(file) for file in sorted(tables)}, archive, read_table)
    if parted is not None and len(texts) < 2:
        return parted
    lines = _side_by_side(archive, files)
    if lines is not None:
        return lines
    if len(texts) < 2:
        ending, count = Counter(map(_ending, files)).most_common(1)[0] if files else ("", 0)
        odd = f"Of its files {count} end with {ending}, which is not read. " if ending not in _TABLES | {""} else ""
        raise BadData(
            f"{name} holds no images, no folders of text files and not just one table. {odd}Send images as JPEG or "
            "PNG, one table as it is, or a folder of files for each class."
        )
    found = _folders(texts)
    if LABEL not in found.names:
        raise BadData(f"The text files of {name} lie in one folder: put those of each class into a folder of its own.")
    rows = [[archive.read(row[0]).decode("utf-8", errors="replace").strip(), *row[1:]] for row in found.rows]
    return Cells([TEXT, *found.names[1:]], rows, found.lines, "texts", found.warnings)


def _side_by_side(archive: zipfile.ZipFile, files: Sequence[str]) -> Cells | None:
    """Two texts of as many lines as columns, such as corpus.en and corpus.fr; None for other files."""
    if len(files) != 2 or any(_ending(file) in _TABLES for file in files):
        return None
    texts = [archive.read(file).decode("utf-8", errors="replace").splitlines() for file in files]
    if len(texts[0]) != len(texts[1]) or len(texts[0]) < _FEWEST_LINES:
        return None
    places = [PurePosixPath(file) for file in files]
    stems, endings = [place.stem for place in places], [place.suffix.removeprefix(".") for place in places]
    names = stems if stems[0] != stems[1] else endings
    rows = [[cell.strip() for cell in row] for row in zip(*texts, strict=True)]
    said = f"Line for line, {files[0]} and {files[1]} are read as pairs."
    return Cells(names, rows, list(range(1, len(rows) + 1)), "texts", [said])


def _tables_of_parts(parts: Mapping[str, str], archive: zipfile.ZipFile, read_table: Read) -> Cells | None:
    """Tables called train, test and the like as one, with a column that says which row is of which; None for others."""
    named = {file: part for file, part in parts.items() if part}
    if "train" not in named.values() or len(set(named.values())) < len(named):
        return None
    read = {part: read_table(archive.read(file), PurePosixPath(file).name) for file, part in named.items()}
    first = read["train"]
    other = [part for part, cells in read.items() if set(cells.names) != set(first.names)]
    said = [f"Only the training part is read: the columns of {', '.join(other)} are others."] if other else []
    said += [f"Not read: {', '.join(file for file in parts if file not in named)}."] if len(named) < len(parts) else []
    if other or PART in first.names:
        return Cells(first.names, first.rows, first.lines, first.form, [*first.warnings, *said], first.drawn_from)
    if len(read) == 1:
        return replace(first, warnings=[*first.warnings, *said])
    rows, lines = [], []
    for part, cells in read.items():
        order = [cells.names.index(name) for name in first.names]
        rows += [[*(row[at] for at in order), part] for row in cells.rows]
        lines += cells.lines
    drawn_from = sum(cells.drawn_from or len(cells.rows) for cells in read.values())
    said += [word for cells in read.values() for word in cells.warnings]
    return Cells([*first.names, PART], rows, lines, first.form, said, drawn_from if drawn_from > len(rows) else 0)


def _folders(images: list[str]) -> Cells:
    """A label for each file where they lie in several folders; also the part, where folders above are named like it."""
    folders = {file: list(PurePosixPath(file).parts[:-1]) for file in images}
    shared = 0
    while (
        all(len(path) > shared for path in folders.values()) and len({path[shared] for path in folders.values()}) == 1
    ):
        shared += 1
    parts, said = dict[str, str](), list[str]()
    first = {path[shared].lower() for path in folders.values() if len(path) > shared}
    if first and first <= _PARTS and any(len(path) > shared + 1 for path in folders.values()):
        folders, said = _with_classes(folders, shared)
        shared += 1
        parts = {file: path[shared - 1] for file, path in folders.items()}
    at = -1 if _again_below(list(folders.values()), shared) else shared
    labels = {file: path[at] if len(path) > shared else "" for file, path in folders.items()}
    numbers = list(range(1, len(folders) + 1))
    if len(set(labels.values())) < 2:
        return _named(images) or _without_labels(images)
    if len(set(parts.values())) > 1:
        return Cells([IMAGE, PART, LABEL], [[file, parts[file], labels[file]] for file in folders], numbers, FORM, said)
    return Cells([IMAGE, LABEL], [[file, labels[file]] for file in folders], numbers, FORM, said)


def _without_labels(images: list[str]) -> Cells:
    """Images of which nothing says what they show."""
    said = (
        "No labels are found: no table names the images, and they lie in one folder. To learn from them, put those of "
        "each class into a folder of its own, or add a csv of their names and labels."
    )
    return Cells([IMAGE], [[file] for file in images], list(range(1, len(images) + 1)), FORM, [said])


def _with_classes(folders: dict[str, list[str]], shared: int) -> tuple[dict[str, list[str]], list[str]]:
    """The files that lie in a folder of a class below that of their part, and the sentence on the others."""
    kept = {file: path for file, path in folders.items() if len(path) > shared + 1}
    bare = Counter(path[-1] if path else "" for file, path in folders.items() if file not in kept)
    said = [f"Left out, files of “{part}” that lie in no folder of a class: {count:,}." for part, count in bare.items()]
    return kept, said


def _again_below(paths: Sequence[Sequence[str]], shared: int) -> bool:
    """Whether the last folders have the same names in all folders above them, so that they are the classes."""
    below: dict[str, set[str]] = {}
    for path in paths:
        if len(path) < shared + 2:
            return False
        below.setdefault(path[shared], set()).add(path[-1])
    first = next(iter(below.values()), set())
    return len(below) > 1 and len(first) > 1 and all(names == first for names in below.values())


def _named(files: list[str]) -> Cells | None:
    """Files of one folder that are called after what they show, such as dog.12.jpg; None where they are not."""
    found = [_NAMED.fullmatch(PurePosixPath(file).stem) for file in files]
    labels = [match[1] for match in found if match]
    if len(labels) < len(files) or not 2 <= len(set(labels)) <= len(files) / 5:
        return None
    said = f"The labels are the beginnings of the files' names: {', '.join(sorted(set(labels))[:8])}."
    rows = [[file, label] for file, label in zip(files, labels, strict=True)]
    return Cells([IMAGE, LABEL], rows, list(range(1, len(files) + 1)), FORM, [said])


def _joined(table: Cells, images: list[str], name: str) -> Cells | None:
    """The table with the names of its images as they stand in the archive; None where no column names them."""
    places_by_name = by_name(images)
    for at, column in enumerate(table.names):
        if not table.rows or sum(
            key_of(row[at]) in places_by_name or row[at] in places_by_name for row in table.rows[:200]
        ) * 2 < min(200, len(table.rows)):
            continue
        places = [places_by_name.get(row[at]) or places_by_name.get(key_of(row[at])) for row in table.rows]
        lost = [(line, row[at]) for line, row, place in zip(table.lines, table.rows, places, strict=True) if not place]
        said = [*table.warnings, *lost_words(name, lost, len(table.rows))]
        others = [other for other in range(len(table.names)) if other != at]
        names = [IMAGE, *(table.names[other] for other in others)]
        kept = [(row, place, line) for row, place, line in zip(table.rows, places, table.lines, strict=True) if place]
        rows = [[place, *(row[other] for other in others)] for row, place, _ in kept]
        unnamed = len(images) - len({place for _, place, _ in kept})
        verb = "is" if unnamed == 1 else "are"
        said += [f"{unnamed} of {len(images)} images {verb} not named in “{column}” and left out."] if unnamed else []
        return Cells(names, rows, [line for _, _, line in kept], FORM, said)
    return None


def _twice(parts: Mapping[str, zipfile.ZipInfo], cells: Cells) -> list[str]:
    """What is said of images that are there twice, judged by checksum and size."""
    rows = {row[0]: row for row in cells.rows}  # an image may have several boxes, a row each
    same: dict[tuple[int, int], list[list[str]]] = {}
    for image, row in rows.items():
        same.setdefault((parts[image].CRC, parts[image].file_size), []).append(row)
    copies = len(rows) - len(same)
    if not copies:
        return []
    odd, torn = (_differing(list(same.values()), cells.names, column) for column in (LABEL, PART))
    again = counted(copies, "image is an exact copy", "images are exact copies")
    found = [f"{again} of another one; copies stay on one side of the split."]
    found += [f"{odd:,} of these have different answers: probably wrong labels."] if odd else []
    apart = f"{torn:,} of these stand in several parts: what is measured on them may be merely remembered."
    return found + ([apart] if torn else [])


def _differing(same: Sequence[Sequence[Sequence[str]]], names: Sequence[str], column: str) -> int:
    """Of how many images the copies differ in a column, if there is such a one."""
    if column not in names:
        return 0
    at = names.index(column)
    return sum(len({row[at] for row in rows}) > 1 for rows in same)
