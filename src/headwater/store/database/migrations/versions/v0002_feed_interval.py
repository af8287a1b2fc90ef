"""Adds the interval that a person gives a feed."""

import sqlalchemy as sa
from alembic import op

revision = "v0002"
down_revision = "v0001"


def upgrade() -> None:
    op.add_column("feed", sa.Column("interval", sa.Double))
