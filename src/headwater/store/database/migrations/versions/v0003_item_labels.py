"""Adds the labels that readers put on single items."""

import sqlalchemy as sa

from headwater.store.database.migrations.table_changes import TableChanges

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade(tables: TableChanges) -> None:
    tables.create_table(
        "item_label",
        sa.Column("user_id", ID, sa.ForeignKey("user.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
        sa.Column("label", sa.Text, primary_key=True),
        sa.Column("item_id", ID, sa.ForeignKey("item.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
        sqlite_with_rowid=False,
    )
    tables.create_index("item_label_item_id", "item_label", ["item_id"])
