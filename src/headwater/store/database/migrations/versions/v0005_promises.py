"""Adds the hourly records of promises, and alerts among the deliveries."""

import sqlalchemy as sa

from headwater.store.database.migrations.table_changes import TableChanges

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade(tables: TableChanges) -> None:
    tables.add_column("delivery", sa.Column("alert", sa.Text))
    tables.create_table(
        "promise_hour",
        sa.Column("query_id", ID, nullable=False, autoincrement=False),
        sa.Column("hour", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("promised", sa.Text, nullable=False),
        sa.Column("predicted", sa.Text, nullable=False),
        sa.Column("got", sa.BigInteger, nullable=False),
        sa.Column("lost", sa.Double, nullable=False),
        sa.Column("dated", sa.BigInteger, nullable=False),
        sa.Column("in_time", sa.BigInteger, nullable=False),
        sa.Column("waited", sa.Double, nullable=False),
        sa.Column("missing", sa.Double, nullable=False),
        sa.Column("watched", sa.Double, nullable=False),
        sa.Column("kept", sa.Boolean),
        sa.Column("why", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("query_id", "hour", name="promise_hour_pk"),
        sqlite_with_rowid=False,
    )
    tables.create_index("promise_hour_hour", "promise_hour", ["hour"])
