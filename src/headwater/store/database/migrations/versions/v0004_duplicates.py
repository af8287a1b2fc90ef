"""Adds the number of duplicates to the refresh log."""

import sqlalchemy as sa
from alembic import op

revision = "v0004"
down_revision = "v0003"


def upgrade() -> None:
    op.add_column("refresh", sa.Column("duplicates", sa.Integer, nullable=False, server_default="0"))
