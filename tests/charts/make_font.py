"""Makes our East Asian font from a whole Noto Sans CJK: `python -m tests.charts.make_font FONT.otf`.

Chosen are the characters that ordinary texts are written with: level 1 of GB 2312, of Big5 and of JIS X 0208, the
Hangul of KS X 1001, kana, bopomofo, punctuation and full-width forms; no hints, no tables of layout.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from fontTools import subset

OUT = Path(__file__).parents[2] / "charts_render" / "fonts" / "trainyard-cjk.otf"
NAME = "Trainyard CJK"
_UPPER = range(0xA1, 0xFF)


def _decoded(codec: str, rows: Iterable[int], cells: Iterable[int] = _UPPER) -> set[int]:
    """The code points of a table of two-byte characters."""
    texts = (bytes([row, cell]).decode(codec, "ignore") for row in rows for cell in cells)
    return {ord(text) for text in texts if len(text) == 1}


def characters() -> set[int]:
    """Code points."""
    found = _decoded("gb2312", range(0xB0, 0xD8)) | _decoded("euc_jp", range(0xB0, 0xD0))
    found |= _decoded("euc_kr", range(0xB0, 0xC9))
    found |= _decoded("big5", range(0xA4, 0xC7), [*range(0x40, 0x7F), *_UPPER])
    return {*found, *range(0x3000, 0x3130), *range(0x31F0, 0x3200), *range(0xFF00, 0xFFF0)}


def main(source: str) -> None:
    """Write the smaller font under a name of its own, with the source's notice of copyright."""
    options = subset.Options(hinting=False, layout_features=[], name_IDs=[0, 1, 2, 3, 4, 5, 6, 13, 14])
    options.drop_tables += ["vhea", "vmtx", "VORG", "BASE", "GPOS", "GSUB", "DSIG"]
    font = subset.load_font(source, options)
    chooser = subset.Subsetter(options)
    chooser.populate(unicodes=characters())
    chooser.subset(font)
    names = {1: NAME, 3: f"{NAME} 1.0", 4: NAME, 6: "TrainyardCJK-Regular"}
    for number, text in names.items():
        for record in [record for record in font["name"].names if record.nameID == number]:
            font["name"].setName(text, number, record.platformID, record.platEncID, record.langID)
    outlines = font["CFF "].cff
    outlines.fontNames = [names[6]]
    outlines[0].FullName = outlines[0].FamilyName = NAME
    font.save(OUT)


if __name__ == "__main__":
    main(sys.argv[1])
