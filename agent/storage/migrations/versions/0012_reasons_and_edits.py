"""Why a question was rejected, and what people changed before they approved."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Go to this version."""
    op.add_column("approval", sa.Column("reason", sa.Text(), server_default="", nullable=False))
    op.add_column("approval", sa.Column("edits", sa.Text(), server_default="{}", nullable=False))
    op.add_column("approval", sa.Column("edited_at", sa.DateTime(timezone=True)))


def downgrade() -> None:
    """Leave this version: reasons are lost, changed plans stay changed."""
    for name in ("edited_at", "edits", "reason"):
        op.drop_column("approval", name)
