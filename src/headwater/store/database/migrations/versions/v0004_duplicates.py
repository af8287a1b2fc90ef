"""Adds the number of duplicates to the refresh log."""

import sqlalchemy as sa

from headwater.store.database.migrations.table_changes import TableChanges


def upgrade(tables: TableChanges) -> None:
    tables.add_column("refresh", sa.Column("duplicates", sa.Integer, nullable=False, server_default="0"))
