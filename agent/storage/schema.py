"""The schema's version: upgrades through Alembic, skipped when the database is at the newest."""

from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

NEWEST = "0018"
MIGRATIONS = Path(__file__).parent / "migrations"


def upgrade(engine: Engine) -> None:
    """Bring the database to `NEWEST`. Alembic is imported only when there is something to do."""
    with engine.connect() as connection:
        if version_of(connection) == NEWEST:
            return
    from alembic import command  # noqa: PLC0415 - 0.3 s that most starts do not need
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, NEWEST)


def version_of(connection: Connection) -> str | None:
    """The version of a database; None for an empty one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
