"""Finds query feeds for a visitor: those whose result they may read, and those that are theirs to change."""

from __future__ import annotations

from headwater.model import QueryFeed
from headwater.store.queries.query_access import find_readable_query, owns_query
from headwater.store.readers.accounts import User
from headwater.store.store import Store
from headwater.web.auth.authentication import Forbidden


async def find_own_query(store: Store, user: User, name: str) -> QueryFeed:
    """Return a query feed whose definition is the user's. Raises NotFound or Forbidden."""
    found = await store.read(find_readable_query, user, name)
    if not owns_query(user, found):
        raise Forbidden(f"{found.name} belongs to somebody else. You can read its items.")
    return found
