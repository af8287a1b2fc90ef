"""Adds the wishes of processes to send a request within the leader's budget."""

import sqlalchemy as sa

from headwater.store.database.migrations.table_changes import TableChanges


def upgrade(tables: TableChanges) -> None:
    tables.create_table(
        "request_grant",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("asked", sa.Double, nullable=False),
        sa.Column("granted", sa.Double),
        sa.Column("ended", sa.Double),
        sqlite_autoincrement=True,
    )
