"""All feeds, a hundred at a time: found by words, by tag, by what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.errors import HeadwaterError, InputError, StoreError
from headwater.model import Ending
from headwater.store.page_store import STATES, FeedRow, Which
from headwater.store.store import Store
from headwater.web.forms import Refused
from headwater.web.frame import Frame, back, integer
from headwater.web.pages.notes import said, then, wrong
from headwater.web.session import current

SIZE = 100
TAGS = 500  # offered in the field for tags
SAID = {
    "removed": "The feed and its items are removed.",
    "unsubscribed": "You no longer subscribe to the feed; what you starred stays.",
    "known": "The feed was there already.",
}


@dataclass(frozen=True, slots=True)
class FeedsPage:
    rows: tuple[FeedRow, ...]
    total: int
    tags: tuple[str, ...]
    find: str
    tag: str
    state: str
    before: str | None
    more: str | None
    size: int = SIZE


async def look(
    store: Store, find: str = "", tag: str = "", state: str = "", after: int = 0, subscriber: int | None = None
) -> FeedsPage:
    """`state` is one of STATES or how the last refresh ended ("timeout"); `subscriber` sees only what they read."""
    ending = next((one for one in Ending if one.value == state and not one.ok), None)
    which = Which(tag or None, find or None, state if state in STATES else None, ending, subscriber)
    found = await store.pages.feeds(which, after=after, limit=SIZE + 1)
    wish = {"find": find, "tag": tag, "state": state}
    more = f"/feeds?{urlencode(wish | {'after': found[SIZE - 1].feed.id})}" if len(found) > SIZE else None
    return FeedsPage(
        tuple(found[:SIZE]),
        await store.count_feeds(),
        tuple(name for name, _ in (await store.tags())[:TAGS]),
        find,
        tag,
        state,
        f"/feeds?{urlencode(wish)}" if after else None,
        more,
    )


def routes(frame: Frame) -> list[Route]:
    async def show(request: Request) -> Response:
        query = request.query_params
        page = await look(
            frame.store,
            query.get("find", "")[:200],
            query.get("tag", "")[:100],
            query.get("state", "")[:20],
            integer(query.get("after"), 0) or 0,
            subscriber=await _reader(request),
        )
        states = dict.fromkeys((*STATES, *([page.state] if page.state else [])))
        return frame.page(request, "feeds.html", page=page, states=states, note=said(request, SAID))

    async def add(request: Request) -> Response:
        form = await frame.forms.read(request)
        address = form.get("address", "").strip()
        try:
            if not address:
                raise InputError("No address was given: paste the address of a feed, or of a page that has one.")
            added = await frame.add(address, (await current(request, "write")).id)
        except StoreError:
            raise
        except HeadwaterError as error:
            page = await look(frame.store, subscriber=await _reader(request))
            note = wrong(error, form, "address")
            status = error.status if isinstance(error, Refused) else 400
            return frame.page(request, "feeds.html", status, page=page, states=STATES, note=note)
        if form.get("to"):
            return back(request, form["to"])
        return then(f"/feed/{added.feed.id}", said="added" if added.created else "known")

    return [Route("/feeds", show), Route("/feeds", add, methods=["POST"])]


async def _reader(request: Request) -> int | None:
    """Whose feeds are listed: owners see all of them."""
    user = await current(request)
    return None if user.is_owner else user.id
