"""Collects all tables: `metadata` from here is complete, because every module of tables is imported."""

from __future__ import annotations

from headwater.store.schema import (
    cluster_tables,
    feed_tables,
    item_tables,
    publication_tables,
    query_tables,
    reader_tables,
)
from headwater.store.schema.metadata import metadata

MODULES = (feed_tables, item_tables, query_tables, reader_tables, publication_tables, cluster_tables)

__all__ = ["MODULES", "metadata"]
