"""Calls of language models that no turn made: a question whether they answer, asked by a command."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
COLUMNS = ("turn_id", "session_id")


def upgrade() -> None:
    """Go to this version."""
    with op.batch_alter_table("model_call") as batch:
        for name in COLUMNS:
            batch.alter_column(name, existing_type=sa.String(32), nullable=True)


def downgrade() -> None:
    """Leave this version: the cost of what no turn asked is lost."""
    op.execute("DELETE FROM model_call WHERE turn_id IS NULL OR session_id IS NULL")
    with op.batch_alter_table("model_call") as batch:
        for name in COLUMNS:
            batch.alter_column(name, existing_type=sa.String(32), nullable=False)
