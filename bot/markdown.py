"""Cuts CommonMark into messages of limited size, so that every piece reads well alone.

A code fence that must be cut is closed and opened again with its language, a table repeats its header, a list keeps
its items whole when it can, and no character (nor an emoji of several code points) is torn. Knows no chat platform:
the caller says how large a message may be and how it is measured. Used by the Slack and the Discord adapters.
HTML blocks are taken as plain text, as chat platforms do.
"""

import html
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

Measure = Callable[[str], int]

# How bad it is to begin a new message before an item; the smallest number wins, then the latest place.
BLOCK, NESTED, LINE, GLUED = 0, 1, 2, 9
GUARD = "\u200b"  # stops a line of prose from opening a fence
FENCE_LIKE = re.compile(r"^(?:[\s>]|[-*+]\s|\d{1,9}[.)]\s)*(?=```|~~~)")
CONTAINER = re.compile(r"^(?:[\s>]|[-*+](?=\s)|\d{1,9}[.)](?=\s))*")
JOINS = {0x200D, *range(0xFE00, 0xFE10), *range(0x1F3FB, 0x1F400)}  # glue and modifiers of emoji

CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]+`)", re.DOTALL)
LINK = re.compile(
    r"(!?)\[([^\[\]\n]{0,300})\]"
    r"(?:\(\s{0,9}<?((?:[^\s()<>]|\([^\s()<>]{0,200}\)){1,2000})>?[^()\n]{0,300}\)|\[[^\[\]\n]{0,100}\])"
)
ADDRESS = re.compile(r"^( {0,3}\[[^\[\]\n]{1,100}\]:)[ \t]*<?([^\s<>]{1,2000})>?[^\n]*$", re.MULTILINE)
BARE = re.compile(r"<([A-Za-z][A-Za-z0-9+.-]{1,30}:[^\s<>]{0,2000})>")
SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):")
SCHEMES = frozenset({"http", "https", "mailto"})


def without_traps(text: str) -> str:
    """CommonMark without remote pictures, and without links that are no web address: their words stay.

    A picture would be fetched from whoever a model, or a file that it read, names; a `javascript:` link would be run.
    """
    if "](" not in text and "][" not in text and "]:" not in text and "<" not in text:
        return text
    parts = CODE.split(text)
    return "".join(part if n % 2 else _without_traps(part) for n, part in enumerate(parts))


def _without_traps(text: str) -> str:
    text = LINK.sub(lambda link: link[2] if link[1] or not _is_web(link[3] or "") else link[0], text)
    text = ADDRESS.sub(lambda found: found[0] if _is_web(found[2]) else "", text)
    return BARE.sub(lambda found: found[0] if _is_web(found[1]) else found[1].partition(":")[2], text)


def _is_web(address: str) -> bool:
    """Whether an address is one of the web, or has no scheme at all."""
    readable = "".join(sign for sign in html.unescape(unquote(address)).lower() if sign.isprintable() and sign != " ")
    scheme = SCHEME.match(readable)
    return scheme is None or scheme[1] in SCHEMES


@dataclass(frozen=True, slots=True)
class _Frame:
    """What must surround a cut piece: a fence's marks, or a table's header (`closer` is then empty)."""

    opener: str
    again: str
    prefix: str = ""
    closer: str = ""


@dataclass(frozen=True, slots=True)
class _Item:
    """One line; `bare` is a fence line without the marks of the list or quote around it."""

    raw: str
    bare: str = ""
    frame: _Frame | None = None
    first: bool = False  # of its frame
    cut: int = LINE
    code: bool = False  # an indented code block

    @property
    def fenced(self) -> bool:
        return self.frame is not None and self.frame.closer != ""

    @property
    def blank(self) -> bool:
        return not self.fenced and not self.raw.strip()


def split(text: str, limit: int, measure: Measure = len) -> list[str]:
    """Pieces of at most `limit` by `measure` (characters unless told), in order; none for blank text.

    `measure` must not shrink when text is added. The pieces hold all of the text except blank space at the cuts.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    if not text.strip():
        return []
    if measure(text) <= limit and "```" not in text and "~~~" not in text:
        return [text]
    items = _items(text, limit, measure)
    if measure(whole := _render(items, 0, len(items))) <= limit:
        return [whole]
    return [piece for piece in _pieces(items, limit, measure) if piece.strip()]  # a line of blanks may be longer


def _items(text: str, limit: int, measure: Measure) -> list[_Item]:
    lines = text.split("\n")
    tokens = _parser().parse(text)
    cuts = _cuts(tokens, len(lines))
    items: list[_Item] = []
    framed = _framed(tokens, lines, limit, measure)
    code = {n for t in tokens if t.type == "code_block" and t.map for n in range(*t.map)}
    n = 0
    while n < len(lines):
        if n in framed:
            block, n_next = framed[n]
            items.append(replace(block[0], cut=cuts[n]))
            items.extend(block[1:])
            n = n_next
            continue
        items.append(_Item(lines[n] if n in code else _guarded(lines[n]), cut=cuts[n], code=n in code))
        n += 1
    return items


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # noqa: PLC0415 - short texts need none, and a start has none

    # Only the blocks matter here: not parsing what stands inside the lines takes half the time.
    return MarkdownIt("commonmark").enable("table").disable(["html_block", "inline"])


def _cuts(tokens: Sequence["Token"], n_lines: int) -> list[int]:
    """For every line, how bad a cut before it is."""
    cuts = [LINE] * n_lines
    after_heading = False
    for token in tokens:
        if token.map is None or token.type == "inline":
            continue
        start, end = token.map
        here = BLOCK if token.level == 0 else NESTED
        cuts[start] = GLUED if after_heading else min(cuts[start], here)
        after_heading = token.type == "heading_open"
        if after_heading:
            cuts[start + 1 : end] = [GLUED] * (end - start - 1)
    return cuts


def _framed(
    tokens: Sequence["Token"],
    lines: Sequence[str],
    limit: int,
    measure: Measure,
) -> dict[int, tuple[list[_Item], int]]:
    """Fences and tables by their first line: their items, and the line after them."""
    found: dict[int, tuple[list[_Item], int]] = {}
    for token in tokens:
        if token.map is None:
            continue
        start, end = token.map
        if token.type == "fence":
            block = _fence(token, lines)
        elif token.type == "table_open":
            block = _table(lines[start:end])
        else:
            continue
        frame = block[0].frame
        # A frame that leaves little room for what it frames is given up: its lines become prose.
        if frame and measure(frame.opener + frame.again + frame.prefix + frame.closer) > limit // 2:
            continue
        found[start] = (block, end)
    return found


def _fence(token: "Token", lines: Sequence[str]) -> list[_Item]:
    start = token.map[0] if token.map else 0
    opener = lines[start]
    matched = CONTAINER.match(opener)
    marks = matched.group() if matched else ""
    prefix = re.sub(r"[^\s>]", " ", marks)
    content = token.content.split("\n")[:-1] or [""]
    frame = _Frame(opener=opener, again=token.markup + token.info.rstrip(), prefix=prefix, closer=token.markup)
    raws = lines[start + 1 : start + 1 + len(content)] if token.content else [prefix.rstrip()]
    return [_Item(raw, bare, frame, first=n == 0) for n, (raw, bare) in enumerate(zip(raws, content, strict=True))]


def _table(lines: Sequence[str]) -> list[_Item]:
    header = "\n".join(lines[:2])
    rows = lines[2:]
    if not rows:
        return [_Item(header)]
    frame = _Frame(opener=header, again="\n".join(line.strip() for line in lines[:2]))
    return [_Item(row, row.strip(), frame, first=n == 0) for n, row in enumerate(rows)]


def _pieces(items: list[_Item], limit: int, measure: Measure) -> Iterator[str]:
    at = 0
    while True:
        while at < len(items) and items[at].blank:
            at += 1
        if at == len(items):
            return
        end = _end(items, at, limit, measure)
        if end == at:
            items[at : at + 1] = _torn(items[at], limit, measure)
            end = at + 1
        yield _render(items, at, end)
        at = end


def _end(items: Sequence[_Item], at: int, limit: int, measure: Measure) -> int:
    """Where the message that begins at `at` should end; `at` itself if not even one line fits."""

    def size(end: int) -> int:
        return measure(_render(items, at, end))

    last = _last(at, len(items), lambda end: size(end) <= limit)
    if last in {at, len(items)}:
        return last
    # A very short message is worse than any cut but a glued one.
    enough = _last(at, last, lambda end: size(end) < limit // 3) + 1
    best, best_cut, following = last, GLUED, _next_cut(items, last)
    for end in range(last, at, -1):
        if not items[end - 1].blank:
            cut = following if end >= enough else max(following, GLUED - 1)
            if cut < best_cut:
                best, best_cut = end, cut
            following = items[end - 1].cut
    return best


def _last(low: int, top: int, holds: Callable[[int], bool]) -> int:
    """The largest place up to `top` for which `holds`, or `low`; what holds for a place holds for all before it."""
    step = 1
    while low + step <= top and holds(low + step):  # few and small probes, however long the text is
        low, step = low + step, step * 2
    while step > 1:
        step //= 2
        if low + step <= top and holds(low + step):
            low += step
    return low


def _next_cut(items: Sequence[_Item], at: int) -> int:
    while at < len(items) and items[at].blank:
        at += 1
    return items[at].cut if at < len(items) else BLOCK


def _render(items: Sequence[_Item], start: int, end: int) -> str:
    """The items as one message, complete in itself."""
    while end > start and items[end - 1].blank:
        end -= 1
    out: list[str] = []
    loose = items[start].cut != BLOCK if start < end else False  # begins in the middle of a list, quote, paragraph …
    dedent = _indent(items[start]) if loose else 0
    frame: _Frame | None = None
    bare = False
    for item in items[start:end]:
        if item.cut == BLOCK:
            loose = False
        if item.frame is not frame:
            _close(out, frame, bare=bare)
            frame, bare = item.frame, loose or not item.first
            if frame:
                out.append(frame.again if bare else frame.opener)
        if frame:
            out.append(item.bare if bare else item.raw)
            continue
        if loose and item.raw.strip():
            dedent = min(dedent, _indent(item))
        out.append(_guarded(item.raw[dedent:]) if loose else item.raw)
    _close(out, frame, bare=bare)
    return "\n".join(out)


def _close(out: list[str], frame: _Frame | None, *, bare: bool) -> None:
    if frame and frame.closer:
        out.append(frame.closer if bare else frame.prefix + frame.closer)


def _indent(item: _Item) -> int:
    width = len(item.raw) - len(item.raw.lstrip(" "))
    return max(0, width - 4) if item.code else width


def _guarded(line: str) -> str:
    return FENCE_LIKE.sub(lambda found: found.group() + GUARD, line)


def _torn(item: _Item, limit: int, measure: Measure) -> list[_Item]:
    """An item that is too large alone, as a part that fits and the rest."""
    if item.frame and not item.fenced:  # a table row larger than a message: no table any more
        header = f"{item.frame.again}\n" if item.first else ""
        item = replace(item, frame=None, raw=header + item.raw.strip())
    text = item.bare if item.fenced else "\n".join(map(_guarded, item.raw.split("\n")))
    low, high = 1, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        fits = measure(_render([_part(item, text[:middle], first=item.first)], 0, 1)) <= limit
        low, high = (middle, high) if fits else (low, middle - 1)
    at = _seam(text, low, prose=not item.fenced)
    head = _part(item, text[:at], first=item.first)
    rest = text[at:] if item.fenced else text[at:].lstrip()
    return [head, replace(_part(item, rest, first=False), cut=LINE)] if rest else [head]


def _part(item: _Item, text: str, *, first: bool) -> _Item:
    if item.fenced:
        return replace(item, raw=text, bare=text, first=False)
    return replace(item, raw=text, first=first)


def _seam(text: str, at: int, *, prose: bool) -> int:
    """A place at or before `at` where a text may be cut: at a space in prose, never inside a character."""
    if prose:
        for place in range(at, at // 2, -1):
            if place < len(text) and text[place].isspace() and text.count("`", 0, place) % 2 == 0:
                return place
    for place in range(at, max(0, at - 32), -1):
        if place >= len(text) or not (_joins(text[place]) or text[place - 1] == "\u200d"):
            return place
    return at


def _joins(character: str) -> bool:
    return ord(character) in JOINS or unicodedata.combining(character) != 0
