"""The Discover page: finds the feeds of an address and shows suggestions."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from headwater.errors import InputError
from headwater.fetch.discovery import FeedCandidate, discover_candidates
from headwater.store.readers.accounts import READ, WRITE
from headwater.web.page import PageGroup, Visit
from headwater.web.shared.reader_quota import join_feed
from headwater.web.shared.suggestions import suggest_feeds
from headwater.web.site import parse_integer

FLASH = {"subscribed": "You subscribe to the feed now."}
NO_ADDRESS = "No address was given. Paste the address of a feed, or of a page that has one."

pages = PageGroup(FLASH)


@pages.get("/discover", READ)
async def show_discover(visit: Visit) -> Response:
    return await _render_discover(visit)


@pages.post("/discover", WRITE, error_page=show_discover, error_field="address")
async def find_feeds(visit: Visit) -> Response:
    """Find the feeds of an address: the only one is added at once, of several the reader chooses."""
    site, address = visit.site, visit.field("address")
    if not address:
        raise InputError(NO_ADDRESS)
    await site.reader_quota.check_additions(visit.user, [address])
    found = await discover_candidates(site.aggregator.fetcher, address)
    if len(found) > 1:
        return await _render_discover(visit, found)
    added = await site.add_feed(found[0].url, visit.user.id)
    return visit.redirect(f"/read/feed/{added.feed.id}")


@pages.post("/discover/add", WRITE, error_page=show_discover, error_field="address")
async def add_chosen_feed(visit: Visit) -> Response:
    address = visit.field("address")
    if not address:
        raise InputError(NO_ADDRESS)
    added = await visit.site.add_feed(address, visit.user.id)
    return visit.redirect(f"/read/feed/{added.feed.id}")


@pages.post("/discover/subscribe", WRITE)
async def subscribe_to_feed(visit: Visit) -> Response:
    """Subscribe to a feed that the server has already."""
    await join_feed(visit.store, visit.user, parse_integer(visit.field("feed")) or 0, visit.now)
    return visit.redirect("/discover", flash="subscribed")


async def _render_discover(visit: Visit, candidates: Sequence[FeedCandidate] | None = None) -> Response:
    page = await suggest_feeds(visit.site, visit.user.id)
    return visit.render("discover_page.html", page=page, candidates=candidates, address=visit.field("address"))
