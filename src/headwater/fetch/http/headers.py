"""What the headers of an answer mean for the next request: validators, freshness, Retry-After. Pure."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import lru_cache
from urllib.parse import urljoin

from aiohttp import hdrs
from msgspec.structs import replace
from multidict import CIMultiDictProxy, istr

from headwater.model import Document, Validators

SIGNATURE_METHODS = ("sha1", "sha256", "sha384", "sha512")  # WebSub §7.1
_MAX_HUBS = 20  # hubs of a feed
_LINK_HEADER = re.compile(
    r"<([^<>]{1,2000})>((?:\s*;\s*[\w*-]{1,20}(?:\s*=\s*(?:\"[^\"]{0,500}\"|[^\s\";,]{0,500}))?){1,10})"
)
_RELATION = re.compile(r"(?i);\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s\";,]+))")


def add_header_links(document: Document, header: Sequence[str], base: str) -> Document:
    """The document with the hubs and the self address of the Link headers, which go before its own (WebSub §4)."""
    if not header:
        return document
    hubs: list[str] = []
    own: str | None = None
    for address, relations in _parse_links(", ".join(header), base):
        if "hub" in relations and address not in hubs:
            hubs.append(address)
        if "self" in relations and own is None:
            own = address
    if not hubs:
        return document
    more = [hub for hub in document.hub if hub not in hubs]
    return replace(document, hub=tuple([*hubs, *more][:_MAX_HUBS]), self=own or document.self)


def _parse_links(header: str, base: str) -> Iterator[tuple[str, list[str]]]:
    for found in _LINK_HEADER.finditer(header[:20_000]):
        relation = _RELATION.search(found[2])
        if relation is None:
            continue
        try:
            address = urljoin(base, found[1].strip())
        except ValueError:
            continue
        if address.startswith(("http://", "https://")):
            yield address, (relation[1] or relation[2] or "").lower().split()


def has_valid_signature(secret: str, given: str, body: bytes) -> bool:
    """Whether X-Hub-Signature shows that the sender knows the secret.

    >>> has_valid_signature("key", "sha1=104152c5bfdca07bc633eebd46199f0255c9f49d", b"")
    False
    """
    method, _, digest = given.strip().partition("=")
    if method.lower() not in SIGNATURE_METHODS or not digest.isascii():
        return False
    return hmac.compare_digest(hmac.new(secret.encode(), body, method.lower()).hexdigest(), digest.strip().lower())


MINUTE, WEEK = 60.0, 7 * 86400.0
FEED_TYPES = (
    "application/atom+xml, application/rss+xml, application/feed+json, application/rdf+xml;q=0.9, "
    "application/xml;q=0.8, text/xml;q=0.8, application/json;q=0.7, */*;q=0.1"
)

A_IM = istr("A-IM")

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_MAX_VALIDATOR = 4096
_MAX_AGE = re.compile(r'(?i)(?:^|[,\s])max-age\s*=\s*"?(\d+)')
_NO_CACHE = re.compile(r"(?i)(?:^|[,\s])no-(?:cache|store)(?![\w=-])")


def _keep_if_replayable(value: str | None) -> str | None:
    """A validator as it came, or None where sending it back could split a header or change its bytes."""
    if not value or len(value) > _MAX_VALIDATOR:
        return None
    if value.isascii():
        return value if value.isprintable() else None
    return None if _UNSAFE.search(value) else value


def build_conditions(validators: Validators | None, *, delta: bool = False) -> dict[str, str]:
    """The request headers that make a fetch conditional (RFC 9110 §13); `A-IM` only beside If-None-Match (RFC 3229)."""
    headers: dict[str, str] = {}
    if validators is None:
        return headers
    if etag := _keep_if_replayable(validators.etag):
        headers[hdrs.IF_NONE_MATCH] = etag
        if delta:
            headers[A_IM] = "feed"
    if modified := _keep_if_replayable(validators.last_modified):
        headers[hdrs.IF_MODIFIED_SINCE] = modified
    return headers


def read_validators(headers: Mapping[str, str]) -> Validators:
    """What a 200 gives to keep; what it does not give is dropped."""
    return Validators(_keep_if_replayable(headers.get(hdrs.ETAG)), _keep_if_replayable(headers.get(hdrs.LAST_MODIFIED)))


def merge_validators(old: Validators | None, headers: Mapping[str, str]) -> Validators:
    """What a 304 leaves: its own validators where it has them, the old ones elsewhere (RFC 9111 §4.3.4)."""
    etag, modified = headers.get(hdrs.ETAG), headers.get(hdrs.LAST_MODIFIED)
    if old is not None and etag in (None, old.etag) and modified in (None, old.last_modified):
        return old
    etag, modified = _keep_if_replayable(etag), _keep_if_replayable(modified)
    return Validators(etag, modified) if old is None else Validators(etag or old.etag, modified or old.last_modified)


def parse_http_date(text: str) -> float | None:
    """An HTTP date in any of its three forms, as UTC seconds."""
    if not text:
        return None
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def parse_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The wait a server demands, seconds or date, clamped to [1 min, 7 d]: a mistake must not end a feed.

    >>> parse_retry_after({"Retry-After": "120"}, 0.0), parse_retry_after({"Retry-After": "-1"}, 0.0)
    (120.0, 60.0)
    """
    text = headers.get(hdrs.RETRY_AFTER)
    if text is None:
        return None
    text = text.strip()
    try:
        wait = float(text)
    except ValueError:
        date = parse_http_date(text)
        if date is None:
            return None
        wait = date - now
    if wait != wait:
        return None
    return min(max(wait, MINUTE), WEEK)


@lru_cache(maxsize=1024)
def _parse_max_age(control: str) -> float | None:
    """What Cache-Control says: seconds, 0 where nothing may be kept, None where it says neither."""
    if _NO_CACHE.search(control):
        return 0.0
    found = _MAX_AGE.search(control)
    return float(found[1][:12]) if found else None


def compute_freshness(headers: Mapping[str, str], now: float) -> float | None:
    """How long the answer stays fresh (RFC 9111 §4.2.1): max-age less Age, else Expires; at most 7 d.

    >>> compute_freshness({"Cache-Control": "public, max-age=600", "Age": "100"}, 0.0)
    500.0
    """
    control = headers.get(hdrs.CACHE_CONTROL)
    if control is not None and isinstance(headers, CIMultiDictProxy):
        lines = headers.getall(hdrs.CACHE_CONTROL)
        control = control if len(lines) == 1 else ", ".join(lines)  # one list, RFC 9110 §5.3
    lifetime = _parse_max_age(control) if control else None
    if lifetime is None:
        expires = parse_http_date(headers.get(hdrs.EXPIRES, ""))
        if expires is None:
            return None
        lifetime = expires - (parse_http_date(headers.get(hdrs.DATE, "")) or now)
    age = headers.get(hdrs.AGE)
    if age and age.isascii() and age.isdigit():
        lifetime -= float(age[:12])
    return min(lifetime, WEEK) if lifetime > 0 else None
