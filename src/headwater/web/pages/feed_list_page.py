"""All feeds, a hundred at a time: found by words, by tag, by what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.errors import HeadwaterError, InputError, StoreError
from headwater.model import Ending
from headwater.store.content.feed_overview import FEED_STATES, FeedFilter, FeedOverview
from headwater.store.store import Store
from headwater.web.auth.authentication import require_user
from headwater.web.auth.cross_site import RequestRefused
from headwater.web.page import make_field_error, read_flash, redirect_with_flash
from headwater.web.site import Site, parse_integer, redirect_inside

PAGE_SIZE = 100
SHOWN_TAGS = 500  # offered in the field for tags
FLASH = {
    "removed": "The feed and its items are removed.",
    "unsubscribed": "You no longer subscribe to the feed; what you starred stays.",
    "known": "The feed was there already.",
}


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
    """`state` is one of STATES or how the last refresh ended ("timeout"); `subscriber` sees only what they read."""
    ending = next((one for one in Ending if one.value == state and not one.ok), None)
    which = FeedFilter(tag or None, find or None, state if state in FEED_STATES else None, ending, subscriber)
    found = await store.pages.feeds(which, after=after, limit=PAGE_SIZE + 1)
    wish = {"find": find, "tag": tag, "state": state}
    more = f"/feeds?{urlencode(wish | {'after': found[PAGE_SIZE - 1].feed.id})}" if len(found) > PAGE_SIZE else None
    return FeedListPage(
        tuple(found[:PAGE_SIZE]),
        await store.count_feeds(),
        tuple(name for name, _ in (await store.tags())[:SHOWN_TAGS]),
        find,
        tag,
        state,
        f"/feeds?{urlencode(wish)}" if after else None,
        more,
    )


def routes(frame: Site) -> list[Route]:
    async def show(request: Request) -> Response:
        query = request.query_params
        page = await load_feed_list(
            frame.store,
            query.get("find", "")[:200],
            query.get("tag", "")[:100],
            query.get("state", "")[:20],
            parse_integer(query.get("after"), 0) or 0,
            subscriber=await _visible_to(request),
        )
        states = dict.fromkeys((*FEED_STATES, *([page.state] if page.state else [])))
        return frame.render_page(request, "feeds.html", page=page, states=states, note=read_flash(request, FLASH))

    async def add(request: Request) -> Response:
        form = await frame.forms.read_form(request)
        address = form.get("address", "").strip()
        try:
            if not address:
                raise InputError("No address was given: paste the address of a feed, or of a page that has one.")
            added = await frame.add_feed(address, (await require_user(request, "write")).id)
        except StoreError:
            raise
        except HeadwaterError as error:
            page = await load_feed_list(frame.store, subscriber=await _visible_to(request))
            note = make_field_error(error, form, "address")
            status = error.status if isinstance(error, RequestRefused) else 400
            return frame.render_page(request, "feeds.html", status, page=page, states=FEED_STATES, note=note)
        if form.get("to"):
            return redirect_inside(request, form["to"])
        return redirect_with_flash(f"/feed/{added.feed.id}", said="added" if added.created else "known")

    return [Route("/feeds", show), Route("/feeds", add, methods=["POST"])]


async def _visible_to(request: Request) -> int | None:
    """Whose feeds are listed: owners see all of them."""
    user = await require_user(request)
    return None if user.is_owner else user.id
