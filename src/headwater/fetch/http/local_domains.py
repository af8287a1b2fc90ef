"""Recognises domains of the local network."""

from __future__ import annotations

from functools import lru_cache

from headwater.fetch.http.address_guard import is_public, parse_literal_address


@lru_cache(maxsize=1024)
def is_local_domain(domain: str) -> bool:
    """Return whether a domain is on the local network, where requests need no pause."""
    address = parse_literal_address(domain)
    return not is_public(address) if address is not None else "." not in domain
