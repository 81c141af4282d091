"""Budgets, votes about approvals, and what is approved by itself."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Go to this version."""
    op.create_table(
        "budget",
        sa.Column("scope", sa.String(length=16), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("unit", sa.String(length=16), nullable=False),
        sa.Column("amount", sa.Float(), nullable=False),
        sa.Column("by", sa.String(length=255), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("scope", "key", "unit", name=op.f("pk_budget")),
    )
    op.add_column("approval", sa.Column("quorum", sa.Integer(), server_default="1", nullable=False))
    op.add_column("approval", sa.Column("allowance", sa.String(length=32), server_default="", nullable=False))
    op.create_table(
        "vote",
        sa.Column("approval_id", sa.String(length=32), nullable=False),
        sa.Column("person", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["approval_id"], ["approval.id"], name=op.f("fk_vote_approval_id")),
        sa.PrimaryKeyConstraint("approval_id", "person", name=op.f("pk_vote")),
    )
    op.create_table(
        "allowance",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("session_id", sa.String(length=32), nullable=False),
        sa.Column("tool", sa.String(length=64), nullable=False),
        sa.Column("cap_usd", sa.Float(), nullable=True),
        sa.Column("by", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["session.id"], name=op.f("fk_allowance_session_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_allowance")),
    )
    op.create_index(op.f("ix_allowance_session_id"), "allowance", ["session_id"])


def downgrade() -> None:
    """Leave this version: budgets, votes and allowances are lost."""
    for name in ("allowance", "vote"):
        op.drop_table(name)
    for name in ("allowance", "quorum"):
        op.drop_column("approval", name)
    op.drop_table("budget")
