"""Finds the registered domain of a host or URL."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import urlsplit

from publicsuffixlist import PublicSuffixList

_IP_ADDRESS = re.compile(r"[^:]*:.*|(.*\.)?(\d+|0x[0-9a-f]*)", re.DOTALL)  # as browsers: a name ending in a number


@lru_cache(maxsize=1)
def _load_suffix_list() -> PublicSuffixList:
    return PublicSuffixList()


@lru_cache(maxsize=16384)
def registered_domain(host: str) -> str:
    """Return the registered domain of a host; an IP address or local name is returned as it is.

    >>> registered_domain("feeds.news.example.co.uk")
    'example.co.uk'
    """
    name = host.rstrip(".").lower()
    last = name.rpartition(".")[2]
    # A last label of letters cannot be part of an IP address; this check is cheaper than the pattern.
    if not (last.isascii() and last.isalpha()) and _IP_ADDRESS.fullmatch(name):
        return name
    return _load_suffix_list().privatesuffix(name) or name


def registered_domain_of_url(url: str) -> str:
    """Return the registered domain of an address's host; empty if it has none, or is half an IPv6 address.

    >>> registered_domain_of_url("https://feeds.example.org/a"), registered_domain_of_url("http://[::1/a")
    ('example.org', '')
    """
    host, _, port = url.partition("://")[2].partition("/")[0].partition(":")
    plain = host.isascii() and host.replace(".", "").replace("-", "").isalnum() and (not port or port.isdigit())
    if plain:  # `urlsplit` would be slow for a million feeds at start-up
        return registered_domain(host)
    try:
        return registered_domain(urlsplit(url).hostname or "")
    except ValueError:
        return ""
