"""People: accounts, sessions, tokens, subscriptions, marks. Everything that is here becomes the owner's."""

import time

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
OWNER = "owner"


def _of(table: str, column: str, to: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{to}.id"], name=f"{table}_{column}_fk", ondelete="CASCADE")


def upgrade() -> None:
    _accounts()
    _subscriptions()
    _marks()
    _indices()
    _give_to_owner()


def _accounts() -> None:
    op.create_table(
        "user",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("name_key", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("password", sa.Text),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("settings", sa.Text),
        sa.PrimaryKeyConstraint("id", name="user_pk"),
        sa.UniqueConstraint("name_key", name="user_name_key_key"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "session",
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("last_seen", sa.Double, nullable=False),
        sa.Column("expires", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("hash", name="session_pk"),
        _of("session", "user_id", "user"),
        sqlite_with_rowid=False,
    )
    op.create_index("session_user_id", "session", ["user_id"])
    op.create_table(
        "api_token",
        sa.Column("id", ID, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("last_used", sa.Double),
        sa.PrimaryKeyConstraint("id", name="api_token_pk"),
        sa.UniqueConstraint("hash", name="api_token_hash_key"),
        _of("api_token", "user_id", "user"),
        sqlite_autoincrement=True,
    )
    op.create_index("api_token_user_id", "api_token", ["user_id"])


def _subscriptions() -> None:
    op.create_table(
        "subscribed",
        sa.Column("user_id", ID, nullable=False),
        sa.Column("feed_id", ID, nullable=False),
        sa.Column("title", sa.Text),
        sa.Column("added", sa.Double, nullable=False),
        sa.Column("read_up_to", ID, nullable=False),
        sa.PrimaryKeyConstraint("user_id", "feed_id", name="subscribed_pk"),
        _of("subscribed", "user_id", "user"),
        _of("subscribed", "feed_id", "feed"),
        sqlite_with_rowid=False,
    )
    op.create_index("subscribed_feed_id", "subscribed", ["feed_id"])
    op.create_table(
        "subscribed_tag",
        sa.Column("user_id", ID, nullable=False),
        sa.Column("feed_id", ID, nullable=False),
        sa.Column("tag", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("user_id", "feed_id", "tag", name="subscribed_tag_pk"),
        _of("subscribed_tag", "user_id", "user"),
        _of("subscribed_tag", "feed_id", "feed"),
        sqlite_with_rowid=False,
    )
    op.create_index("subscribed_tag_user_id_tag_feed_id", "subscribed_tag", ["user_id", "tag", "feed_id"])
    op.create_table(
        "query_subscription",
        sa.Column("user_id", ID, nullable=False),
        sa.Column("query_id", ID, nullable=False),
        sa.Column("title", sa.Text),
        sa.Column("added", sa.Double, nullable=False),
        sa.Column("read_up_to", ID, nullable=False),
        sa.Column("tags", sa.Text),
        sa.PrimaryKeyConstraint("user_id", "query_id", name="query_subscription_pk"),
        _of("query_subscription", "user_id", "user"),
        _of("query_subscription", "query_id", "query_feed"),
        sqlite_with_rowid=False,
    )
    op.create_index("query_subscription_query_id", "query_subscription", ["query_id"])


def _marks() -> None:
    op.create_table(
        "mark",
        sa.Column("user_id", ID, nullable=False),
        sa.Column("feed_id", ID, nullable=False),
        sa.Column("item_id", ID, nullable=False),
        sa.Column("state", sa.SmallInteger),
        sa.Column("starred", sa.Double),
        sa.Column("changed", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("user_id", "feed_id", "item_id", name="mark_pk"),
        _of("mark", "user_id", "user"),
        sqlite_with_rowid=False,
    )
    unread, starred = sa.text("state = 0"), sa.text("starred IS NOT NULL")
    op.create_index(
        "mark_unread", "mark", ["user_id", "feed_id", "item_id"], sqlite_where=unread, postgresql_where=unread
    )
    op.create_index("mark_starred", "mark", ["user_id", "item_id"], sqlite_where=starred, postgresql_where=starred)
    op.create_table(
        "undo",
        sa.Column("id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("before", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="undo_pk"),
        _of("undo", "user_id", "user"),
        sqlite_autoincrement=True,
    )
    op.create_index("undo_user_id_at", "undo", ["user_id", "at"])


def _indices() -> None:
    """Wider ones, so that lists need not look at the items."""
    op.drop_index("item_first_seen", "item")
    op.drop_index("item_published_id", "item")
    op.create_index("item_first_seen_id_feed_id", "item", ["first_seen", "id", "feed_id"])
    op.create_index("item_published_id_feed_id", "item", ["published", "id", "feed_id"])
    op.create_index("item_feed_id_id_published_first_seen", "item", ["feed_id", "id", "published", "first_seen"])


def _give_to_owner() -> None:
    run = op.get_bind().execute
    now = {"now": time.time(), "owner": OWNER}
    run(sa.text("INSERT INTO \"user\" (name, name_key, role, created) VALUES (:owner, :owner, 'owner', :now)"), now)
    run(
        sa.text(
            "INSERT INTO subscribed (user_id, feed_id, added, read_up_to) "
            'SELECT u.id, f.id, f.added, 0 FROM feed f, "user" u '
            "WHERE f.id NOT IN (SELECT feed_id FROM implicit_feed)"
        )
    )
    run(
        sa.text(
            "INSERT INTO subscribed_tag (user_id, feed_id, tag) SELECT s.user_id, s.feed_id, t.tag "
            "FROM feed_tag t JOIN subscribed s ON s.feed_id = t.feed_id"
        )
    )
    run(
        sa.text(
            "INSERT INTO query_subscription (user_id, query_id, added, read_up_to) "
            'SELECT u.id, q.id, q.created, 0 FROM query_feed q, "user" u'
        )
    )
