"""When each message of a turn was stored; unknown for those of before."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Go to this version."""
    op.add_column("message", sa.Column("at", sa.DateTime(timezone=True)))


def downgrade() -> None:
    """Leave this version: the times are lost."""
    op.drop_column("message", "at")
