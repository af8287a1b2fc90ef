"""Adds the details of items: lead picture, addresses of the authors, episode of a podcast."""

import sqlalchemy as sa

from headwater.store.database.migrations.table_changes import TableChanges


def upgrade(tables: TableChanges) -> None:
    tables.add_column("item", sa.Column("details", sa.Text))
