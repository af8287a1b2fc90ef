"""What pushed feeds need of HTTP: where a feed says its hub is, and whether a push really comes from it. Pure."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from urllib.parse import urljoin

from headwater.model import Document

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
