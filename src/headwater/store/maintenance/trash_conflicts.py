"""Checks whether a trashed object can be restored: its name or address may be taken, or something it refers to gone.

InputError names the obstacle and the remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from sqlalchemy import Connection, delete, select

from headwater.errors import InputError
from headwater.store.maintenance.trash import READS
from headwater.store.maintenance.trash_rows import (
    TRASHED_API_TOKEN,
    TRASHED_FEED,
    TRASHED_MERGE,
    TRASHED_QUERY_FEED,
    TRASHED_SUBSCRIPTION,
    TRASHED_USER,
    list_trash_rows,
)
from headwater.store.schema.feed_tables import feed
from headwater.store.schema.query_tables import query_feed
from headwater.store.schema.reader_tables import api_token, query_subscription, subscription, user


def check_conflicts(connection: Connection, kind: str, number: int, scopes: Collection[str]) -> None:
    """Nothing is in the way from here on, or InputError."""
    if kind in _CHECKS:
        _CHECKS[kind](connection, number, scopes)


def _check_feed(connection: Connection, number: int, scopes: Collection[str]) -> None:
    for row in list_trash_rows(connection, number, feed.name):
        taken = connection.execute(select(feed.c.id).where(feed.c.url_key == row["url_key"])).scalar()
        if taken is not None:
            raise InputError(f"{row['url']} is here again, as feed {taken}. Remove that one first, or keep it.")
        if row["name"] is not None:
            _require_free_name(connection, row["name"])


def _check_query_feeds(connection: Connection, number: int, scopes: Collection[str]) -> None:
    for row in list_trash_rows(connection, number, query_feed.name):
        _require_free_name(connection, row["name"])
    needed = [row["name"] for row in list_trash_rows(connection, number, READS)]
    keys = [name.casefold() for name in needed]
    there = set(connection.execute(select(query_feed.c.key).where(query_feed.c.key.in_(keys))).scalars())
    if missing := [name for name in needed if name.casefold() not in there]:
        raise InputError(f"It reads the query feed {missing[0]}, which is not here any more. Bring that back first.")


def _require_free_name(connection: Connection, name: str) -> None:
    """Sources and query feeds share their names."""
    key = name.casefold()
    taken = connection.execute(select(query_feed.c.name).where(query_feed.c.key == key)).scalar()
    names = connection.execute(select(feed.c.name).where(feed.c.name.is_not(None))).scalars()
    if taken is not None or any(other.casefold() == key for other in names):
        raise InputError(f"Another feed is called {taken or name} now. Remove that one first, or keep it.")


def _check_user(connection: Connection, number: int, scopes: Collection[str]) -> None:
    for row in list_trash_rows(connection, number, user.name):
        taken = connection.execute(select(user.c.name).where(user.c.name_key == row["name_key"])).scalar()
        if taken is not None:
            raise InputError(f"There is a user “{taken}” again. Give that one another name first, or remove it.")


def _check_token(connection: Connection, number: int, scopes: Collection[str]) -> None:
    for row in list_trash_rows(connection, number, api_token.name):
        if lacking := set(row["scopes"].split()) - set(scopes):
            raise InputError(f"You cannot bring back what may do more than you: {', '.join(sorted(lacking))}.")


def _check_subscription(connection: Connection, number: int, scopes: Collection[str]) -> None:
    """Let a reader who has subscribed again meanwhile have the old title and position back; later marks stay."""
    for table, column, of in ((subscription, "feed_id", feed), (query_subscription, "query_id", query_feed)):
        for row in list_trash_rows(connection, number, table.name):
            if connection.execute(select(of.c.id).where(of.c.id == row[column])).first() is None:
                raise InputError("What it was a subscription to is not here any more. Bring that back first.")
            mine = (table.c.user_id == row["user_id"], table.c[column] == row[column])
            connection.execute(delete(table).where(*mine))


_CHECKS: dict[str, Callable[[Connection, int, Collection[str]], None]] = {
    TRASHED_FEED: _check_feed,
    TRASHED_MERGE: _check_feed,
    TRASHED_QUERY_FEED: _check_query_feeds,
    TRASHED_USER: _check_user,
    TRASHED_API_TOKEN: _check_token,
    TRASHED_SUBSCRIPTION: _check_subscription,
}
