"""What an item is called when it is published again, so that whoever meets it twice sees that it is one. Pure."""

from __future__ import annotations

import uuid
from typing import Final

from headwater.formats.write.addresses import to_iri

_GLOBAL: Final = ("http://", "https://", "tag:", "urn:")


def build_published_identity(identity: str, feed_url: str) -> str:
    """An address or name that is unique in the world stays; “123” becomes a name made of the feed's address and it.

    A guid that was not to be trusted is stored as the item's link, with a mark that nobody else knows.

    >>> build_published_identity("tag:example.org,2026:1", "https://example.org/feed")
    'tag:example.org,2026:1'
    >>> build_published_identity("123", "https://example.org/feed")[:9]
    'urn:uuid:'
    """
    known = identity.removeprefix("link:")
    if known.startswith(_GLOBAL):
        return to_iri(known, known)  # Atom takes no spaces, and the formats must agree
    return f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{remove_token(feed_url)}#{known}')}"


def remove_token(url: str) -> str:
    """The address of a feed as others may know it: a token that opens it to us is not for them.

    >>> remove_token("https://example.org/feeds/a.atom?page=2&token=s3cret")
    'https://example.org/feeds/a.atom?page=2'
    """
    address, _, query = url.partition("?")
    if "token=" not in query:
        return url
    kept = "&".join(part for part in query.split("&") if not part.startswith("token="))
    return f"{address}?{kept}" if kept else address
