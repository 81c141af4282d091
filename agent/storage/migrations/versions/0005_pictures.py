"""pictures that trainings log themselves."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Go to this version."""
    op.create_table(
        "run_picture",
        sa.Column("run_id", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("form", sa.String(length=16), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_run_picture_run_id")),
        sa.PrimaryKeyConstraint("run_id", "name", name=op.f("pk_run_picture")),
    )


def downgrade() -> None:
    """Leave this version: pictures are logged again while a run trains, or are gone."""
    op.drop_table("run_picture")
