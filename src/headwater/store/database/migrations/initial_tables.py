"""Creates all tables, the search index and the first account."""

import time

import sqlalchemy as sa

from headwater.store.database.migrations.table_changes import TableChanges

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def create_initial_tables(tables: TableChanges) -> None:
    _create_feeds(tables)
    _create_queries(tables)
    _create_items(tables)
    _create_search_index(tables)
    _create_readers(tables)
    _create_publications(tables)
    _create_cluster(tables)
    _add_owner(tables)


def _create_unique_outside_trash(tables: TableChanges, name: str, table: str, column: str) -> None:
    outside = sa.text("deleted_at IS NULL")
    tables.create_index(name, table, [column], unique=True, sqlite_where=outside, postgresql_where=outside)


def _create_feeds(tables: TableChanges) -> None:
    tables.create_table(
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
        sa.Column("deleted_at", sa.Double),
        sa.PrimaryKeyConstraint("id", name="feed_pk"),
        sqlite_autoincrement=True,
    )
    _create_unique_outside_trash(tables, "feed_name", "feed", "name")
    _create_unique_outside_trash(tables, "feed_url_key", "feed", "url_key")
    trashed = sa.text("deleted_at IS NOT NULL")
    tables.create_index("feed_deleted_at", "feed", ["deleted_at"], sqlite_where=trashed, postgresql_where=trashed)
    tables.create_table(
        "hourly_count",
        sa.Column("hour", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("ending", sa.Text, nullable=False),
        sa.Column("refreshes", sa.BigInteger, nullable=False),
        sa.Column("new", sa.BigInteger, nullable=False),
        sa.Column("updated", sa.BigInteger, nullable=False),
        sa.Column("lost", sa.Double, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("hour", "ending", name="hourly_count_pk"),
        sqlite_with_rowid=False,
    )
    tables.create_table(
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
    tables.create_index("refresh_at", "refresh", ["at"])
    tables.create_table(
        "feed_state",
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
        sa.ForeignKeyConstraint(["feed_id"], ["feed.id"], name="feed_state_feed_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("feed_id", name="feed_state_pk"),
    )
    tables.create_table(
        "feed_tag",
        sa.Column("feed_id", ID, nullable=False),
        sa.Column("tag", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["feed_id"], ["feed.id"], name="feed_tag_feed_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("feed_id", "tag", name="feed_tag_pk"),
        sqlite_with_rowid=False,
    )
    tables.create_index("feed_tag_tag_feed_id", "feed_tag", ["tag", "feed_id"])
    tables.create_table(
        "feed_window",
        sa.Column("feed_id", ID, autoincrement=False, nullable=False),
        sa.Column("entries", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["feed_id"], ["feed.id"], name="feed_window_feed_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("feed_id", name="feed_window_pk"),
    )


def _create_queries(tables: TableChanges) -> None:
    tables.create_table(
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
    tables.create_index("hit_query_id_arrived", "hit", ["query_id", "arrived"])
    tables.create_index("hit_query_id_id", "hit", ["query_id", "id"])
    tables.create_index("hit_query_id_published", "hit", ["query_id", "published"])
    tables.create_table(
        "item_version",
        sa.Column("item_id", ID, autoincrement=False, nullable=False),
        sa.Column("version", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("blob", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("item_id", "version", name="item_version_pk"),
    )
    tables.create_table(
        "offered_count",
        sa.Column("feed_id", ID, autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("feed_id", name="offered_count_pk"),
    )
    tables.create_table(
        "origin",
        sa.Column("query_id", ID, autoincrement=False, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.Column("item_id", ID, nullable=False),
        sa.PrimaryKeyConstraint("query_id", "key", name="origin_pk"),
        sqlite_with_rowid=False,
    )
    tables.create_table(
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
        sa.Column("form", sa.LargeBinary),
        sa.Column("revision", sa.BigInteger, server_default="0", nullable=False),
        sa.Column("author_id", ID),
        sa.Column("deleted_at", sa.Double),
        sa.PrimaryKeyConstraint("id", name="query_feed_pk"),
        sqlite_autoincrement=True,
    )
    tables.create_index("query_feed_revision", "query_feed", ["revision"])
    _create_unique_outside_trash(tables, "query_feed_key", "query_feed", "key")
    tables.create_table(
        "implicit_feed",
        sa.Column("feed_id", ID, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["feed_id"], ["feed.id"], name="implicit_feed_feed_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("feed_id", name="implicit_feed_pk"),
    )
    tables.create_table(
        "query_address",
        sa.Column("query_id", ID, nullable=False),
        sa.Column("feed_id", ID, nullable=False),
        sa.ForeignKeyConstraint(["feed_id"], ["feed.id"], name="query_address_feed_id_fk", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["query_id"], ["query_feed.id"], name="query_address_query_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("query_id", "feed_id", name="query_address_pk"),
        sqlite_with_rowid=False,
    )
    tables.create_index("query_address_feed_id", "query_address", ["feed_id"])
    tables.create_table(
        "selectivity",
        sa.Column("query_id", ID, nullable=False),
        sa.Column("feed_id", ID, autoincrement=False, nullable=False),
        sa.Column("kept", sa.BigInteger, nullable=False),
        sa.Column("base", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["query_id"], ["query_feed.id"], name="selectivity_query_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("query_id", "feed_id", name="selectivity_pk"),
        sqlite_with_rowid=False,
    )


def _create_items(tables: TableChanges) -> None:
    tables.create_table(
        "article",
        sa.Column("item_id", ID, autoincrement=False, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("due", sa.Double),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("written", sa.LargeBinary),
        sa.Column("message", sa.Text),
        sa.PrimaryKeyConstraint("item_id", name="article_pk"),
    )
    tables.create_index("article_due", "article", ["due"])
    tables.create_table(
        "checkpoint",
        sa.Column("consumer", sa.Text, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("consumer", name="checkpoint_pk"),
    )
    tables.create_table(
        "index_queue",
        sa.Column("item_id", ID, autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("item_id", name="index_queue_pk"),
    )
    tables.create_table(
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
        sa.Column("source", sa.Text),
        sa.PrimaryKeyConstraint("id", name="item_pk"),
        sqlite_autoincrement=True,
    )
    tables.create_index("item_feed_id_id_published_first_seen", "item", ["feed_id", "id", "published", "first_seen"])
    tables.create_index("item_feed_id_published_id", "item", ["feed_id", "published", "id"])
    tables.create_index("item_first_seen_id_feed_id", "item", ["first_seen", "id", "feed_id"])
    tables.create_index("item_published_id_feed_id", "item", ["published", "id", "feed_id"])
    tables.create_table(
        "outbox",
        sa.Column("position", ID, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("item_id", ID, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("position", name="outbox_pk"),
        sqlite_autoincrement=True,
    )
    tables.create_table(
        "saved_state",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("saved", sa.Double, nullable=False),
        sa.Column("blob", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("name", name="saved_state_pk"),
    )
    tables.create_table(
        "seen_identity",
        sa.Column("feed_id", ID, autoincrement=False, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.Column("item_id", ID),
        sa.Column("content_hash", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("feed_id", "key", name="seen_identity_pk"),
        sqlite_with_rowid=False,
    )
    tables.create_table(
        "article_feed",
        sa.Column("feed_id", ID, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["feed_id"], ["feed.id"], name="article_feed_feed_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("feed_id", name="article_feed_pk"),
    )
    tables.create_table(
        "article_query",
        sa.Column("query_id", ID, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["query_id"], ["query_feed.id"], name="article_query_query_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("query_id", name="article_query_pk"),
    )


def _create_search_index(tables: TableChanges) -> None:
    if tables.connection.dialect.name == "sqlite":
        # Contentless: the words are computed from the item, and storing them again would double the file.
        tables.execute("CREATE VIRTUAL TABLE item_search USING fts5(words, content='', tokenize='ascii')")
        return
    from sqlalchemy.dialects.postgresql import TSVECTOR

    tables.create_table(
        "item_search",
        sa.Column("item_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("words", TSVECTOR, nullable=False),
        sa.PrimaryKeyConstraint("item_id", name="item_search_pk"),
    )
    tables.create_index("item_search_words", "item_search", ["words"], postgresql_using="gin")


def _create_readers(tables: TableChanges) -> None:
    tables.create_table(
        "trash",
        sa.Column("id", ID, nullable=False),
        sa.Column("user_id", ID),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("objects", sa.Text, nullable=False),
        sa.Column("rows", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="trash_pk"),
        sqlite_autoincrement=True,
    )
    tables.create_index("trash_at", "trash", ["at"])
    tables.create_index("trash_kind_objects", "trash", ["kind", "objects"])
    tables.create_table(
        "user",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("name_key", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("password", sa.Text),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("settings", sa.Text),
        sa.Column("time_zone", sa.Text),
        sa.Column("deleted_at", sa.Double),
        sa.PrimaryKeyConstraint("id", name="user_pk"),
        sqlite_autoincrement=True,
    )
    _create_unique_outside_trash(tables, "user_name_key", "user", "name_key")
    tables.create_table(
        "api_token",
        sa.Column("id", ID, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("last_used", sa.Double),
        sa.ForeignKeyConstraint(["user_id"], ["user.id"], name="api_token_user_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="api_token_pk"),
        sa.UniqueConstraint("hash", name="api_token_hash_key"),
        sqlite_autoincrement=True,
    )
    tables.create_index("api_token_user_id", "api_token", ["user_id"])
    tables.create_table(
        "mark",
        sa.Column("user_id", ID, autoincrement=False, nullable=False),
        sa.Column("feed_id", ID, autoincrement=False, nullable=False),
        sa.Column("item_id", ID, autoincrement=False, nullable=False),
        sa.Column("state", sa.SmallInteger),
        sa.Column("starred", sa.Double),
        sa.Column("changed", sa.Double, nullable=False),
        sa.Column("arrived", sa.Double),
        sa.Column("published", sa.Double),
        sa.ForeignKeyConstraint(["user_id"], ["user.id"], name="mark_user_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("user_id", "feed_id", "item_id", name="mark_pk"),
        sqlite_with_rowid=False,
    )
    tables.create_index(
        "mark_arrived",
        "mark",
        ["user_id", "arrived", "item_id", "feed_id", "state"],
        sqlite_where=sa.text("state = 0"),
        postgresql_where=sa.text("state = 0"),
    )
    tables.create_index(
        "mark_published",
        "mark",
        ["user_id", "published", "item_id", "feed_id", "arrived", "state"],
        sqlite_where=sa.text("state = 0"),
        postgresql_where=sa.text("state = 0"),
    )
    tables.create_index(
        "mark_starred",
        "mark",
        ["user_id", "item_id"],
        sqlite_where=sa.text("starred IS NOT NULL"),
        postgresql_where=sa.text("starred IS NOT NULL"),
    )
    tables.create_index(
        "mark_unread",
        "mark",
        ["user_id", "feed_id", "item_id"],
        sqlite_where=sa.text("state = 0"),
        postgresql_where=sa.text("state = 0"),
    )
    tables.create_table(
        "mark_undo",
        sa.Column("id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("before", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["user.id"], name="mark_undo_user_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="mark_undo_pk"),
        sqlite_autoincrement=True,
    )
    tables.create_index("mark_undo_user_id_at", "mark_undo", ["user_id", "at"])
    tables.create_table(
        "query_subscription",
        sa.Column("user_id", ID, autoincrement=False, nullable=False),
        sa.Column("query_id", ID, autoincrement=False, nullable=False),
        sa.Column("title", sa.Text),
        sa.Column("added", sa.Double, nullable=False),
        sa.Column("read_up_to", ID, nullable=False),
        sa.Column("tags", sa.Text),
        sa.ForeignKeyConstraint(
            ["query_id"], ["query_feed.id"], name="query_subscription_query_id_fk", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["user.id"], name="query_subscription_user_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("user_id", "query_id", name="query_subscription_pk"),
        sqlite_with_rowid=False,
    )
    tables.create_index("query_subscription_query_id", "query_subscription", ["query_id"])
    tables.create_table(
        "session",
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("last_seen", sa.Double, nullable=False),
        sa.Column("expires", sa.Double, nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["user.id"], name="session_user_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("hash", name="session_pk"),
        sqlite_with_rowid=False,
    )
    tables.create_index("session_user_id", "session", ["user_id"])
    tables.create_table(
        "subscription",
        sa.Column("user_id", ID, autoincrement=False, nullable=False),
        sa.Column("feed_id", ID, autoincrement=False, nullable=False),
        sa.Column("title", sa.Text),
        sa.Column("added", sa.Double, nullable=False),
        sa.Column("read_up_to", ID, nullable=False),
        sa.ForeignKeyConstraint(["feed_id"], ["feed.id"], name="subscription_feed_id_fk", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["user.id"], name="subscription_user_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("user_id", "feed_id", name="subscription_pk"),
        sqlite_with_rowid=False,
    )
    tables.create_index("subscription_feed_id", "subscription", ["feed_id"])
    tables.create_table(
        "subscription_tag",
        sa.Column("user_id", ID, autoincrement=False, nullable=False),
        sa.Column("feed_id", ID, autoincrement=False, nullable=False),
        sa.Column("tag", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["feed_id"], ["feed.id"], name="subscription_tag_feed_id_fk", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["user.id"], name="subscription_tag_user_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("user_id", "feed_id", "tag", name="subscription_tag_pk"),
        sqlite_with_rowid=False,
    )
    tables.create_index("subscription_tag_user_id_tag_feed_id", "subscription_tag", ["user_id", "tag", "feed_id"])


def _create_publications(tables: TableChanges) -> None:
    tables.create_table(
        "delivery",
        sa.Column("id", ID, nullable=False),
        sa.Column("query_id", ID, nullable=False),
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("hit_id", ID, nullable=False),
        sa.Column("item_id", ID, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("due", sa.Double),
        sa.Column("slot", sa.Double),
        sa.Column("batch", sa.Text),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("message", sa.Text),
        sa.PrimaryKeyConstraint("id", name="delivery_pk"),
        sa.UniqueConstraint(
            "query_id", "item_id", "kind", "address", name="delivery_query_id_item_id_kind_address_key"
        ),
        sqlite_autoincrement=True,
    )
    tables.create_index("delivery_batch", "delivery", ["batch"])
    tables.create_index("delivery_due", "delivery", ["due"])
    tables.create_table(
        "delivery_template",
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("subject", sa.Text),
        sa.Column("body", sa.Text),
        sa.PrimaryKeyConstraint("query", name="delivery_template_pk"),
    )
    tables.create_table(
        "feed_token",
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("hash", name="feed_token_pk"),
        sqlite_with_rowid=False,
    )
    tables.create_index("feed_token_path", "feed_token", ["path"])
    tables.create_table(
        "hub_request",
        sa.Column("id", ID, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.Column("mode", sa.Text, nullable=False),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("callback", sa.Text, nullable=False),
        sa.Column("secret", sa.Text),
        sa.Column("lease", sa.Double),
        sa.Column("reason", sa.Text),
        sa.Column("due", sa.Double, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="hub_request_pk"),
        sa.UniqueConstraint("key", name="hub_request_key_key"),
        sqlite_autoincrement=True,
    )
    tables.create_index("hub_request_due", "hub_request", ["due"])
    tables.create_table(
        "hub_subscriber",
        sa.Column("id", ID, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("callback", sa.Text, nullable=False),
        sa.Column("secret", sa.Text),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
        sa.Column("sent", sa.Text),
        sa.Column("due", sa.Double),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("message", sa.Text),
        sa.PrimaryKeyConstraint("id", name="hub_subscriber_pk"),
        sa.UniqueConstraint("key", name="hub_subscriber_key_key"),
        sqlite_autoincrement=True,
    )
    tables.create_index("hub_subscriber_due", "hub_subscriber", ["due"])
    tables.create_table(
        "private_feed",
        sa.Column("path", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("path", name="private_feed_pk"),
    )
    tables.create_table(
        "websub_cancellation",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("hub", sa.Text, nullable=False),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("until", sa.Double),
        sa.Column("due", sa.Double, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("key", name="websub_cancellation_pk"),
    )
    tables.create_index("websub_cancellation_due", "websub_cancellation", ["due"])
    tables.create_table(
        "websub_lease",
        sa.Column("feed_id", ID, autoincrement=False, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("hub", sa.Text, nullable=False),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("pending", sa.Double),
        sa.Column("since", sa.Double),
        sa.Column("until", sa.Double),
        sa.Column("due", sa.Double, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("pushes", sa.Integer, nullable=False),
        sa.Column("pushed", sa.Double),
        sa.Column("message", sa.Text),
        sa.ForeignKeyConstraint(["feed_id"], ["feed.id"], name="websub_lease_feed_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("feed_id", name="websub_lease_pk"),
        sa.UniqueConstraint("key", name="websub_lease_key_key"),
    )
    tables.create_index("websub_lease_due", "websub_lease", ["due"])


def _create_cluster(tables: TableChanges) -> None:
    tables.create_table(
        "job",
        sa.Column("feed_id", ID, autoincrement=False, nullable=False),
        sa.Column("partition", sa.SmallInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("taken_until", sa.Double, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("feed_id", name="job_pk"),
    )
    tables.create_index("job_partition", "job", ["partition"])
    tables.create_table(
        "lease",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("name", name="lease_pk"),
    )
    tables.create_table(
        "lesson",
        sa.Column("id", ID, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("id", name="lesson_pk"),
        sqlite_autoincrement=True,
    )
    tables.create_table(
        "member",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("seen", sa.Double, nullable=False),
        sa.Column("info", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="member_pk"),
    )
    tables.create_table(
        "refresh_request",
        sa.Column("feed_id", ID, autoincrement=False, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("by_hub", sa.Boolean, nullable=False),
        sa.Column("newer_than", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("feed_id", name="refresh_request_pk"),
    )
    tables.create_table(
        "quarantine",
        sa.Column("id", ID, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("problem", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("id", name="quarantine_pk"),
        sqlite_autoincrement=True,
    )


def _add_owner(tables: TableChanges) -> None:
    add = sa.text("INSERT INTO \"user\" (name, name_key, role, created) VALUES ('owner', 'owner', 'owner', :now)")
    tables.connection.execute(add, {"now": time.time()})
