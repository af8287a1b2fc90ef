"""Collects all tables, since every module of tables is imported here, and creates them."""

from __future__ import annotations

import time

from sqlalchemy import Connection, insert, inspect
from sqlalchemy.schema import CreateColumn

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

__all__ = ["MODULES", "complete_tables", "create_tables", "metadata"]


def create_tables(connection: Connection) -> None:
    """Create all tables, the search index and the first account in an empty database."""
    if connection.dialect.name == "postgresql":
        postgres_metadata.create_all(connection, checkfirst=False)
        connection.exec_driver_sql("CREATE INDEX item_search_words ON item_search USING gin (words)")
    else:
        # Contentless: the words are computed from the item, and storing them again would double the file.
        connection.exec_driver_sql("CREATE VIRTUAL TABLE item_search USING fts5(words, content='', tokenize='ascii')")
    _use_conditions_in_postgres(connection)
    metadata.create_all(connection, checkfirst=False)
    owner = {"name": "owner", "name_key": "owner", "role": "owner", "created": time.time()}
    connection.execute(insert(reader_tables.user), owner)


def complete_tables(connection: Connection) -> None:
    """Create the tables, columns and indexes that a database of an earlier version lacks."""
    _use_conditions_in_postgres(connection)
    found, dialect = inspect(connection), connection.dialect
    there = set(found.get_table_names())
    for table in metadata.sorted_tables:
        if table.name not in there:
            table.create(connection)
            continue
        columns = {one["name"] for one in found.get_columns(table.name)}
        for column in table.columns:
            if column.name not in columns:
                name, definition = dialect.identifier_preparer.format_table(table), CreateColumn(column)
                connection.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN {definition.compile(dialect=dialect)}")
        indexes = {one["name"] for one in found.get_indexes(table.name)}
        for index in table.indexes:
            if index.name not in indexes:
                index.create(connection)


def _use_conditions_in_postgres(connection: Connection) -> None:
    """Give partial indexes their conditions in PostgreSQL: declared with the tables, they would load its dialect."""
    if connection.dialect.name == "postgresql":
        for table in metadata.tables.values():
            for index in table.indexes:
                index.dialect_options["postgresql"]["where"] = index.dialect_options["sqlite"]["where"]
