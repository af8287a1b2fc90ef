"""Adds the details of items: lead picture, addresses of the authors, episode of a podcast."""

import sqlalchemy as sa
from alembic import op

revision = "v0007"
down_revision = "v0006"


def upgrade() -> None:
    op.add_column("item", sa.Column("details", sa.Text))
