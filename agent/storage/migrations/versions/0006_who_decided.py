"""How people know who decided."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Go to this version."""
    op.add_column("approval", sa.Column("decided_name", sa.String(length=255), server_default="", nullable=False))


def downgrade() -> None:
    """Leave this version: earlier decisions are shown with the id of who decided."""
    op.drop_column("approval", "decided_name")
