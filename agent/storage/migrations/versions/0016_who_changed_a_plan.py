"""Who changed a plan that waits; of those changed before that is known to the audit log alone."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Go to this version."""
    op.add_column("approval", sa.Column("edited_by", sa.Text(), nullable=False, server_default="[]"))


def downgrade() -> None:
    """Leave this version: it is not known any more who changed what waits."""
    op.drop_column("approval", "edited_by")
