"""Letters: which fonts, which characters they have, how wide a text is, how to shorten it.

Knows matplotlib's fonts and ours (`fonts/`), nothing of charts. A character that no font has becomes a box, so nothing
warns or fails.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

from matplotlib import font_manager
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties

_MAIN = "DejaVu Sans"  # ships with matplotlib, so Latin, Greek, Cyrillic and Arabic look the same everywhere
_OURS = Path(__file__).parent / "fonts" / "trainyard-cjk.otf"  # the usual characters of Chinese, Japanese and Korean
_EASTERN = (
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans JP",
    "Noto Sans SC",
    "Source Han Sans",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "IPAexGothic",
    "IPAGothic",
    "Hiragino Sans",
    "PingFang SC",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
)
_MISSING = "□"
_LONGEST = 300  # characters; more cannot fit a line of any picture
_FLOWING = 2_000  # characters of a text of several lines
_BETWEEN_PX = 2.0  # of strokes above each other
ASCENT, DESCENT = 0.80, 0.26  # of the size, with room for accents


@dataclass(frozen=True, slots=True)
class Letters:
    """`size_px` is the font size in pixels of the picture."""

    size_px: float
    bold: bool = False


@cache
def families() -> tuple[str, ...]:
    """The main font, ours for East Asian texts, then the first installed one that may know rarer characters."""
    installed = {entry.name for entry in font_manager.fontManager.ttflist}
    found = [name for name in _EASTERN if name in installed][:1]
    if not _OURS.exists():
        return (_MAIN, *found)
    font_manager.fontManager.addfont(str(_OURS))
    ours = font_manager.fontManager.ttflist[-1]
    font_manager.fontManager.ttflist.append(replace(ours, weight=700))  # bold texts take its one weight
    return (_MAIN, ours.name, *found)


@lru_cache(maxsize=64)
def font(letters: Letters) -> FontProperties:
    """The same in matplotlib's words."""
    return FontProperties(family=list(families()), size=letters.size_px, weight="bold" if letters.bold else "normal")


@lru_cache(maxsize=2048)
def plain(text: str) -> str:
    """One line of characters that can be drawn: blanks folded, control characters and stacked accents dropped."""
    kept: list[str] = []
    for char in " ".join(text[:_LONGEST].split()):
        kind = unicodedata.category(char)
        if kind in {"Cc", "Cf", "Cs", "Co", "Me"} or (kind == "Mn" and _stacked(kept)):
            continue
        if ord(char) in _characters():
            kept.append(char)
        elif kind != "So":  # a pictograph that cannot be drawn is no loss; a letter is
            kept.append(_MISSING)
    return "".join(kept)


def width(text: str, letters: Letters) -> float:
    """Pixels from the first to the last stroke."""
    return _measured(text, letters)[0]


def pitch(texts: Sequence[str], letters: Letters, *, least: float) -> float:
    """Pixels that base lines have to be apart so that no two of these texts touch, `least` if that is more.

    Accents and other scripts reach higher or lower than Latin letters.
    """
    sizes = [_measured(text, letters) for text in texts]
    reach = max((above for _, above, _ in sizes), default=0.0) + max((below for *_, below in sizes), default=0.0)
    return max(least, reach + _BETWEEN_PX)


def shorten(text: str, letters: Letters, width_px: float) -> str:
    """The text, or its beginning and `…`, within `room_px`; empty when not even that fits."""
    text = plain(text)
    if width(text, letters) <= width_px:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if width(text[:middle].rstrip() + "…", letters) <= width_px else (low, middle - 1)
    return text[:low].rstrip() + "…" if low else ""


def tell_apart(names: Sequence[str], letters: Letters, width_px: float) -> list[str]:
    """Each name within `room_px`: its beginning, or where several begin alike, both its ends or what is its own."""
    texts = [plain(name) for name in names]
    short = [shorten(text, letters, width_px) for text in texts]
    for cut in (_ends, _own):
        groups: dict[str, list[str]] = {}
        for text, said in zip(texts, short, strict=True):
            groups.setdefault(said, []).append(text)
        short = [
            cut(text, groups[said], letters, width_px) if len(set(groups[said])) > 1 else said
            for text, said in zip(texts, short, strict=True)
        ]
    return short


def _own(text: str, others: Sequence[str], letters: Letters, width_px: float) -> str:
    """From a little before the place where it differs from others."""
    first, last = min(others), max(others)
    shared = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return shorten("…" + text[max(0, shared - 2) :], letters, width_px)


def _ends(text: str, others: Sequence[str], letters: Letters, width_px: float) -> str:  # noqa: ARG001 - as `_own`
    """The beginning and the end of a text that is too long."""
    for kept in range(len(text) // 2, 0, -1):
        short = f"{text[:kept].rstrip()}…{text[-kept:].lstrip()}"
        if width(short, letters) <= width_px:
            return short
    return shorten(text, letters, width_px)


def wrap(parts: list[str], letters: Letters, width_px: float, *, lines: int, joint: str = " ") -> list[str]:
    """The parts on at most `lines` lines, joined by `joint`; the last line is shortened."""
    rest, done = [plain(part) for part in parts], list[str]()
    while rest and len(done) < lines - 1:
        count = 1
        while count < len(rest) and width(joint.join(rest[: count + 1]), letters) <= width_px:
            count += 1
        done.append(shorten(joint.join(rest[:count]), letters, width_px))
        rest = rest[count:]
    return [*done, shorten(joint.join(rest), letters, width_px)] if rest else done


def flow(text: str, letters: Letters, width_px: float, *, lines: int) -> list[str]:
    """The text on at most `lines` lines, broken at blanks, and inside of words that are longer than a line."""
    words: list[str] = []
    for part in text[:_FLOWING].split():
        word = plain(part)
        while width(word, letters) > width_px and len(word) > 1:
            head = shorten(word, letters, width_px + width("…", letters)).removesuffix("…") or word[0]
            head = head if head != word else word[:-1]
            words.append(head)
            word = word[len(head) :]
        words.append(word)
    return wrap([word for word in words if word], letters, width_px, lines=lines)


def _stacked(kept: list[str]) -> bool:
    """Whether the letter before already wears two accents."""
    return len(kept) >= 2 and all(unicodedata.category(c) == "Mn" for c in kept[-2:])


@cache
def _characters() -> frozenset[int]:
    """Code points that some font of ours has, in both weights."""
    found: set[int] = set()
    for name in families():
        maps = [
            set(font_manager.get_font(font_manager.findfont(FontProperties(family=name, weight=weight))).get_charmap())
            for weight in ("normal", "bold")
        ]
        found |= maps[0] & maps[1]
    return frozenset(found)


@lru_cache(maxsize=4096)
def _measured(text: str, letters: Letters) -> tuple[float, float, float]:
    """Pixels of the strokes: how wide they are, how far they reach above and below the base line."""
    if not text:
        return 0.0, 0.0, 0.0
    size = _ruler().get_text_width_height_descent(text, font(letters), False)  # type: ignore[no-untyped-call]
    wide, high, below = (float(length) for length in size)
    return wide, high - below, below


@cache
def _ruler() -> RendererAgg:
    return RendererAgg(1, 1, 72)  # type: ignore[no-untyped-call]
