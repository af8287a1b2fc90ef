"""Standing queries: their definitions, what comes out of them, and how much of each source they keep."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    _queries()
    _hits()
    _selectivity()


def _queries() -> None:
    op.create_table(
        "query_feed",
        sa.Column("id", ID, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("replaced", sa.Double),
        sa.Column("active", sa.Text),
        sa.Column("active_position", sa.BigInteger),
        sa.Column("importance", sa.Double, nullable=False),
        sa.Column("problem", sa.Text),
        sa.PrimaryKeyConstraint("id", name="query_feed_pk"),
        sa.UniqueConstraint("key", name="query_feed_key_key"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "query_address",
        sa.Column("query_id", ID, nullable=False),
        sa.Column("feed_id", ID, nullable=False),
        sa.ForeignKeyConstraint(["query_id"], ["query_feed.id"], name="query_address_query_id_fk", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["feed_id"], ["feed.id"], name="query_address_feed_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("query_id", "feed_id", name="query_address_pk"),
        sqlite_with_rowid=False,
    )
    op.create_index("query_address_feed_id", "query_address", ["feed_id"])
    op.create_table(
        "implicit_feed",
        sa.Column("feed_id", ID, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["feed_id"], ["feed.id"], name="implicit_feed_feed_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("feed_id", name="implicit_feed_pk"),
    )


def _hits() -> None:
    op.create_table(
        "hit",
        sa.Column("id", ID, nullable=False),
        sa.Column("query_id", ID, nullable=False),
        sa.Column("item_id", ID, nullable=False),
        sa.Column("feed_id", ID, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("arrived", sa.Double, nullable=False),
        sa.Column("published", sa.Double, nullable=False),
        sa.Column("fresh", sa.Boolean, nullable=False),
        sa.Column("current", sa.Boolean, nullable=False),
        sa.Column("branches", sa.Text, nullable=False),
        sa.Column("related", sa.Text),
        sa.Column("changes", sa.Text),
        sa.PrimaryKeyConstraint("id", name="hit_pk"),
        sa.UniqueConstraint("item_id", "query_id", name="hit_item_id_query_id_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("hit_query_id_id", "hit", ["query_id", "id"])
    op.create_index("hit_query_id_published", "hit", ["query_id", "published"])
    op.create_index("hit_query_id_arrived", "hit", ["query_id", "arrived"])
    op.create_table(
        "edition",
        sa.Column("item_id", ID, autoincrement=False, nullable=False),
        sa.Column("version", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("blob", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("item_id", "version", name="edition_pk"),
    )


def _selectivity() -> None:
    op.create_table(
        "query_source",
        sa.Column("query_id", ID, nullable=False),
        sa.Column("feed_id", ID, autoincrement=False, nullable=False),
        sa.Column("kept", sa.BigInteger, nullable=False),
        sa.Column("base", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["query_id"], ["query_feed.id"], name="query_source_query_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("query_id", "feed_id", name="query_source_pk"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "offered",
        sa.Column("feed_id", ID, autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("feed_id", name="offered_pk"),
    )
