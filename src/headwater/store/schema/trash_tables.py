"""The tables of what was removed and can still be brought back: who removed what, and the rows it was made of."""

from __future__ import annotations

from sqlalchemy import Column, Double, ForeignKey, Index, Integer, LargeBinary, Table, Text

from headwater.store.schema.feed_tables import Id, metadata

removal = Table(
    "removal",
    metadata,
    Column("id", Id, primary_key=True),
    Column("user_id", Id),  # who did it; None: the command line. It outlives their account
    Column("at", Double, nullable=False),
    Column("kind", Text, nullable=False),
    Column("label", Text, nullable=False),  # what people call it
    Index(None, "at"),
    sqlite_autoincrement=True,
)

# In the order in which they are to be inserted again: what others refer to comes first.
removed = Table(
    "removed",
    metadata,
    Column("removal_id", Id, ForeignKey("removal.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("table_name", Text, nullable=False),
    Column("blob", LargeBinary, nullable=False),
)
