"""Finds the feeds behind an address. Every candidate is fetched and parsed before it is returned."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import urljoin, urlsplit

from headwater.errors import AddressError, InputError, NotAFeed, Unreachable
from headwater.fetch.client import Fetcher, Page
from headwater.fetch.http.headers import FEED_TYPES
from headwater.fetch.page_links import COMMON_FEED_PATHS, FeedCandidate, PageLinks, read_page_links, strip_feed_scheme
from headwater.fetch.site_feeds import derive_lookup, derive_page_feeds, derive_site_feeds, read_lookup
from headwater.model import Ending, Outcome

__all__ = ["FeedCandidate", "discover_candidates"]

_ACCEPT = FEED_TYPES.replace("*/*;q=0.1", "text/html;q=0.6, */*;q=0.1")
_SCHEME = re.compile(r"(?i)[a-z][a-z0-9+.-]*:(?!\d+(?:[/?#]|$))")
_CHARSET = re.compile(r"(?i)charset\s*=\s*[\"']?([\w.:-]+)")


async def discover_candidates(fetcher: Fetcher, address: str) -> list[FeedCandidate]:
    """Return the feeds of an address: of a well-known site, the address itself, links its page declares, anchors, or
    common paths.

    Raises AddressError, Unreachable or NotAFeed if there are none.
    """
    if feeds := await _find_site_feeds(fetcher, address):
        return feeds
    page = await _fetch_page(fetcher, address)
    if not page.ok:
        raise InputError(f"{page.final_url} answered with an error ({page.status}). Check the address.")
    try:
        document = await fetcher.read_feed(page)
    except NotAFeed as error:
        reason = error
    else:
        return [FeedCandidate(page.moved_to or page.url, document.title, document.format, "address")]
    found = await asyncio.to_thread(_read_links, page)
    feeds, broken = await _verify_candidates(fetcher, found.links)
    if feeds:
        return feeds
    places = [[FeedCandidate(urljoin(page.final_url, path), how="path")] for path in COMMON_FEED_PATHS]
    for candidates in (derive_page_feeds(page.final_url, page.body), found.anchors, *places):
        feeds, _ = await _verify_candidates(fetcher, candidates)
        if feeds:
            return feeds
    if reason.what == "html":
        title = f" (“{found.title}”)" if found.title else ""
        failure = f" It links to {broken.url}, but: {broken.message}" if broken else ""
        sentence = f"{page.final_url} is a web page{title}, and it has no feed.{failure}"
        raise NotAFeed(sentence, "html") from reason
    raise NotAFeed(f"No feed was found at {page.final_url}. {reason}", reason.what) from reason


async def _find_site_feeds(fetcher: Fetcher, address: str) -> list[FeedCandidate]:
    """Find the feeds that a rule for a well-known site derives from the address, if they are there."""
    candidates = derive_site_feeds(address)
    lookup = derive_lookup(address)
    if lookup is not None:
        try:
            page = await fetcher.get(lookup[0], accept="application/json")
        except (AddressError, Unreachable):
            return []
        candidates = read_lookup(page.body, lookup[1]) if page.ok else []
    return (await _verify_candidates(fetcher, candidates))[0]


async def _fetch_page(fetcher: Fetcher, address: str) -> Page:
    """Fetch an address. Without a scheme, try https, then http."""
    address = address.strip()
    if address[:5].lower() == "feed:":
        address = strip_feed_scheme(address)
    if not address:
        raise AddressError("The address is missing. Enter the address of a feed or a website.")
    if _SCHEME.match(address):
        return await fetcher.get(address, accept=_ACCEPT)
    address = address.lstrip("/")
    try:
        return await fetcher.get(f"https://{address}", accept=_ACCEPT)
    except Unreachable as error:
        if error.ending == Ending.DNS:
            raise
        try:
            return await fetcher.get(f"http://{address}", accept=_ACCEPT)
        except Unreachable:
            raise error from None


def _read_links(page: Page) -> PageLinks:
    charset = _CHARSET.search(page.content_type)
    return read_page_links(
        page.body, page.final_url, charset=charset[1] if charset else None, header=page.headers.get("Link")
    )


async def _verify_candidates(
    fetcher: Fetcher, candidates: Iterable[FeedCandidate]
) -> tuple[list[FeedCandidate], Outcome | None]:
    """Return the candidates that parse as feeds, in order and without duplicates, and the first failed outcome."""
    feeds: dict[str, FeedCandidate] = {}
    broken: Outcome | None = None
    outcomes = await asyncio.gather(*(fetcher.fetch(candidate.url) for candidate in candidates))
    for candidate, outcome in zip(candidates, outcomes, strict=True):
        if outcome.document is not None and outcome.ending.ok:
            found = replace(
                candidate,
                url=outcome.moved_to or candidate.url,
                title=outcome.document.title or candidate.title,
                type=outcome.document.format,
            )
            feeds.setdefault(_comparison_key(outcome.final_url), found)
        else:
            broken = broken or outcome
    return list(feeds.values()), broken


def _comparison_key(url: str) -> str:
    parts = urlsplit(url)
    return f"{(parts.hostname or '').removeprefix('www.')}{parts.path.rstrip('/')}?{parts.query}"
