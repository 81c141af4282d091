"""The test rows as the training saw them, for what is told of single rows.

`data/test.csv` could have been rewritten by the training: its cells are shown and decide nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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
