"""Adds the index by which each receiver has a queue of its own, and the sender of a request to the hub."""

import sqlalchemy as sa
from alembic import op

revision = "v0008"
down_revision = "v0007"


def upgrade() -> None:
    waiting = sa.text("due IS NOT NULL")
    op.create_index(
        "delivery_address_due", "delivery", ["address", "due"], sqlite_where=waiting, postgresql_where=waiting
    )
    op.add_column("hub_request", sa.Column("sender", sa.Text))
