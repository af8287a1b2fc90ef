"""Declares the tables of feeds: feeds, tags, states, windows, the refresh log and its hourly counts.

Times are epoch seconds, lists are JSON text. The tables that every refresh updates (`feed_state`, `feed_window`) have
no index beyond their key, so that an update stays one page.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    select,
)

from headwater.store.schema.metadata import (
    Id,
    StorableText,
    feed_reference,
    metadata,
    partial_index,
    unique_outside_trash,
)

feed = Table(
    "feed",
    metadata,
    Column("id", Id, primary_key=True),
    Column("url", StorableText, nullable=False),
    Column("url_key", StorableText, nullable=False),  # the address, normalised
    Column("name", StorableText),
    Column("title", StorableText),  # the publisher's
    Column("given_title", StorableText),  # set by a person, shown instead
    Column("link", StorableText),
    Column("weight", Double, nullable=False),
    Column("interval", Double),  # seconds: the longest pause between two refreshes that a person allows
    Column("added", Double, nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("gone_since", Double),
    Column("deleted_at", Double),  # moved to the trash then; `feed_state` and subscriptions wait in the trash entry
    unique_outside_trash("feed_url_key", "url_key"),
    unique_outside_trash("feed_name", "name"),
    partial_index("feed_deleted_at", "deleted_at", where="deleted_at IS NOT NULL"),
    sqlite_autoincrement=True,  # an id is never used again
)
FEED_IS_LIVE = feed.c.deleted_at.is_(None)
TRASHED_FEEDS = select(feed.c.id).where(feed.c.deleted_at.is_not(None))

feed_tag = Table(
    "feed_tag",
    metadata,
    Column("feed_id", Id, feed_reference(), primary_key=True),
    Column("tag", StorableText, primary_key=True),
    Index(None, "tag", "feed_id"),
    sqlite_with_rowid=False,
)

feed_state = Table(
    "feed_state",
    metadata,
    Column("feed_id", Id, feed_reference(), primary_key=True, autoincrement=False),
    Column("window", Integer, nullable=False),  # size of the last document
    Column("last_refresh", Double),
    Column("last_success", Double),
    Column("last_change", Double),
    Column("next_refresh", Double),
    Column("not_before", Double),
    Column("fresh_until", Double),
    Column("failures", Integer, nullable=False),
    Column("failing_since", Double),
    Column("moves", Integer, nullable=False),
    Column("unstable", Integer, nullable=False),
    Column("etag", Text),
    Column("last_modified", Text),
    Column("body_hash", Text),
    Column("last_error", Text),
    Column("moved_to", Text),
    Column("hub", Text),
    Column("topic", Text),
    Column("hints", Text),
)

# Not in `feed_state`: at start all of `feed_state` is read, and a 304 updates it without the window.
feed_window = Table(
    "feed_window",
    metadata,
    Column("feed_id", Id, feed_reference(), primary_key=True, autoincrement=False),
    Column("entries", Text, nullable=False),  # [[identity, content hash], …]
)


refresh = Table(
    "refresh",
    metadata,
    Column("id", Id, primary_key=True),
    Column("feed_id", Id, nullable=False),
    Column("at", Double, nullable=False),
    Column("ending", Text, nullable=False),
    Column("status", SmallInteger),
    Column("elapsed", Double, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("new", Integer, nullable=False),
    Column("updated", Integer, nullable=False),
    Column("duplicates", Integer, nullable=False, server_default="0"),
    Column("window", Integer),
    Column("overlap", Integer),
    Column("saturated", Boolean, nullable=False),
    Column("lost", Double, nullable=False),
    Column("reason", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("published", Text),
    UniqueConstraint("feed_id", "at"),  # one row per fetch, however often its result arrives
    Index(None, "at"),
    sqlite_autoincrement=True,
)

# Counts by hour, so that a page adds up 24 hours and not a million refreshes.
hourly_count = Table(
    "hourly_count",
    metadata,
    Column("hour", Integer, primary_key=True, autoincrement=False),
    Column("ending", Text, primary_key=True),
    Column("refreshes", BigInteger, nullable=False),
    Column("new", BigInteger, nullable=False),
    Column("updated", BigInteger, nullable=False),
    Column("lost", Double, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
