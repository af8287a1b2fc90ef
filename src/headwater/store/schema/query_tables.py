"""Declares the tables of query feeds: definitions, hits, published versions and selectivity."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    select,
)

from headwater.store.schema.metadata import Id, feed_reference, metadata, unique_outside_trash

# Standing queries. `text` is the definition as it was last given, from the outbox's `position` on; `active` the one
# that the query processor runs, which is the one before until it has come to that position. `form` is `text` as it was
# read, packed; `revision` what the counter of changes of queries said when `text` was given.
query_feed = Table(
    "query_feed",
    metadata,
    Column("id", Id, primary_key=True),
    Column("key", Text, nullable=False),  # the name without regard to case
    Column("name", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("created", Double, nullable=False),
    Column("replaced", Double),
    Column("active", Text),
    Column("active_position", BigInteger),
    Column("importance", Double, nullable=False),
    Column("problem", Text),  # why the processor cannot run it
    Column("form", LargeBinary),
    Column("revision", BigInteger, nullable=False, server_default="0"),
    Column("author_id", Id),  # who wrote it last, whose time zone its digests go by; it outlives their account
    Column("deleted_at", Double),  # moved to the trash then
    unique_outside_trash("query_feed_key", "key"),
    Index(None, "revision"),
    sqlite_autoincrement=True,
)
QUERY_IS_LIVE = query_feed.c.deleted_at.is_(None)
TRASHED_QUERIES = select(query_feed.c.id).where(query_feed.c.deleted_at.is_not(None))


# Feeds whose addresses stand in queries; `implicit_feed` has those that are here for no other reason.
query_address = Table(
    "query_address",
    metadata,
    Column("query_id", Id, ForeignKey("query_feed.id", ondelete="CASCADE"), primary_key=True),
    Column("feed_id", Id, feed_reference(), primary_key=True),
    Index(None, "feed_id"),
    sqlite_with_rowid=False,
)


implicit_feed = Table(
    "implicit_feed", metadata, Column("feed_id", Id, feed_reference(), primary_key=True, autoincrement=False)
)


# Items that come out of query feeds; the id is the place in the stream. A hit of a definition that has been replaced is
# no longer `current`, but remembers that it was delivered.
hit = Table(
    "hit",
    metadata,
    Column("id", Id, primary_key=True),
    Column("query_id", Id, nullable=False),
    Column("item_id", Id, nullable=False),
    Column("feed_id", Id, nullable=False),
    Column("version", Integer, nullable=False),
    Column("arrived", Double, nullable=False),
    Column("published", Double, nullable=False),
    Column("fresh", Boolean, nullable=False),  # was to be delivered
    Column("current", Boolean, nullable=False),
    Column("branches", Text, nullable=False),
    Column("related", Text),  # what joins found
    Column("changes", Text),  # the fields that SET wrote anew
    UniqueConstraint("item_id", "query_id"),
    Index(None, "query_id", "id"),
    Index(None, "query_id", "published"),
    Index(None, "query_id", "arrived"),
    sqlite_autoincrement=True,
)


# What query feeds have published, by where it was published first and under which identity: what comes back from
# another aggregator is known by it. `item_id` is the item that stands for it.
origin = Table(
    "origin",
    metadata,
    Column("query_id", Id, primary_key=True, autoincrement=False),
    Column("key", LargeBinary, primary_key=True),
    Column("item_id", Id, nullable=False),
    sqlite_with_rowid=False,
)


# The versions of items that query feeds have published: they stay as they were when the item changes or is deleted.
item_version = Table(
    "item_version",
    metadata,
    Column("item_id", Id, primary_key=True, autoincrement=False),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("blob", LargeBinary, nullable=False),
)


# Selectivity is `kept` / (`offered` − `base`): items of the feed that the query kept, of those it was offered.
selectivity = Table(
    "selectivity",
    metadata,
    Column("query_id", Id, ForeignKey("query_feed.id", ondelete="CASCADE"), primary_key=True),
    Column("feed_id", Id, primary_key=True, autoincrement=False),
    Column("kept", BigInteger, nullable=False),
    Column("base", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)


offered_count = Table(
    "offered_count",
    metadata,
    Column("feed_id", Id, primary_key=True, autoincrement=False),
    Column("number", BigInteger, nullable=False),
)
