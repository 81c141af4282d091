"""A chat address is a thread."""

from alembic import op

revision = "0007"
down_revision = "0006"

_COLUMNS = (
    ("inbox", "room_key", "thread_key"),
    ("binding", "room_key", "thread_key"),
    ("binding", "room", "thread"),
    ("turn", "room", "thread"),
    ("run", "room", "thread"),
    ("outbox", "room_key", "thread_key"),
    ("outbox", "room", "thread"),
)


def upgrade() -> None:
    """Go to this version."""
    op.drop_index("ix_outbox_room_key_state", "outbox")
    for table, old, new in _COLUMNS:
        op.alter_column(table, old, new_column_name=new)
    op.create_index("ix_outbox_thread_key_state", "outbox", ["thread_key", "state"])


def downgrade() -> None:
    """Leave this version."""
    op.drop_index("ix_outbox_thread_key_state", "outbox")
    for table, old, new in reversed(_COLUMNS):
        op.alter_column(table, new, new_column_name=old)
    op.create_index("ix_outbox_room_key_state", "outbox", ["room_key", "state"])
