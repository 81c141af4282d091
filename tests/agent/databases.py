"""Fresh SQLite databases: copies of one to which all migrations were applied once in this process."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent.storage.database import Database, open_engine
from agent.storage.schema import upgrade


def sqlite(path: Path) -> Database:
    """The database in a file, which is made where there is none."""
    if not path.exists():
        path.write_bytes(_migrated())
    return Database(f"sqlite:///{path}")


on_both = pytest.mark.parametrize("either_database", ["sqlite", "postgres"], indirect=True)


@cache
def _migrated() -> bytes:
    with TemporaryDirectory(prefix="template-") as folder:
        path = Path(folder) / "template.db"
        engine = open_engine(f"sqlite:///{path}")
        upgrade(engine)
        engine.dispose()
        return path.read_bytes()
