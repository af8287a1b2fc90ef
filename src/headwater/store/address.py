"""When two addresses are one feed: the form of an address that must be unique."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

_DEFAULT_PORT = {"http": 80, "https": 443}


def url_key(url: str) -> str:
    """The address with what RFC 3986 §6.2.2–6.2.3 calls equivalent made equal; never fails.

    >>> url_key("HTTP://Example.org:80#top")
    'http://example.org/'
    >>> url_key("https://example.org/feed?a=1")
    'https://example.org/feed?a=1'
    """
    url = url.strip()
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
        port = parts.port
    except ValueError:
        return url
    if not parts.scheme or not host:
        return url
    netloc = f"[{host}]" if ":" in host else host
    if port is not None and port != _DEFAULT_PORT.get(parts.scheme.lower()):
        netloc += f":{port}"
    user, at, _ = parts.netloc.rpartition("@")
    return SplitResult(parts.scheme.lower(), user + at + netloc, parts.path or "/", parts.query, "").geturl()
