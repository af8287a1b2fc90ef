"""The feeds page lists and filters feeds and adds one; the Discover page finds the feeds of an address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.responses import Response

from headwater.errors import InputError
from headwater.fetch.discovery import FeedCandidate, discover_candidates
from headwater.model import Ending
from headwater.store.content.feed_overview import FEED_STATES, FeedFilter, FeedOverview, list_feed_overviews
from headwater.store.content.feeds import count_feed_tags, count_feeds
from headwater.store.readers.accounts import READ, WRITE
from headwater.store.readers.subscriptions import count_subscribed_feeds, count_subscription_tags
from headwater.store.store import Store
from headwater.web.page import PageGroup, Visit
from headwater.web.shared.reader_quota import join_feed
from headwater.web.shared.suggestions import suggest_feeds
from headwater.web.site import parse_integer, redirect_inside

PAGE_SIZE = 100
SHOWN_TAGS = 500  # suggestions of the tag field
FLASH = {
    "subscribed": "You subscribe to the feed now.",
    "removed": "Feed removed, with its items.",
    "unsubscribed": "Unsubscribed. Starred items stay.",
    "known": "The feed was there already.",
}


pages = PageGroup(FLASH)


@dataclass(frozen=True, slots=True)
class FeedListPage:
    rows: tuple[FeedOverview, ...]
    total: int
    tags: tuple[str, ...]
    find: str
    tag: str
    state: str
    before: str | None
    more: str | None
    size: int = PAGE_SIZE


async def load_feed_list(
    store: Store, find: str = "", tag: str = "", state: str = "", after: int = 0, subscriber: int | None = None
) -> FeedListPage:
    """Load a page of feeds. `state` is one of FEED_STATES or an ending, as "timeout"; `subscriber` limits it to their
    feeds and tags."""
    ending = next((one for one in Ending if one.value == state and not one.ok), None)
    which = FeedFilter(tag or None, find or None, state if state in FEED_STATES else None, ending, subscriber)
    found = await store.read(list_feed_overviews, which, after=after, limit=PAGE_SIZE + 1)
    wish = {"find": find, "tag": tag, "state": state}
    more = f"/feeds?{urlencode(wish | {'after': found[PAGE_SIZE - 1].feed.id})}" if len(found) > PAGE_SIZE else None
    if subscriber is None:
        total, tags = await store.read(count_feeds), [tag for tag, _ in await store.read(count_feed_tags)]
    else:
        total = await store.read(count_subscribed_feeds, subscriber)
        tags = sorted(await store.read(count_subscription_tags, subscriber))
    return FeedListPage(
        tuple(found[:PAGE_SIZE]),
        total,
        tuple(tags[:SHOWN_TAGS]),
        find,
        tag,
        state,
        f"/feeds?{urlencode(wish)}" if after else None,
        more,
    )


@pages.get("/feeds", READ)
async def show_feeds(visit: Visit) -> Response:
    query = {name: visit.query(name)[:length] for name, length in (("find", 200), ("tag", 100), ("state", 20))}
    reader = None if visit.user.is_owner else visit.user.id  # owners see all feeds
    page = await load_feed_list(visit.store, **query, after=visit.integer("after", 0) or 0, subscriber=reader)
    states = dict.fromkeys((*FEED_STATES, *([page.state] if page.state else [])))
    return visit.render("feed_list_page.html", page=page, states=states)


@pages.post("/feeds", WRITE, error_page=show_feeds, error_field="address")
async def add_feed(visit: Visit) -> Response:
    address = visit.field("address")
    if not address:
        raise InputError("No address was given. Paste the address of a feed, or of a page that has one.")
    added = await visit.site.add_feed(address, visit.user.id)
    if visit.form.get("to"):
        return redirect_inside(visit.form["to"])
    return visit.redirect(f"/feed/{added.feed.id}", flash="added" if added.created else "known")


NO_ADDRESS = "No address was given. Paste the address of a feed, or of a page that has one."


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
