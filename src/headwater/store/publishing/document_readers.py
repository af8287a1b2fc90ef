"""Counts the distinct readers of published documents, by week.

A reader is a keyed hash of an address and the week: it says nothing about the next week or another server.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, delete, func, select

from headwater.store.database.dialect import insert_or_ignore
from headwater.store.schema.publication_tables import document_reader

WEEK = 7 * 86_400.0


def week_of(now: float) -> int:
    return int(now // WEEK)


def add_document_readers(connection: Connection, week: int, readers: Iterable[tuple[str, bytes]]) -> None:
    """Add readers by path, and forget those before last week."""
    rows = [{"path": path, "week": week, "reader": reader} for path, reader in readers]
    if rows:
        connection.execute(insert_or_ignore(connection, document_reader), rows)
    connection.execute(delete(document_reader).where(document_reader.c.week < week - 1))


def count_document_readers(connection: Connection, now: float) -> dict[str, int]:
    """Count the readers of each path: of this week or the last, whichever had more."""
    week, number = week_of(now), func.count()
    query = select(document_reader.c.path, number).where(document_reader.c.week.in_((week, week - 1)))
    found: dict[str, int] = {}
    for path, readers in connection.execute(query.group_by(document_reader.c.path, document_reader.c.week)):
        found[path] = max(found.get(path, 0), readers)
    return found
