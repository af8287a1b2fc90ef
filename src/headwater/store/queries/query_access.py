"""Tells who owns a query feed and who may read its result."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, or_, update

from headwater.errors import NotFound
from headwater.model import QueryFeed
from headwater.store.queries import query_feeds
from headwater.store.readers.accounts import User
from headwater.store.schema.query_tables import query_feed

MAX_DESCRIPTION_LENGTH = 1000
PRIVATE, SHARED, PUBLIC = VISIBILITIES = ("private", "shared", "public")


def owns_query(user: User, query: QueryFeed) -> bool:
    """Return whether the definition and the deliveries are the user's: a reader's own, or the server's for owners."""
    return user.is_owner if query.reader_id is None else query.reader_id == user.id


def may_read_query(user: User, query: QueryFeed) -> bool:
    """Return whether the user may see the name, the description and the result."""
    return query.visibility in (SHARED, PUBLIC) or owns_query(user, query)


def list_readable_queries(connection: Connection, user: User, *, after: int = 0, limit: int = 100) -> list[QueryFeed]:
    """List the query feeds that a user may read by id, beyond `after`."""
    return query_feeds.list_query_feeds(connection, after=after, limit=limit, which=_select_readable(user))


def _select_readable(user: User) -> ColumnElement[bool]:
    """Return the condition for the query feeds that a user may read."""
    mine = query_feed.c.reader_id == user.id
    own = or_(mine, query_feed.c.reader_id.is_(None)) if user.is_owner else mine
    return or_(own, query_feed.c.visibility.in_((SHARED, PUBLIC)))


def find_readable_query(connection: Connection, user: User, name: str) -> QueryFeed:
    """Find a query feed by name. Raises NotFound also for one that the user may not read, with the same sentence."""
    try:
        found = query_feeds.find_query_feed(connection, name)
    except NotFound as error:
        if user.is_owner:  # the suggestion names query feeds, which a reader may not know
            raise
        raise NotFound(f"There is no query feed “{name[:100]}” that you may read.") from error
    if not may_read_query(user, found):
        raise NotFound(f"There is no query feed “{name[:100]}” that you may read.")
    return found


def change_description(connection: Connection, query_id: int, description: str) -> None:
    """Set the description of a query feed; blank removes it."""
    values = {"description": description.strip()[:MAX_DESCRIPTION_LENGTH] or None}
    connection.execute(update(query_feed).where(query_feed.c.id == query_id).values(values))


def may_read_query_id(connection: Connection, user: User, query_id: int) -> bool:
    """Return whether there is a query feed with this id that the user may read."""
    found = query_feeds.find_query_feeds(connection, [query_id])
    return bool(found) and may_read_query(user, found[0])
