"""how the card of a run draws its curves."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Go to this version."""
    op.add_column("run", sa.Column("card_view", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    """Leave this version."""
    op.drop_column("run", "card_view")  # not in a batch, which would make the table anew under its foreign keys
