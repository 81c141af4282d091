"""Told pictures as whoever draws knows them. Pure. Called by `agent.runs.pictures.told` and the gallery."""

import base64

from agent.domain.pictures import (
    BarGroup,
    Bars,
    Box,
    Cloud,
    Histogram,
    Images,
    Line,
    Matrix,
    Plane,
    Points,
    ResultPicture,
    Table,
    Tile,
)
from agent.domain.told import (
    Told,
    ToldBars,
    ToldHistogram,
    ToldImages,
    ToldLines,
    ToldMatrix,
    ToldScatter,
    ToldTable,
    ToldTile,
)


def drawn(told: Told) -> ResultPicture:
    """A told picture as whoever draws knows it."""
    one = told.picture
    title = f"{one.title} · {told.left_out:,} more left out" if told.left_out else one.title
    match one:
        case ToldTable():
            return Table(title, one.columns, one.rows, one.marks)
        case ToldScatter():
            groups = tuple(Points(group.name, group.x, group.y, group.names) for group in one.groups)
            return Cloud(title, groups, one.x_label, one.y_label, one.guide)
        case ToldLines():
            lines = tuple(Line(line.name, line.x, line.y, "", line.low, line.high) for line in one.lines)
            return Plane(title, lines, one.x_label, one.y_label, since=one.since)
        case ToldBars():
            bars = tuple(BarGroup(group.name, group.values, group.errors) for group in one.groups)
            return Bars(title, one.names, bars, one.unit, one.most)
        case ToldHistogram():
            counts = tuple(BarGroup(group.name, group.values) for group in one.groups)
            return Histogram(title, one.edges, counts, one.x_label, one.unit)
        case ToldMatrix():
            return Matrix(title, one.rows, one.columns, one.counts, one.row_label, one.column_label, one.others)
        case ToldImages():
            return Images(title, tuple(_tile(tile) for tile in one.tiles))


def _tile(tile: ToldTile) -> Tile:
    boxes = tuple(Box(**box.model_dump()) for box in tile.boxes)
    return Tile(base64.b64decode(tile.image), tile.caption, tile.right, boxes)
