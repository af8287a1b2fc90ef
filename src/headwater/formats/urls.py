"""One form for addresses that mean the same page, so that identities and joins can compare them."""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

# Added by senders of links to follow their readers; the page is the same without them.
_TRACKING: Final = ("utm_", "mc_", "pk_", "fbclid", "gclid", "msclkid", "igshid", "yclid", "wt_mc", "cmpid")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@lru_cache(maxsize=4096)
def normalise_url(url: str) -> str:
    """The address without what does not change its meaning.

    Scheme and host in lower case, no default port, no fragment, no tracking parameters, "/" for an empty path. http and
    https stay apart, and so do a path with and without a final slash: servers do answer them differently.

    >>> normalise_url("HTTP://Example.ORG:80?utm_source=rss&id=7#top")
    'http://example.org/?id=7'
    """
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:  # an unfinished IPv6 literal, a port that is no number: nothing to normalise
        return url.strip()
    if not host:
        return url.strip()
    if ":" in host:
        host = f"[{host}]"
    if port is not None and port != _DEFAULT_PORTS.get(parts.scheme.lower()):
        host = f"{host}:{port}"
    query = parts.query
    if query:
        kept = [(k, v) for k, v in parse_qsl(query, keep_blank_values=True) if not k.lower().startswith(_TRACKING)]
        # Re-encoding may change a query that had nothing to remove; then it is left as the publisher wrote it.
        query = query if len(kept) == query.count("&") + 1 else urlencode(kept)
    return urlunsplit((parts.scheme.lower(), host, parts.path or "/", query, ""))
