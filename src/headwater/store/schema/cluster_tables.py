"""Declares the tables of a cluster: leases, members, jobs, lessons, requests and quarantined messages."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Integer, LargeBinary, SmallInteger, Table, Text

from headwater.store.schema.metadata import Id, metadata

# Several machines. A lease is held by one process at a time; `epoch` grows whenever it passes to another, and a write
# under an old epoch is refused. `until` is the database's clock, the only one all machines share.
lease = Table(
    "lease",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("until", Double, nullable=False),
)

# Who takes part, as it said last.
member = Table(
    "member",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("seen", Double, nullable=False),  # the database's clock
    Column("info", Text, nullable=False),  # JSON
)

# Refreshes to be made, where PostgreSQL alone carries them: one for a feed at a time.
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

# What the controller has still to learn from refreshes that were stored; written in their transaction.
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

# Messages that could not be dealt with after several tries, with their body, so that a person can look at them.
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
