"""Adds the index by which each receiver has a queue of its own, and the sender of a request to the hub."""

import sqlalchemy as sa

from headwater.store.database.migrations.table_changes import TableChanges


def upgrade(tables: TableChanges) -> None:
    waiting = sa.text("due IS NOT NULL")
    tables.create_index(
        "delivery_address_due", "delivery", ["address", "due"], sqlite_where=waiting, postgresql_where=waiting
    )
    tables.add_column("hub_request", sa.Column("sender", sa.Text))
