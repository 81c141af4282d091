"""how the card of a run draws its curves."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Go to this version."""
    with op.batch_alter_table("run", schema=None) as batch_op:
        batch_op.add_column(sa.Column("card_view", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    """Leave this version."""
    with op.batch_alter_table("run", schema=None) as batch_op:
        batch_op.drop_column("card_view")
