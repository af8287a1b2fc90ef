"""Collects all tables, since every module of tables is imported here, and creates them."""

from __future__ import annotations

import time

from sqlalchemy import Connection, Index, insert

from headwater.store.schema import (
    cluster_tables,
    feed_tables,
    item_tables,
    publication_tables,
    query_tables,
    reader_tables,
)
from headwater.store.schema.metadata import metadata, postgres_metadata

MODULES = (feed_tables, item_tables, query_tables, reader_tables, publication_tables, cluster_tables)

__all__ = ["MODULES", "create_tables", "metadata"]


def create_tables(connection: Connection) -> None:
    """Create all tables, the search index and the first account in an empty database."""
    if connection.dialect.name == "postgresql":
        for table in metadata.tables.values():
            for index in table.indexes:
                _use_condition_in_postgres(index)
        postgres_metadata.create_all(connection, checkfirst=False)
        connection.exec_driver_sql("CREATE INDEX item_search_words ON item_search USING gin (words)")
    else:
        # Contentless: the words are computed from the item, and storing them again would double the file.
        connection.exec_driver_sql("CREATE VIRTUAL TABLE item_search USING fts5(words, content='', tokenize='ascii')")
    metadata.create_all(connection, checkfirst=False)
    owner = {"name": "owner", "name_key": "owner", "role": "owner", "created": time.time()}
    connection.execute(insert(reader_tables.user), owner)


def _use_condition_in_postgres(index: Index) -> None:
    """Give a partial index its condition in PostgreSQL, too; declared with the table it would load the dialect."""
    index.dialect_options["postgresql"]["where"] = index.dialect_options["sqlite"]["where"]
