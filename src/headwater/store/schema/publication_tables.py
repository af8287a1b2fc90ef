"""Declares the tables of publishing: private feeds, deliveries, our hub and our leases at other hubs."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Double, Index, Integer, LargeBinary, Table, Text, UniqueConstraint

from headwater.store.schema.metadata import Id, StorableText, feed_reference, metadata, partial_index

# Tags (/tags/name) and the owner's list (/feeds) that their owner made public or private; the others are private. Paths
# are case-folded. Query feeds have their `visibility`.
published_path = Table(
    "published_path",
    metadata,
    Column("path", Text, primary_key=True),
    Column("public", Boolean, nullable=False),
)

feed_token = Table(
    "feed_token",
    metadata,
    Column("hash", LargeBinary, primary_key=True),  # SHA-256; the token itself is shown once and kept nowhere
    Column("path", Text, nullable=False),
    Column("label", StorableText, nullable=False),
    Column("created", Double, nullable=False),
    Index(None, "path"),
    sqlite_with_rowid=False,
)

# Deliveries of hits: one for each query feed, item and sink. Rows with one `batch` go in one message, which does not
# change once it was tried, so that the receiver recognises a repetition by its key.
delivery = Table(
    "delivery",
    metadata,
    Column("id", Id, primary_key=True),
    Column("query_id", Id, nullable=False),
    Column("query", Text, nullable=False),  # its name, kept when the query feed is deleted
    Column("hit_id", Id, nullable=False),
    Column("item_id", Id, nullable=False),
    Column("kind", Text, nullable=False),  # email, webhook, notify
    Column("address", Text, nullable=False),
    Column("state", Text, nullable=False),  # due, failed (tried again at `due`), sent, dead
    Column("due", Double),  # None when there is nothing left to do
    Column("slot", Double),  # the time of its digest
    Column("batch", Text),
    Column("attempts", Integer, nullable=False),
    Column("at", Double, nullable=False),  # of the last change
    Column("message", Text),
    Column("alert", Text),  # a sentence about the query feed itself, instead of an item
    UniqueConstraint("query_id", "item_id", "kind", "address"),
    Index(None, "due"),
    Index(None, "batch"),
    # The first rows of each receiver are found without reading the others.
    partial_index("delivery_address_due", "address", "due", where="due IS NOT NULL"),
    sqlite_autoincrement=True,
)

# Templates of deliveries; `query` is the case-folded name of a query feed, or empty for the server's template.
delivery_template = Table(
    "delivery_template",
    metadata,
    Column("query", Text, primary_key=True),
    Column("subject", StorableText),
    Column("body", StorableText),
)

# The WebSub hub: requests that the callback must confirm, and subscribers. `key` is a hash of topic and callback, which
# are too long for an index.
hub_request = Table(
    "hub_request",
    metadata,
    Column("id", Id, primary_key=True),
    Column("key", LargeBinary, nullable=False),
    Column("mode", Text, nullable=False),  # subscribe, unsubscribe, denied
    Column("topic", Text, nullable=False),
    Column("callback", Text, nullable=False),
    Column("secret", Text),
    Column("lease", Double),
    Column("reason", Text),  # of a denial
    Column("due", Double, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("sender", Text),  # the address that sent the request, to limit how many wait
    UniqueConstraint("key"),
    Index(None, "due"),
    sqlite_autoincrement=True,
)

hub_subscriber = Table(
    "hub_subscriber",
    metadata,
    Column("id", Id, primary_key=True),
    Column("key", LargeBinary, nullable=False),
    Column("topic", Text, nullable=False),
    Column("callback", Text, nullable=False),
    Column("secret", Text),
    Column("since", Double, nullable=False),
    Column("until", Double, nullable=False),  # the end of the lease
    Column("sent", Text),  # the ETag of the state last sent
    Column("due", Double),  # when to send; None when it has the present state
    Column("attempts", Integer, nullable=False),
    Column("message", Text),
    UniqueConstraint("key"),
    Index(None, "due"),
    sqlite_autoincrement=True,
)

# Readers of published documents: keyed hashes of their addresses, which differ from week to week.
document_reader = Table(
    "document_reader",
    metadata,
    Column("path", Text, primary_key=True),  # without the document's format
    Column("week", Integer, primary_key=True, autoincrement=False),  # since 1970
    Column("reader", LargeBinary, primary_key=True),
    Index(None, "week"),
    sqlite_with_rowid=False,
)

# Our own subscriptions at hubs, one for each feed that offers one.
websub_lease = Table(
    "websub_lease",
    metadata,
    Column("feed_id", Id, feed_reference(), primary_key=True, autoincrement=False),
    Column("key", Text, nullable=False),  # the last part of the callback's address, which nobody can guess
    Column("hub", Text, nullable=False),
    Column("topic", Text, nullable=False),
    Column("secret", Text, nullable=False),
    Column("state", Text, nullable=False),  # asked, active, silent, refused
    Column("pending", Double),  # until when a verification is expected
    Column("since", Double),
    Column("until", Double),  # the end of the lease
    Column("due", Double, nullable=False),  # when to ask (again)
    Column("attempts", Integer, nullable=False),
    Column("pushes", Integer, nullable=False),
    Column("pushed", Double),  # the last one
    Column("message", Text),
    UniqueConstraint("key"),
    Index(None, "due"),
)

# Subscriptions at hubs that are to be ended: the hub is told until it confirms, or until its lease is over.
websub_cancellation = Table(
    "websub_cancellation",
    metadata,
    Column("key", Text, primary_key=True),  # of the callback
    Column("hub", Text, nullable=False),
    Column("topic", Text, nullable=False),
    Column("until", Double),  # the end of the lease, where it had been confirmed
    Column("due", Double, nullable=False),
    Column("attempts", Integer, nullable=False),
    Index(None, "due"),
)
