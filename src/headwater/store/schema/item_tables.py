"""Declares the tables of items: items, seen identities, the outbox, articles and saved states."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, ForeignKey, Index, Integer, LargeBinary, Table, Text

from headwater.store.schema.metadata import Id, TsVector, feed_reference, metadata, postgres_metadata

# No foreign keys in these tables: saving a verdict has looked the feed up, and a check per row would lock it per row.
seen_identity = Table(
    "seen_identity",
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
    Column("details", Text),  # JSON: lead picture, addresses of the authors, episode of a podcast
    # Lists of a reader's unread items use these indexes without reading the items, which are large.
    Index(None, "first_seen", "id", "feed_id"),
    Index(None, "published", "id", "feed_id"),
    Index(None, "feed_id", "published", "id"),
    Index(None, "feed_id", "id", "published", "first_seen"),
    sqlite_autoincrement=True,
)


# Items that wait to be indexed; an item is either here or in the index as it is now.
index_queue = Table("index_queue", metadata, Column("item_id", Id, primary_key=True, autoincrement=False))


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


# The versions of items before their last changes, the latest ten of each; `until` is when the next one came.
earlier_version = Table(
    "earlier_version",
    metadata,
    Column("item_id", Id, primary_key=True, autoincrement=False),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("until", Double, nullable=False),
    Column("blob", LargeBinary, nullable=False),
)


# The story of each item: which item it joined, how alike they are, and by which words. `story_id` is the story's first
# item, which retention may have deleted. `stems` are compared with later items after a restart.
item_story = Table(
    "item_story",
    metadata,
    Column("item_id", Id, primary_key=True, autoincrement=False),
    Column("story_id", Id, nullable=False),
    Column("joined_id", Id),
    Column("score", Double),
    Column("words", Text, nullable=False),
    Column("stems", Text, nullable=False),
    Column("publisher", Text, nullable=False),
    Column("continues_id", Id),
    Index(None, "story_id"),
)


# Articles: the pages behind items, fetched for the items of these feeds and for the hits of these query feeds.
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


# The HTML of articles, compressed, for as many as `article_pages` says.
article_page = Table(
    "article_page",
    metadata,
    Column("item_id", Id, primary_key=True, autoincrement=False),
    Column("url", Text, nullable=False),  # where it was found in the end
    Column("at", Double, nullable=False),
    Column("html", LargeBinary, nullable=False),
    Index(None, "at"),
)


saved_state = Table(
    "saved_state",
    metadata,
    Column("name", Text, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("saved", Double, nullable=False),
    Column("blob", LargeBinary, nullable=False),
)


item_search = Table(
    "item_search",
    postgres_metadata,
    Column("item_id", BigInteger, primary_key=True, autoincrement=False),
    Column("words", TsVector, nullable=False),
)
