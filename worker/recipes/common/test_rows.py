"""The test rows as the training saw them, for what is told of single rows.

`data/test.csv` could have been rewritten by the training: its cells are shown and decide nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path

from worker.recipes.common.job import Job
from worker.recipes.common.scoring import small_object
from worker.recipes.common.table import BadData, Table, read_table

LIMIT_BYTES = 64 * 1024**2  # of the test rows; beyond it they are not worth the wait


def test_table(path: Path, row_ids: Sequence[str]) -> Table | None:
    """The test rows, in the order of `row_ids`; None where they are not there any more, or no more the same rows."""
    try:
        if not path.is_file() or path.stat().st_size > LIMIT_BYTES:
            return None
        table = read_table(path, delimiter=",")
    except BadData:
        return None
    place = {row_id: at for at, row_id in enumerate(table.columns.get("row_id", ()))}
    if not set(row_ids) <= place.keys():
        return None
    order = [place[row_id] for row_id in row_ids]
    columns = {name: [cells[at] for at in order] for name, cells in table.columns.items()}
    return Table(table.names, columns, [table.lines[at] for at in order], table.encoding, table.delimiter)


def together(job: Job, row_ids: Sequence[str]) -> list[Hashable] | None:
    """What each test row belongs to where rows with equal inputs were kept on one side of the split, else None."""
    if not small_object(job.run_dir / "data/split.json").get("equal_inputs_kept_together"):
        return None
    table = test_table(job.run_dir / "data/test.csv", row_ids)
    if table is None:
        return None
    return list(zip(*(cells for name, cells in table.columns.items() if name != "row_id"), strict=True))
