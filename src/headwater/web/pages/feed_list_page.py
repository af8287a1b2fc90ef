"""The feeds page: lists and filters feeds, adds one."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.responses import Response

from headwater.errors import InputError
from headwater.model import Ending
from headwater.store.content.feed_overview import FEED_STATES, FeedFilter, FeedOverview, list_feed_overviews
from headwater.store.content.feeds import count_feed_tags, count_feeds
from headwater.store.readers.accounts import READ, WRITE
from headwater.store.readers.subscriptions import count_subscribed_feeds, count_subscription_tags
from headwater.store.store import Store
from headwater.web.page import PageGroup, Visit
from headwater.web.site import redirect_inside

PAGE_SIZE = 100
SHOWN_TAGS = 500  # suggestions of the tag field
FLASH = {
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
