"""Subscriptions at hubs that are to be ended."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.create_table(
        "farewell",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("hub", sa.Text, nullable=False),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("until", sa.Double),
        sa.Column("due", sa.Double, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("key", name="farewell_pk"),
    )
    op.create_index("farewell_due", "farewell", ["due"])
