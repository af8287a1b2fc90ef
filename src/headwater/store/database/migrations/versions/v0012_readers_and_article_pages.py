"""Adds the readers of published documents, as keyed hashes that are kept for two weeks, and the HTML of articles."""

import sqlalchemy as sa

from headwater.store.database.migrations.table_changes import TableChanges

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade(tables: TableChanges) -> None:
    tables.create_table(
        "document_reader",
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("week", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("reader", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("path", "week", "reader", name="document_reader_pk"),
        sqlite_with_rowid=False,
    )
    tables.create_index("document_reader_week", "document_reader", ["week"])
    tables.create_table(
        "article_page",
        sa.Column("item_id", ID, nullable=False, autoincrement=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("html", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("item_id", name="article_page_pk"),
    )
    tables.create_index("article_page_at", "article_page", ["at"])
