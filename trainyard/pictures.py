"""What a training script shows beside its curves, as `pictures/NAME.json`: tables, points, lines, bars, images.

Part of a bundle; standard library only. Owns these files, how much of what is given fits into one, and how arrays
become images. Knows no platform: whoever reads the files (`agent.domain.pictures` has the same bounds) draws them.
Called by `trainyard.runtime.TrainingRuntime`, which turns whatever is raised here into a warning; its methods say what
each kind takes. Arrays are known by what they can do, and numpy is used only where the script has loaded it.
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from trainyard.images import NoPicture, encoded, listed

FOLDER = "pictures"
MOST_PICTURES = 20
MOST_BYTES = 2 * 1024 * 1024
MOST_POINTS, MOST_GROUPS = 2_000, 12
MOST_BARS, MOST_BINS, MOST_CLASSES = 60, 60, 51
MOST_ROWS, MOST_COLUMNS = 50, 12
MOST_CELL, MOST_NAME, MOST_TITLE = 600, 120, 160  # characters
MOST_IMAGES, MOST_BOXES = 12, 24
MOST_TEXTS, MOST_SPANS = 12, 60
_IMAGE_BYTES = 1_400_000  # of all images together: base64 makes a third more of them
_TEXTS = frozenset({"title", "x_label", "y_label", "row_label", "column_label", "unit"})
_ABOUT = _TEXTS | {"guide", "since", "most"}
_OTHERS = "others"

Picture = dict[str, Any]


def made(kind: str, given: Sequence[Any], about: Mapping[str, Any]) -> Picture:
    """A picture of one kind. Raises: NoPicture for what it cannot show, and what the values raise."""
    unknown = about.keys() - _ABOUT
    if unknown:
        raise NoPicture(f"there is no {', '.join(sorted(unknown))} to set in it")
    said = {
        key: text(value, MOST_TITLE if key == "title" else MOST_NAME) if key in _TEXTS else value
        for key, value in about.items()
    }
    return {**_KINDS[kind](*given), **said}


def write(run_dir: Path, name: str, picture: Mapping[str, Any], *, step: int) -> int:
    """Make `pictures/NAME.json` show this, in one piece; how many points, rows or images did not fit.

    Raises: NoPicture; OSError; TypeError and ValueError for what JSON has no form for.
    """
    tidy = tidied(name)
    folder = run_dir / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{tidy}.json"
    if not path.exists() and sum(1 for _ in folder.glob("*.json")) >= MOST_PICTURES:
        raise NoPicture(f"there are {MOST_PICTURES} pictures already, and more are not shown")
    shown = {**picture, "title": text(picture.get("title") or name, MOST_TITLE)}
    left_out = int(shown.get("left_out", 0))
    data = json.dumps({"step": step, "picture": shown}, default=_plain).encode()
    if len(data) > MOST_BYTES:
        raise NoPicture(f"it takes {len(data):,} bytes; {MOST_BYTES:,} are the most")
    aside = folder / f".{tidy}.{os.getpid()}"
    try:
        aside.write_bytes(data)
        aside.replace(path)
    except OSError:  # a full disk
        aside.unlink(missing_ok=True)
        raise
    return left_out


def tidied(name: str) -> str:
    """A name as files, commands and buttons can hold it: `Residuals (test)` -> `residuals-test`."""
    return re.sub(r"[^a-z0-9_]+", "-", str(name).lower()).strip("-_")[:32].strip("-_") or "picture"


def text(value: Any, most: int = MOST_NAME) -> str:
    """A value as text: six digits of a number, nothing of None, cut where it is too long."""
    if value is None:
        return ""
    if hasattr(value, "item") and not isinstance(value, str) and getattr(value, "size", 1) == 1:
        value = value.item()
    said = f"{value:.6g}" if isinstance(value, float) else str(value)[: 2 * most]
    said = said.encode("utf-8", "replace").decode()  # half of a character has no bytes
    return said if len(said) <= most else said[: most - 1] + "…"


def table(columns: Sequence[Any], rows: Iterable[Sequence[Any]], marks: Sequence[str] = ()) -> Picture:
    """Rows of text, the first fifty of them."""
    every = [list(listed(row)) for row in listed(rows)]
    wide, marks = len(columns), list(marks)
    if not 1 <= wide <= MOST_COLUMNS or any(len(row) != wide for row in every):
        raise NoPicture(f"a table has 1 to {MOST_COLUMNS} columns, and each row a cell for each of them")
    if marks and len(marks) != len(every):
        raise NoPicture(f"there are {len(marks)} marks for {len(every)} rows")
    return {
        "kind": "table",
        "columns": [text(name) for name in columns],
        "rows": [[text(cell, MOST_CELL) for cell in row] for row in every[:MOST_ROWS]],
        "marks": marks[:MOST_ROWS],
        "left_out": max(0, len(every) - MOST_ROWS),
    }


def scatter(x: Any, y: Any, groups: Any = None, names: Any = None) -> Picture:
    """Points, by group where `groups` has one for each; of too many evenly chosen ones, small groups as one."""
    xs, ys = _numbers(x, "x"), _numbers(y, "y")
    of = [text(one) for one in listed(groups)] if groups is not None else [""] * len(xs)
    said = [text(one) for one in listed(names)] if names is not None else []
    if not len(xs) == len(ys) == len(of) or len(said) not in (0, len(xs)):
        raise NoPicture(f"there are {len(xs)} x, {len(ys)} y, {len(of)} groups and {len(said)} names")
    often = Counter(of)
    large = {name for name, _ in often.most_common(MOST_GROUPS if len(often) <= MOST_GROUPS else MOST_GROUPS - 1)}
    places: dict[str, list[int]] = {}
    for at, name in enumerate(of):
        places.setdefault(name if name in large else _OTHERS, []).append(at)
    share = 1.0 if len(xs) <= MOST_POINTS else (MOST_POINTS - MOST_GROUPS) / len(xs)  # each group keeps a point
    kept = {name: _evenly(at, max(1, int(len(at) * share))) for name, at in places.items()}
    return {
        "kind": "scatter",
        "groups": [
            {"name": name, "x": [xs[i] for i in at], "y": [ys[i] for i in at], "names": [said[i] for i in at if said]}
            for name, at in kept.items()
        ],
        "left_out": len(xs) - sum(map(len, kept.values())),
    }


def lines(given: Mapping[str, Any]) -> Picture:
    """Lines; of a long one the lowest and the highest of each stretch."""
    if not 1 <= len(given) <= MOST_GROUPS:
        raise NoPicture(f"there are {len(given)} lines; 1 to {MOST_GROUPS} can be shown")
    found, left_out = [], 0
    for name, line in given.items():
        columns = _line(name, line)
        at = _telling(columns["y"], MOST_POINTS // len(given))
        left_out += len(columns["y"]) - len(at)
        found.append({"name": text(name)} | {key: [one[i] for i in at] for key, one in columns.items()})
    return {"kind": "lines", "lines": found, "left_out": left_out}


def _line(name: str, given: Any) -> dict[str, list[float]]:
    """x, y and, where given, low and high of one line, all of one length."""
    parts = dict(given) if isinstance(given, Mapping) else {"y": given}
    y = _numbers(parts.pop("y", ()), f"y of {name}")
    columns = {"x": _numbers(parts.pop("x", range(len(y))), f"x of {name}"), "y": y}
    columns |= {key: _numbers(parts.pop(key), f"{key} of {name}") for key in ("low", "high") if key in parts}
    if parts or len(columns) == 3 or any(len(one) != len(y) for one in columns.values()):
        raise NoPicture(f"the line {name!r} must be y, or x, y, low and high of one length; low and high go together")
    return columns


def bars(names: Sequence[Any], values: Any, errors: Any = None) -> Picture:
    """One bar a name, or one of each group; the first sixty names."""
    said = [text(name) for name in listed(names)]
    groups = _groups(values)
    whiskers = {name: [abs(one) for one in _numbers(of, "errors")] for name, of in _groups(errors).items()}
    if (
        any(len(of) != len(said) for of in (*groups.values(), *whiskers.values()))
        or not whiskers.keys() <= groups.keys()
    ):
        raise NoPicture(f"there are {len(said)} names of bars, and not as many values or errors")
    return {
        "kind": "bars",
        "names": said[:MOST_BARS],
        "groups": [
            {"name": text(name), "values": of[:MOST_BARS], "errors": whiskers.get(name, [])[:MOST_BARS]}
            for name, of in groups.items()
        ],
        "left_out": max(0, len(said) - MOST_BARS),
    }


def histogram(values: Any, bins: int) -> Picture:
    """Counts of single values between edges that all groups share; what is not finite is left out."""
    given = _groups(values)
    groups = {name: [one for one in of if math.isfinite(one)] for name, of in given.items()}
    every = [one for of in groups.values() for one in of]
    if not every:
        raise NoPicture("there are no finite values")
    whole = all(one.is_integer() for one in every)
    edges = _edges(min(every), max(every), max(1, min(int(bins), MOST_BINS)), whole=whole)
    found = []
    for name, of in groups.items():
        counts = [0] * (len(edges) - 1)
        for one in of:
            counts[min(bisect_right(edges, one), len(counts)) - 1] += 1
        found.append({"name": text(name), "values": counts})
    left_out = sum(map(len, given.values())) - len(every)
    return {"kind": "histogram", "edges": edges, "groups": found, "left_out": left_out}


def matrix(counts: Any, rows: Sequence[Any], columns: Sequence[Any] | None) -> Picture:
    """Counts of what was said (columns) for what was true (rows)."""
    found = [_numbers(row, "counts") for row in listed(counts)]
    across = rows if columns is None else columns
    if len(found) != len(rows) or any(len(row) != len(across) for row in found):
        raise NoPicture(f"counts must have {len(rows)} rows of {len(across)} numbers")
    down, across = [text(name) for name in rows], [text(name) for name in across]
    others = max(len(down), len(across)) > MOST_CLASSES
    if others and down != across:
        raise NoPicture(f"there are {max(len(down), len(across))} classes; {MOST_CLASSES} are the most")
    if others:  # the most frequent ones, and the rest as one
        kept = sorted(sorted(range(len(down)), key=lambda i: -sum(found[i]))[: MOST_CLASSES - 1])
        rest = sorted({*range(len(down))} - {*kept})
        folded = [found[i] for i in kept] + [[sum(found[i][k] for i in rest) for k in range(len(down))]]
        found = [[row[k] for k in kept] + [sum(row[k] for k in rest)] for row in folded]
        down = across = [down[i] for i in kept] + [f"{len(rest)} others"]
    return {"kind": "matrix", "rows": down, "columns": across, "counts": found, "others": others}


def images(given: Iterable[Any], captions: Any = None, right: Any = None, boxes: Any = None) -> Picture:
    """A grid of the first twelve images."""
    every = list(given)
    tiles: list[Picture] = []
    bytes_each = _IMAGE_BYTES // max(1, min(len(every), MOST_IMAGES))
    each = _with_each("images", every, captions=captions, right=right, boxes=boxes)
    for image, caption, is_right, found in islice(each, MOST_IMAGES):
        data, size = encoded(image, bytes_each)
        tiles.append({
            "image": base64.b64encode(data).decode(),
            "caption": text(caption),
            "right": None if is_right is None else bool(is_right),
            "boxes": [_box(box, size) for box in list(() if found is None else found)[:MOST_BOXES]],
        })  # fmt: skip
    return {"kind": "images", "tiles": tiles, "left_out": len(every) - len(tiles)}


def texts(given: Iterable[Any], spans: Any = None, captions: Any = None, right: Any = None) -> Picture:
    """The first twelve texts with what is marked in them; a span beyond the end of a text is an error."""
    every = list(listed(given))
    passages: list[Picture] = []
    each = _with_each("texts", every, spans=spans, captions=captions, right=right)
    for said, found, caption, is_right in islice(each, MOST_TEXTS):
        whole = str(said)
        marked = [_span(span, len(whole)) for span in list(() if found is None else found)]
        passages.append({
            "text": text(whole, MOST_CELL),
            "spans": [span for span in marked if span["end"] <= MOST_CELL][:MOST_SPANS],
            "caption": text(caption),
            "right": None if is_right is None else bool(is_right),
        })  # fmt: skip
    return {"kind": "texts", "passages": passages, "left_out": len(every) - len(passages)}


def _with_each(what: str, every: Sequence[Any], **beside: Any) -> Iterable[tuple[Any, ...]]:
    """Each of some values with what is given beside it, None where nothing is. Raises: NoPicture for too few."""
    columns = {key: [None] * len(every) if of is None else list(of) for key, of in beside.items()}
    for key, of in columns.items():
        if len(of) != len(every):
            raise NoPicture(f"there are {len(every)} {what} and {len(of)} {key}")
    return zip(every, *columns.values(), strict=True)


def _span(given: Any, size: int) -> Picture:
    """Characters of a text of this size, and what they are."""
    about = dict(given) if isinstance(given, Mapping) else {"span": given[:2], "name": given[2] if given[2:] else ""}
    start, end = (int(place) for place in about.get("span", ()))
    if not 0 <= start < end <= size:
        raise NoPicture(
            f"a span is (start, end, name) in characters of its text, and {start} to {end} of {size} is none"
        )
    return {"start": start, "end": end, "name": text(about.get("name")), "truth": bool(about.get("truth", False))}


def _numbers(values: Any, what: str) -> list[float]:
    try:
        return [math.nan if one is None else float(one) for one in listed(values)]
    except (TypeError, ValueError, OverflowError) as error:
        raise NoPicture(f"{what} holds what is no number: {error}") from error


def _groups(values: Any) -> dict[str, list[float]]:
    """Values by group; those without a group have none."""
    if values is None:
        return {}
    given = values if isinstance(values, Mapping) else {"": values}
    if len(given) > MOST_GROUPS:
        raise NoPicture(f"there are {len(given)} groups; {MOST_GROUPS} are the most")
    return {str(name): _numbers(of, f"{name or 'values'}") for name, of in given.items()}


def _evenly(places: list[int], most: int) -> list[int]:
    """At most `most` of these, evenly chosen."""
    count = len(places)
    return places if count <= most else [places[i * count // most] for i in range(most)]


def _telling(y: list[float], most: int) -> list[int]:
    """Where the lowest and the highest value of each stretch are, and a gap: no peak is lost, and no gap is closed."""
    if len(y) <= most:
        return list(range(len(y)))
    found: set[int] = {0, len(y) - 1}
    stretches = max(1, (most - 2) // 3)
    for i in range(stretches):
        stretch = range(i * len(y) // stretches, (i + 1) * len(y) // stretches)
        known = [at for at in stretch if y[at] == y[at]] or list(stretch[:1])
        found |= {min(known, key=y.__getitem__), max(known, key=y.__getitem__)}
        found |= {next((at for at in stretch if y[at] != y[at]), stretch[0])}
    return sorted(found)


def _edges(low: float, high: float, bins: int, *, whole: bool) -> list[float]:
    """Edges of at most `bins` bins from `low` to `high`; whole numbers get whole edges."""
    if whole and abs(low) < 2**53 and abs(high) < 2**53:
        width = max(1, math.ceil((high - low + 1) / bins))
        return [low + width * i for i in range(math.ceil((high - low + 1) / width) + 1)]
    if low == high:
        low, high = low - 0.5, high + 0.5
    found = [low + (high / bins - low / bins) * i for i in range(bins)] + [high]
    rising = [found[0], *(b for a, b in pairwise(found) if b > a)]
    return rising if len(rising) > 1 and rising == sorted(set(rising)) else [low, math.nextafter(high, math.inf)]


def _plain(value: Any) -> Any:
    """What JSON does not know of a picture that a script made by itself."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _box(given: Any, size: tuple[int, int]) -> Picture:
    """A rectangle in pixels (left, top, right, bottom), in parts of an image of this size."""
    about = dict(given) if isinstance(given, Mapping) else {"box": given}
    corners = _numbers(about.get("box", ()), "a box")
    if len(corners) != 4:
        raise NoPicture(f"a box is (left, top, right, bottom) in pixels, and there are {len(corners)} numbers")
    parts = [corner / max(1, size[i % 2]) for i, corner in enumerate(corners)]
    score = about.get("score")
    return {
        "name": text(about.get("name")),
        **dict(zip(("left", "top", "right", "bottom"), parts, strict=True)),
        "truth": bool(about.get("truth", False)),
        "score": None if score is None else float(score),
    }


_KINDS: Mapping[str, Callable[..., Picture]] = {
    "table": table,
    "scatter": scatter,
    "lines": lines,
    "bars": bars,
    "histogram": histogram,
    "matrix": matrix,
    "images": images,
    "texts": texts,
}
