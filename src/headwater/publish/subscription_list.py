"""Lists a reader's subscriptions for OPML, query feeds under addresses that any reader app can fetch.

The address of a private query feed of one's own contains a token. It is the same in every list until it is revoked: it
is derived from a secret of the server and the time at which it was made, so only its hash is stored.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct
from base64 import urlsafe_b64encode
from urllib.parse import quote

from sqlalchemy import Connection, select

from headwater.formats.opml import Outline
from headwater.model import QueryFeed
from headwater.store import saved_state
from headwater.store.publishing.private_feeds import add_feed_token
from headwater.store.queries.query_access import PUBLIC, owns_query
from headwater.store.queries.query_feeds import find_query_feeds
from headwater.store.readers.accounts import User
from headwater.store.readers.subscriptions import Subscription, list_subscriptions
from headwater.store.schema.publication_tables import feed_token
from headwater.store.store import Store

SECRET_STATE = "subscription list secret"


async def list_outlines(store: Store, user: User, base: str, now: float) -> list[Outline]:
    """Return the outlines of a reader's subscriptions; `base` is the address of the server.

    A query feed that somebody else shares has no token in its address: it opens for the reader's account.
    """
    mine = await store.read(list_subscriptions, user.id)
    ids = [one.query_id for one in mine if one.query_id is not None]
    queries = await store.read(find_query_feeds, ids) if ids else []
    private = [one for one in queries if one.visibility != PUBLIC and owns_query(user, one)]
    tokens = await store.write(_ensure_tokens, user, private, secrets.token_bytes(32), now) if private else {}
    return [Outline(_build_address(one, base, tokens), one.title, one.link, one.tags) for one in mine]


def _build_address(one: Subscription, base: str, tokens: dict[int, str]) -> str:
    if one.query_id is None:
        return one.url
    address = f"{base}{quote(one.url)}.atom"
    return f"{address}?token={tokens[one.query_id]}" if one.query_id in tokens else address


def _ensure_tokens(
    connection: Connection, user: User, queries: list[QueryFeed], new_secret: bytes, now: float
) -> dict[int, str]:
    """Return the token of each query feed for a reader's list, and store the hashes of new ones."""
    saved_state.save_state_once(connection, SECRET_STATE, 1, new_secret, now)
    kept = saved_state.load_state(connection, SECRET_STATE)
    assert kept is not None
    label, found = f"OPML of {user.name}", {}
    for query in queries:
        path = f"/feeds/{query.name}"
        same = (feed_token.c.path == path.casefold(), feed_token.c.label == label)
        rows = connection.execute(select(feed_token.c.hash, feed_token.c.created).where(*same)).all()
        stored = {bytes(row.hash): _derive_token(kept[1], user.id, query.id, row.created) for row in rows}
        token = next((token for hash, token in stored.items() if _hash(token) == hash), None)
        if token is None:
            token = _derive_token(kept[1], user.id, query.id, now)
            add_feed_token(connection, path, _hash(token), label, now)
        found[query.id] = token
    return found


def _derive_token(secret: bytes, user_id: int, query_id: int, created: float) -> str:
    digest = hmac.digest(secret, struct.pack(">qqd", user_id, query_id, created), "sha256")
    return urlsafe_b64encode(digest[:24]).decode()


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
