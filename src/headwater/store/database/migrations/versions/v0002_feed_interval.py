"""Adds the interval that a person gives a feed."""

import sqlalchemy as sa

from headwater.store.database.migrations.table_changes import TableChanges


def upgrade(tables: TableChanges) -> None:
    tables.add_column("feed", sa.Column("interval", sa.Double))
