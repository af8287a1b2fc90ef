"""Adds the wishes of processes to send a request within the leader's budget."""

import sqlalchemy as sa
from alembic import op

revision = "v0011"
down_revision = "v0010"


def upgrade() -> None:
    op.create_table(
        "request_grant",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("asked", sa.Double, nullable=False),
        sa.Column("granted", sa.Double),
        sa.Column("ended", sa.Double),
        sqlite_autoincrement=True,
    )
