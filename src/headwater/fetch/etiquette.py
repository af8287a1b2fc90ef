"""What the headers of an answer mean for the next request: validators, freshness, Retry-After. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from headwater.model import Validators

MINUTE, WEEK = 60.0, 7 * 86400.0
FEED_TYPES = (
    "application/atom+xml, application/rss+xml, application/feed+json, application/rdf+xml;q=0.9, "
    "application/xml;q=0.8, text/xml;q=0.8, application/json;q=0.7, */*;q=0.1"
)

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_LONGEST_VALIDATOR = 4096
_MAX_AGE = re.compile(r'(?i)(?:^|[,\s])max-age\s*=\s*"?(\d+)')
_NOT_FRESH = re.compile(r"(?i)(?:^|[,\s])no-(?:cache|store)(?![\w=-])")


def _replayable(value: str | None) -> str | None:
    """A validator as it came, or None where sending it back could split a header or change its bytes."""
    if not value or len(value) > _LONGEST_VALIDATOR or _UNSAFE.search(value):
        return None
    return value


def conditions(validators: Validators | None, *, delta: bool = False) -> dict[str, str]:
    """The request headers that make a fetch conditional (RFC 9110 §13); `A-IM` only beside If-None-Match (RFC 3229)."""
    headers: dict[str, str] = {}
    if validators is None:
        return headers
    if etag := _replayable(validators.etag):
        headers["If-None-Match"] = etag
        if delta:
            headers["A-IM"] = "feed"
    if modified := _replayable(validators.last_modified):
        headers["If-Modified-Since"] = modified
    return headers


def validators_of(headers: Mapping[str, str]) -> Validators:
    """What a 200 gives to keep; what it does not give is dropped."""
    return Validators(_replayable(headers.get("ETag")), _replayable(headers.get("Last-Modified")))


def merged(old: Validators | None, headers: Mapping[str, str]) -> Validators:
    """What a 304 leaves: its own validators where it has them, the old ones elsewhere (RFC 9111 §4.3.4)."""
    new = validators_of(headers)
    if old is None:
        return new
    return Validators(new.etag or old.etag, new.last_modified or old.last_modified)


def http_date(text: str) -> float | None:
    """An HTTP date in any of its three forms, as UTC seconds."""
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The wait a server demands, seconds or date, clamped to [1 min, 7 d]: a mistake must not end a feed.

    >>> retry_after({"Retry-After": "120"}, 0.0), retry_after({"Retry-After": "-1"}, 0.0)
    (120.0, 60.0)
    """
    text = headers.get("Retry-After")
    if text is None:
        return None
    text = text.strip()
    try:
        wait = float(text)
    except ValueError:
        date = http_date(text)
        if date is None:
            return None
        wait = date - now
    if wait != wait:
        return None
    return min(max(wait, MINUTE), WEEK)


def fresh_for(headers: Mapping[str, str], now: float) -> float | None:
    """How long the answer stays fresh (RFC 9111 §4.2.1): max-age less Age, else Expires; at most 7 d.

    >>> fresh_for({"Cache-Control": "public, max-age=600", "Age": "100"}, 0.0)
    500.0
    """
    control = headers.get("Cache-Control")
    age = headers.get("Age", "")
    lifetime: float | None = None
    if control is not None:
        if _NOT_FRESH.search(control):
            return None
        if found := _MAX_AGE.search(control):
            lifetime = float(found[1][:12])
    if lifetime is None:
        expires = headers.get("Expires")
        if expires is None:
            return None
        until = http_date(expires)
        if until is None:
            return None
        lifetime = until - (http_date(headers.get("Date", "")) or now)
    if age.isascii() and age.isdigit():
        lifetime -= float(age[:12])
    return min(lifetime, WEEK) if lifetime > 0 else None
