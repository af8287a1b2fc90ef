"""The first tables."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TSVECTOR

revision = "0001"
down_revision = None

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    _feeds()
    _items()
    _refreshes()
    _outbox()
    _search()


def _feeds() -> None:
    op.create_table(
        "feed",
        sa.Column("id", ID, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("url_key", sa.Text, nullable=False),
        sa.Column("name", sa.Text),
        sa.Column("title", sa.Text),
        sa.Column("given_title", sa.Text),
        sa.Column("link", sa.Text),
        sa.Column("weight", sa.Double, nullable=False),
        sa.Column("added", sa.Double, nullable=False),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("gone_since", sa.Double),
        sa.PrimaryKeyConstraint("id", name="feed_pk"),
        sa.UniqueConstraint("url_key", name="feed_url_key_key"),
        sa.UniqueConstraint("name", name="feed_name_key"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "feed_tag",
        sa.Column("feed_id", ID, nullable=False),
        sa.Column("tag", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["feed_id"], ["feed.id"], name="feed_tag_feed_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("feed_id", "tag", name="feed_tag_pk"),
        sqlite_with_rowid=False,
    )
    op.create_index("feed_tag_tag_feed_id", "feed_tag", ["tag", "feed_id"])
    op.create_table(
        "known",
        sa.Column("feed_id", ID, autoincrement=False, nullable=False),
        sa.Column("window", sa.Integer, nullable=False),
        sa.Column("last_refresh", sa.Double),
        sa.Column("last_success", sa.Double),
        sa.Column("last_change", sa.Double),
        sa.Column("next_refresh", sa.Double),
        sa.Column("not_before", sa.Double),
        sa.Column("fresh_until", sa.Double),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("failing_since", sa.Double),
        sa.Column("moves", sa.Integer, nullable=False),
        sa.Column("unstable", sa.Integer, nullable=False),
        sa.Column("etag", sa.Text),
        sa.Column("last_modified", sa.Text),
        sa.Column("body_hash", sa.Text),
        sa.Column("last_error", sa.Text),
        sa.Column("moved_to", sa.Text),
        sa.Column("hub", sa.Text),
        sa.Column("topic", sa.Text),
        sa.Column("hints", sa.Text),
        sa.ForeignKeyConstraint(["feed_id"], ["feed.id"], name="known_feed_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("feed_id", name="known_pk"),
    )
    op.create_table(
        "feed_window",
        sa.Column("feed_id", ID, autoincrement=False, nullable=False),
        sa.Column("entries", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["feed_id"], ["feed.id"], name="feed_window_feed_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("feed_id", name="feed_window_pk"),
    )


def _items() -> None:
    op.create_table(
        "seen",
        sa.Column("feed_id", ID, autoincrement=False, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.Column("item_id", ID),
        sa.Column("content_hash", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("feed_id", "key", name="seen_pk"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "item",
        sa.Column("id", ID, nullable=False),
        sa.Column("feed_id", ID, nullable=False),
        sa.Column("published", sa.Double, nullable=False),
        sa.Column("first_seen", sa.Double, nullable=False),
        sa.Column("updated", sa.Double),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("dated", sa.Boolean, nullable=False),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("content_hash", sa.Text, nullable=False),
        sa.Column("title", sa.Text),
        sa.Column("link", sa.Text),
        sa.Column("language", sa.Text),
        sa.Column("authors", sa.Text),
        sa.Column("categories", sa.Text),
        sa.Column("enclosures", sa.Text),
        sa.Column("summary", sa.Text),
        sa.Column("content", sa.Text),
        sa.PrimaryKeyConstraint("id", name="item_pk"),
        sqlite_autoincrement=True,
    )
    op.create_index("item_first_seen", "item", ["first_seen"])
    op.create_index("item_published_id", "item", ["published", "id"])
    op.create_index("item_feed_id_published_id", "item", ["feed_id", "published", "id"])


def _refreshes() -> None:
    op.create_table(
        "refresh",
        sa.Column("id", ID, nullable=False),
        sa.Column("feed_id", ID, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("ending", sa.Text, nullable=False),
        sa.Column("status", sa.SmallInteger),
        sa.Column("elapsed", sa.Double, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("new", sa.Integer, nullable=False),
        sa.Column("updated", sa.Integer, nullable=False),
        sa.Column("window", sa.Integer),
        sa.Column("overlap", sa.Integer),
        sa.Column("saturated", sa.Boolean, nullable=False),
        sa.Column("lost", sa.Double, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("published", sa.Text),
        sa.PrimaryKeyConstraint("id", name="refresh_pk"),
        sa.UniqueConstraint("feed_id", "at", name="refresh_feed_id_at_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("refresh_at", "refresh", ["at"])
    op.create_table(
        "tally",
        sa.Column("hour", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("ending", sa.Text, nullable=False),
        sa.Column("refreshes", sa.BigInteger, nullable=False),
        sa.Column("new", sa.BigInteger, nullable=False),
        sa.Column("updated", sa.BigInteger, nullable=False),
        sa.Column("lost", sa.Double, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("hour", "ending", name="tally_pk"),
        sqlite_with_rowid=False,
    )


def _outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("position", ID, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("item_id", ID, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("position", name="outbox_pk"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "checkpoint",
        sa.Column("consumer", sa.Text, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("consumer", name="checkpoint_pk"),
    )
    op.create_table(
        "state",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("saved", sa.Double, nullable=False),
        sa.Column("blob", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("name", name="state_pk"),
    )


def _search() -> None:
    op.create_table(
        "unindexed",
        sa.Column("item_id", ID, autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("item_id", name="unindexed_pk"),
    )
    if op.get_bind().dialect.name == "sqlite":
        # Contentless: the words are computed from the item, and storing them again would double the file.
        op.execute("CREATE VIRTUAL TABLE item_search USING fts5(words, content='', tokenize='ascii')")
        return
    op.create_table(
        "item_search",
        sa.Column("item_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("words", TSVECTOR, nullable=False),
        sa.PrimaryKeyConstraint("item_id", name="item_search_pk"),
    )
    op.create_index("item_search_words", "item_search", ["words"], postgresql_using="gin")
