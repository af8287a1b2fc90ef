"""The tables, as SQLAlchemy knows them; `migrations/` is how a database gets there.

Names are the words of the architecture. Times are epoch seconds, lists are JSON text. What the scheduler updates at
every refresh (`known`, `feed_window`) has no index beyond its key, so that an update stays one page.
"""

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
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import UserDefinedType

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pk",
        "ix": "%(table_name)s_%(column_0_N_name)s",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "fk": "%(table_name)s_%(column_0_N_name)s_fk",
    }
)

Id = BigInteger().with_variant(Integer, "sqlite")  # only an INTEGER key is SQLite's rowid


def feed_reference() -> ForeignKey:
    return ForeignKey("feed.id", ondelete="CASCADE")


feed = Table(
    "feed",
    metadata,
    Column("id", Id, primary_key=True),
    Column("url", Text, nullable=False),
    Column("url_key", Text, nullable=False),  # the address, normalised
    Column("name", Text),
    Column("title", Text),  # the publisher's
    Column("given_title", Text),  # ours, shown instead where set
    Column("link", Text),
    Column("weight", Double, nullable=False),
    Column("added", Double, nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("gone_since", Double),
    UniqueConstraint("url_key"),
    UniqueConstraint("name"),
    sqlite_autoincrement=True,  # an id is never given twice
)

feed_tag = Table(
    "feed_tag",
    metadata,
    Column("feed_id", Id, feed_reference(), primary_key=True),
    Column("tag", Text, primary_key=True),
    Index(None, "tag", "feed_id"),
    sqlite_with_rowid=False,
)

feed_state = Table(
    "known",
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

# Beside `known`, not in it: a start reads all of `known`, a 304 writes `known` and leaves the window alone.
feed_window = Table(
    "feed_window",
    metadata,
    Column("feed_id", Id, feed_reference(), primary_key=True, autoincrement=False),
    Column("entries", Text, nullable=False),  # [[identity, content hash], …]
)

# No foreign keys from here on: `save` has looked the feed up, and a check per row would lock it per row.
seen_identity = Table(
    "seen",
    metadata,
    Column("feed_id", Id, primary_key=True, autoincrement=False),
    Column("key", LargeBinary, primary_key=True),  # 128 bits of the identity's hash
    Column("item_id", Id),  # None once the item has been deleted
    Column("content_hash", Text, nullable=False),
    sqlite_with_rowid=False,
)

item = Table(
    "item",
    metadata,
    Column("id", Id, primary_key=True),
    Column("feed_id", Id, nullable=False),
    Column("published", Double, nullable=False),
    Column("first_seen", Double, nullable=False),
    Column("updated", Double),
    Column("version", Integer, nullable=False),
    Column("dated", Boolean, nullable=False),
    Column("identity", Text, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("title", Text),
    Column("link", Text),
    Column("language", Text),
    Column("authors", Text),
    Column("categories", Text),
    Column("enclosures", Text),
    Column("summary", Text),
    Column("content", Text),
    Column("source", Text),  # [address, title] of the feed it was first published in, where it was published again
    # Lists of a person's unread items walk these without touching the items, which are wide.
    Index(None, "first_seen", "id", "feed_id"),
    Index(None, "published", "id", "feed_id"),
    Index(None, "feed_id", "published", "id"),
    Index(None, "feed_id", "id", "published", "first_seen"),
    sqlite_autoincrement=True,
)

# Items whose words the index does not have yet; an item is either here or indexed as it now reads.
index_queue = Table("unindexed", metadata, Column("item_id", Id, primary_key=True, autoincrement=False))

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

# What happened in each hour, so that a first page adds up 24 hours and not a million refreshes.
hourly_count = Table(
    "tally",
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

outbox = Table(
    "outbox",
    metadata,
    Column("position", Id, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("item_id", Id, nullable=False),
    Column("at", Double, nullable=False),
    sqlite_autoincrement=True,
)

checkpoint = Table(
    "checkpoint",
    metadata,
    Column("consumer", Text, primary_key=True),
    Column("position", BigInteger, nullable=False),
)

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
    UniqueConstraint("key"),
    Index(None, "revision"),
    sqlite_autoincrement=True,
)

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
    "published",
    metadata,
    Column("query_id", Id, primary_key=True, autoincrement=False),
    Column("key", LargeBinary, primary_key=True),
    Column("item_id", Id, nullable=False),
    sqlite_with_rowid=False,
)

# The versions of items that query feeds have published: they stay as they were when the item changes or is deleted.
item_version = Table(
    "edition",
    metadata,
    Column("item_id", Id, primary_key=True, autoincrement=False),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("blob", LargeBinary, nullable=False),
)

# Selectivity is `kept` / (`offered` − `base`): items of the feed that the query kept, of those it was offered.
selectivity = Table(
    "query_source",
    metadata,
    Column("query_id", Id, ForeignKey("query_feed.id", ondelete="CASCADE"), primary_key=True),
    Column("feed_id", Id, primary_key=True, autoincrement=False),
    Column("kept", BigInteger, nullable=False),
    Column("base", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

offered_count = Table(
    "offered",
    metadata,
    Column("feed_id", Id, primary_key=True, autoincrement=False),
    Column("number", BigInteger, nullable=False),
)

# Articles: the pages behind items, fetched for these feeds and for what these query feeds publish.
article_feed = Table(
    "article_feed", metadata, Column("feed_id", Id, feed_reference(), primary_key=True, autoincrement=False)
)

article_query = Table(
    "article_query",
    metadata,
    Column("query_id", Id, ForeignKey("query_feed.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
)

article = Table(
    "article",
    metadata,
    Column("item_id", Id, primary_key=True, autoincrement=False),
    Column("url", Text, nullable=False),
    Column("state", Text, nullable=False),  # due, failed (tried again at `due`), done, dead
    Column("due", Double),
    Column("attempts", Integer, nullable=False),
    Column("at", Double, nullable=False),
    Column("written", LargeBinary),  # the hash of the text that was written into the item
    Column("message", Text),
    Index(None, "due"),
)

saved_state = Table(
    "state",
    metadata,
    Column("name", Text, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("saved", Double, nullable=False),
    Column("blob", LargeBinary, nullable=False),
)


class TsVector(UserDefinedType[str]):
    """PostgreSQL's type, by name: its whole dialect is only loaded by those who use it."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "TSVECTOR"


class TsQuery(UserDefinedType[str]):
    """What a TsVector is asked."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "TSQUERY"


# The index of words: this table in PostgreSQL, with a GIN index that only the migration names, because naming it here
# would load the dialect as well; an FTS5 table of the same name in SQLite.
postgres_metadata = MetaData(naming_convention=metadata.naming_convention)
item_search = Table(
    "item_search",
    postgres_metadata,
    Column("item_id", BigInteger, primary_key=True, autoincrement=False),
    Column("words", TsVector, nullable=False),
)
