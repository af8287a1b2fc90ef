"""Declares the tables of readers: accounts, subscriptions, marks and the trash.

Reading is a position per reader and feed plus exceptions (`mark`): an item is read when its id is not beyond
`subscription.read_up_to`, unless its mark says otherwise. Marking 100,000 items as read so moves 500 numbers.
"""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Double,
    ForeignKey,
    Index,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
)

from headwater.store.schema.metadata import Id, StorableText, metadata, partial_index, unique_outside_trash

# An object that was removed, until a day later. Feeds, query feeds and users stay in their tables, with `deleted_at`.
trash = Table(
    "trash",
    metadata,
    Column("id", Id, primary_key=True),
    Column("user_id", Id),  # the remover; None for the command line; kept when the account is deleted
    Column("at", Double, nullable=False),
    Column("kind", Text, nullable=False),
    Column("label", Text, nullable=False),  # its name for people
    Column("objects", Text, nullable=False),  # JSON: the ids of the feed, the query feeds or the user
    Column("rows", Text, nullable=False),  # JSON: the small rows taken out of their tables, by table
    Index(None, "at"),
    Index(None, "kind", "objects"),
    sqlite_autoincrement=True,
)


def _user_reference() -> ForeignKey:
    return ForeignKey("user.id", ondelete="CASCADE")


user = Table(
    "user",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", StorableText, nullable=False),
    Column("name_key", StorableText, nullable=False),  # folded: names differ by more than case
    Column("role", Text, nullable=False),  # owner, reader
    Column("password", Text),  # argon2; None until one is set
    Column("created", Double, nullable=False),
    Column("settings", Text),  # JSON, read by the pages alone
    Column("time_zone", Text),  # of digests; None for the server's
    Column("deleted_at", Double),  # moved to the trash then
    unique_outside_trash("user_name_key", "name_key"),
    sqlite_autoincrement=True,
)
USER_IS_LIVE = user.c.deleted_at.is_(None)

session = Table(
    "session",
    metadata,
    Column("hash", LargeBinary, primary_key=True),  # SHA-256 of the secret
    Column("user_id", Id, _user_reference(), nullable=False),
    Column("kind", Text, nullable=False),  # page, client
    Column("label", StorableText, nullable=False),
    Column("created", Double, nullable=False),
    Column("last_seen", Double, nullable=False),
    Column("expires", Double, nullable=False),
    Column("token_id", Id),  # the API token it was started with, and with which it ends
    Index(None, "user_id"),
    sqlite_with_rowid=False,
)

api_token = Table(
    "api_token",
    metadata,
    Column("id", Id, primary_key=True),
    Column("hash", LargeBinary, nullable=False),
    Column("user_id", Id, _user_reference(), nullable=False),
    Column("label", StorableText, nullable=False),
    Column("scopes", Text, nullable=False),  # words with spaces between: read write admin
    Column("created", Double, nullable=False),
    Column("last_used", Double),
    UniqueConstraint("hash"),
    Index(None, "user_id"),
    sqlite_autoincrement=True,
)

subscription = Table(
    "subscription",
    metadata,
    Column("user_id", Id, _user_reference(), primary_key=True, autoincrement=False),
    Column("feed_id", Id, ForeignKey("feed.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("title", StorableText),  # the reader's own
    Column("added", Double, nullable=False),
    Column("read_up_to", Id, nullable=False),  # the id of an item
    Index(None, "feed_id"),
    sqlite_with_rowid=False,
)

subscription_tag = Table(
    "subscription_tag",
    metadata,
    Column("user_id", Id, _user_reference(), primary_key=True, autoincrement=False),
    Column("feed_id", Id, ForeignKey("feed.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("tag", StorableText, primary_key=True),
    Index(None, "user_id", "tag", "feed_id"),
    sqlite_with_rowid=False,
)

query_subscription = Table(
    "query_subscription",
    metadata,
    Column("user_id", Id, _user_reference(), primary_key=True, autoincrement=False),
    Column("query_id", Id, ForeignKey("query_feed.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("title", StorableText),
    Column("added", Double, nullable=False),
    Column("read_up_to", Id, nullable=False),  # the id of a hit
    Column("tags", Text),  # JSON
    Index(None, "query_id"),
    sqlite_with_rowid=False,
)

# Labels that a reader puts on single items.
item_label = Table(
    "item_label",
    metadata,
    Column("user_id", Id, _user_reference(), primary_key=True, autoincrement=False),
    Column("label", StorableText, primary_key=True),
    Column("item_id", Id, ForeignKey("item.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Index(None, "item_id"),
    sqlite_with_rowid=False,
)

# No foreign key to the item: `retention` and `feeds` delete marks where they delete items.
mark = Table(
    "mark",
    metadata,
    Column("user_id", Id, _user_reference(), primary_key=True, autoincrement=False),
    Column("feed_id", Id, primary_key=True, autoincrement=False),
    Column("item_id", Id, primary_key=True, autoincrement=False),
    Column("state", SmallInteger),  # 1 read, 0 unread, None by `read_up_to`
    Column("starred", Double),  # since when
    Column("changed", Double, nullable=False),
    # The item's times, if it is marked unread, by which lists of unread items are ordered.
    Column("arrived", Double),
    Column("published", Double),
    partial_index("mark_arrived", "user_id", "arrived", "item_id", "feed_id", "state", where="state = 0"),
    partial_index(
        "mark_published", "user_id", "published", "item_id", "feed_id", "arrived", "state", where="state = 0"
    ),
    partial_index("mark_unread", "user_id", "feed_id", "item_id", where="state = 0"),
    partial_index("mark_starred", "user_id", "item_id", where="starred IS NOT NULL"),
    sqlite_with_rowid=False,
)

# Marks and positions before “mark all as read”, so that it can be undone.
mark_undo = Table(
    "mark_undo",
    metadata,
    Column("id", Id, primary_key=True),
    Column("user_id", Id, _user_reference(), nullable=False),
    Column("at", Double, nullable=False),
    Column("before", Text, nullable=False),  # JSON: positions and marks as they were
    Index(None, "user_id", "at"),
    sqlite_autoincrement=True,
)
