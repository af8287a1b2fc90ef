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
    and_,
    or_,
    select,
)

from headwater.store.schema.metadata import Id, StorableText, feed_reference, metadata, unique_outside_trash

# Query feeds. `text` is the latest definition; it applies from the outbox's `position` on. `active` is the definition
# that the query processor runs: the previous one until it has reached that position. `form` is `text` parsed and
# packed, `revision` the revision counter of query feeds when `text` was saved.
query_feed = Table(
    "query_feed",
    metadata,
    Column("id", Id, primary_key=True),
    Column("key", Text, nullable=False),  # the case-folded name
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
    Column("author_id", Id),  # the last author, whose time zone its digests follow; kept when the account is deleted
    Column("reader_id", Id),  # the reader whose query it is; None for the server's, which every owner manages
    Column("visibility", Text),  # private, shared, public; None, as long as nobody has set it, is private too
    Column("description", StorableText),
    Column("deleted_at", Double),  # moved to the trash then
    unique_outside_trash("query_feed_key", "key"),
    Index(None, "revision"),
    sqlite_autoincrement=True,
)
QUERY_IS_LIVE = query_feed.c.deleted_at.is_(None)
PRIVATE_SOURCE = "Private source: "  # the problem of a query feed whose owner may not read its source any more
QUERY_MAY_PUBLISH = and_(
    QUERY_IS_LIVE, or_(query_feed.c.problem.is_(None), query_feed.c.problem.not_like(f"{PRIVATE_SOURCE}%"))
)
TRASHED_QUERIES = select(query_feed.c.id).where(query_feed.c.deleted_at.is_not(None))


# Feeds whose addresses queries give; `implicit_feed` lists the feeds that exist for no other reason.
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
    Column("related", Text),  # items found by joins
    Column("changes", Text),  # the fields that SET has rewritten
    UniqueConstraint("item_id", "query_id"),
    Index(None, "query_id", "id"),
    Index(None, "query_id", "published"),
    Index(None, "query_id", "arrived"),
    sqlite_autoincrement=True,
)


# Origins of published items: `key` stands for the feed in which an item was first published and its identity there, so
# that a query feed recognises the item when it comes back from another aggregator as `item_id`.
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


# One record per hour of each query with a TARGET, and of the server as a whole (query 0): the promise, the
# prediction, the measurement, and whether the promise was kept in the day before.
promise_hour = Table(
    "promise_hour",
    metadata,
    Column("query_id", Id, primary_key=True, autoincrement=False),
    Column("hour", Integer, primary_key=True, autoincrement=False),
    Column("promised", Text, nullable=False),  # JSON: completeness, freshness, delay
    Column("predicted", Text, nullable=False),  # the same
    Column("got", BigInteger, nullable=False),
    Column("lost", Double, nullable=False),
    Column("dated", BigInteger, nullable=False),
    Column("in_time", BigInteger, nullable=False),
    Column("waited", Double, nullable=False),
    Column("missing", Double, nullable=False),
    Column("watched", Double, nullable=False),
    Column("kept", Boolean),
    Column("why", Text, nullable=False),
    Index(None, "hour"),
    sqlite_with_rowid=False,
)


offered_count = Table(
    "offered_count",
    metadata,
    Column("feed_id", Id, primary_key=True, autoincrement=False),
    Column("number", BigInteger, nullable=False),
)
