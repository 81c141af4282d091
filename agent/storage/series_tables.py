"""Where series lie in the database: the tables of one kind of them, and the statements on those, built once.

There are two shelves with the same shape, `METRICS` for what a training logs and `USAGE` for what its host measured of
it, so that neither is ever taken for the other, whatever a script calls its metrics. Knows tables and statements;
`agent.storage.series` writes and reads by row through them, `agent.storage.series_reads` by window.
"""

from typing import Any, Final

from sqlalchemy import Column, Table, and_, bindparam, func, select, union_all

from agent.series.columns import BLOCK
from agent.storage.tables import attempt, metric_chunk, series_block, usage_block, usage_chunk

MOST_PIECES: Final = 8  # that one statement reads; a series of 10**9 points has no more


class SeriesTables:
    """One kind of series. Statements take `of_run`, `of_attempt`, `of_name` and what their name says."""

    def __init__(
        self, chunk: Table, block: Table, *, rows: Column[Any], folded: Column[Any], low: Column[Any] | None
    ) -> None:
        """`rows`, `folded` and `low` are the columns of an attempt that count its rows, and its lowest step.

        Without `low`, what a later attempt has at the same places does not take the place of an earlier one's.
        """
        self.chunk, self.block, self.low = chunk, block, low
        self.rows, self.folded = rows, folded
        of_attempt = (block.c.run_id == bindparam("of_run")) & (block.c.attempt == bindparam("of_attempt"))
        of_name = of_attempt & (block.c.name == bindparam("of_name"))
        of_level = and_(of_name, block.c.level == bindparam("of_level"))
        newest = block.c.number.desc()
        self.newest = select(block).where(of_level).order_by(newest).limit(1)
        self.rows_between = (
            select(block.c.data)
            .where(of_level, block.c.last_row >= bindparam("of_row"), block.c.first_row < bindparam("of_stop"))
            .order_by(block.c.number)
        )
        self.names = select(block.c.name, block.c.first_row).where(of_attempt, block.c.level == 0, block.c.number == 0)
        size = select(block.c.number * BLOCK + block.c.count).where(of_level).order_by(newest).limit(1)
        self.meeting = select(
            func.min(block.c.number),
            func.max(block.c.number),
            func.min(block.c.first),
            func.max(block.c.last),
            size.scalar_subquery(),
        ).where(of_level, block.c.last >= bindparam("of_low"), block.c.first <= bindparam("of_high"))
        pieces = [
            select(block.c.level, block.c.number, block.c.data).where(
                of_name,
                block.c.level == bindparam(f"level_{n}"),
                block.c.number.between(bindparam(f"first_{n}"), bindparam(f"last_{n}")),
            )
            for n in range(MOST_PIECES)
        ]
        self.blocks = [union_all(*pieces[:n]) if n > 1 else pieces[0] for n in range(1, MOST_PIECES + 1)]
        in_run = select(block.c.name, func.min(block.c.first).label("begins")).where(
            block.c.run_id == bindparam("of_run"), block.c.level == 0, block.c.number == 0
        )
        self.names_of_run = in_run.group_by(block.c.name).order_by("begins")
        ends = (
            select(block.c.attempt, block.c.name, func.max(block.c.number).label("number"))
            .where(block.c.run_id == bindparam("of_run"), block.c.level == 0)
            .group_by(block.c.attempt, block.c.name)
            .subquery()
        )
        same = [block.c[key] == ends.c[key] for key in ("attempt", "name", "number")]
        self.sizes_of_run = select(block.c.name, block.c.number * BLOCK + block.c.count).where(
            block.c.run_id == bindparam("of_run"), block.c.level == 0, *same
        )


METRICS: Final = SeriesTables(
    metric_chunk, series_block, rows=attempt.c.rows, folded=attempt.c.folded, low=attempt.c.low_step
)
USAGE: Final = SeriesTables(usage_chunk, usage_block, rows=attempt.c.beats, folded=attempt.c.beats_folded, low=None)
