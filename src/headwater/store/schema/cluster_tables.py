"""Declares the tables of a cluster: leases, members, jobs, lessons, requests and quarantined messages."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Integer, LargeBinary, SmallInteger, Table, Text

from headwater.store.schema.metadata import Id, metadata

# A lease is held by one process at a time; `epoch` grows whenever it passes to another, and a write under an old epoch
# is refused. `until` is a time of the database's clock, the only one that all machines share.
lease = Table(
    "lease",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("until", Double, nullable=False),
)

# The processes of the cluster, by their last heartbeats.
member = Table(
    "member",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("seen", Double, nullable=False),  # the database's clock
    Column("info", Text, nullable=False),  # JSON
)

# Refresh jobs, at most one per feed, in clusters that use PostgreSQL as their queue.
job = Table(
    "job",
    metadata,
    Column("feed_id", Id, primary_key=True, autoincrement=False),
    Column("partition", SmallInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("taken_until", Double, nullable=False),  # 0 while nobody has it
    Column("tries", Integer, nullable=False),
    Index(None, "partition"),
)

# Lessons from stored refreshes that the controller has not learned yet; written in the refreshes' transaction.
lesson = Table(
    "lesson",
    metadata,
    Column("id", Id, primary_key=True),
    Column("body", LargeBinary, nullable=False),
    sqlite_autoincrement=True,
)

# Refreshes that a person, or a hub that announced something new, asks of the leader from another process.
refresh_request = Table(
    "refresh_request",
    metadata,
    Column("feed_id", Id, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),  # the database's clock
    Column("by_hub", Boolean, nullable=False),
    Column("newer_than", Double, nullable=False),  # the last refresh that the requester knows; a later one ends it
)

# Requests beside refreshes (a feed that a person adds, an article) that a process wants to send, and the leader grants.
request_grant = Table(
    "request_grant",
    metadata,
    Column("id", Id, primary_key=True),
    Column("asked", Double, nullable=False),  # the database's clock, like all
    Column("granted", Double),
    Column("ended", Double),
    sqlite_autoincrement=True,
)

# Messages that failed several times, kept with their body for a person to look at.
quarantine = Table(
    "quarantine",
    metadata,
    Column("id", Id, primary_key=True),
    Column("at", Double, nullable=False),
    Column("subject", Text, nullable=False),
    Column("problem", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    sqlite_autoincrement=True,
)
