"""Reads response headers: validators, freshness, Retry-After, Link, WebSub signatures."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import lru_cache
from urllib.parse import urldefrag, urljoin

from aiohttp import hdrs
from msgspec.structs import replace
from multidict import CIMultiDictProxy, istr

from headwater.model import Document, Markup, Validators

SIGNATURE_METHODS = ("sha1", "sha256", "sha384", "sha512")  # WebSub §7.1
_MAX_HUBS = 20  # hubs of a feed
_LINK = re.compile(r"<([^<>]{1,2000})>((?:\s*;\s*[\w*-]{1,20}(?:\s*=\s*(?:\"[^\"]{0,500}\"|[^\s\";,]{0,500}))?){1,10})")
_PARAMETER = re.compile(r";\s*([\w*-]{1,20})(?:\s*=\s*(?:\"([^\"]*)\"|([^\s\";,]*)))?")


def add_header_links(document: Document[Markup], header: Sequence[str], base: str) -> Document[Markup]:
    """Add the hubs and the self address of the Link headers; they take precedence over the document's (WebSub §4)."""
    if not header:
        return document
    hubs: list[str] = []
    own: str | None = None
    for address, parameters in parse_link_header(", ".join(header), base):
        relations = parameters.get("rel", "").lower().split()
        if "hub" in relations and address not in hubs:
            hubs.append(address)
        if "self" in relations and own is None:
            own = address
    if not hubs:
        return document
    more = [hub for hub in document.hub if hub not in hubs]
    return replace(document, hub=tuple([*hubs, *more][:_MAX_HUBS]), self=own or document.self)


def parse_link_header(header: str, base: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the web addresses of a Link header with their parameters (RFC 8288); the first value of a name counts.

    >>> list(parse_link_header('</hub>; rel="hub self"; title="A; B"', "https://example.org/feed"))
    [('https://example.org/hub', {'rel': 'hub self', 'title': 'A; B'})]
    """
    for link in _LINK.finditer(header[:20_000]):
        try:
            address = urldefrag(urljoin(base, link[1].strip())).url
        except ValueError:
            continue
        parameters: dict[str, str] = {}
        for name, quoted, plain in _PARAMETER.findall(link[2]):
            parameters.setdefault(name.lower(), (quoted or plain).strip())
        if address.startswith(("http://", "https://")):
            yield address, parameters


def has_valid_signature(secret: str, given: str, body: bytes) -> bool:
    """Return whether X-Hub-Signature was made with the secret.

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
    """Return a validator, or None if sending it back could split a header or change its bytes."""
    if not value or len(value) > _MAX_VALIDATOR:
        return None
    if value.isascii():
        return value if value.isprintable() else None
    return None if _UNSAFE.search(value) else value


def build_conditions(validators: Validators | None, *, delta: bool = False) -> dict[str, str]:
    """Return the headers of a conditional request (RFC 9110 §13); `A-IM` only with If-None-Match (RFC 3229)."""
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
    """Return the validators of a 200."""
    return Validators(_keep_if_replayable(headers.get(hdrs.ETAG)), _keep_if_replayable(headers.get(hdrs.LAST_MODIFIED)))


def merge_validators(old: Validators | None, headers: Mapping[str, str]) -> Validators:
    """Update validators from a 304: its own where it has them, else the old ones (RFC 9111 §4.3.4)."""
    etag, modified = headers.get(hdrs.ETAG), headers.get(hdrs.LAST_MODIFIED)
    if old is not None and etag in (None, old.etag) and modified in (None, old.last_modified):
        return old
    etag, modified = _keep_if_replayable(etag), _keep_if_replayable(modified)
    return Validators(etag, modified) if old is None else Validators(etag or old.etag, modified or old.last_modified)


def parse_http_date(text: str) -> float | None:
    """Parse an HTTP date in any of its three forms as UTC seconds."""
    if not text:
        return None
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def parse_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds of Retry-After, clamped to [1 min, 7 d] so that a mistake of the server does not end a feed.

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
    """Return max-age of Cache-Control; 0 for no-cache and no-store, None if it has none of them."""
    if _NO_CACHE.search(control):
        return 0.0
    found = _MAX_AGE.search(control)
    return float(found[1][:12]) if found else None


def compute_freshness(headers: Mapping[str, str], now: float) -> float | None:
    """Return how many seconds a response stays fresh (RFC 9111 §4.2.1): max-age − Age, else Expires; at most 7 d.

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
