"""Discover: from an address to its feeds; what others read, what your items link to, what is rising today."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import dataclass, replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.errors import HeadwaterError, InputError, StoreError
from headwater.fetch.discover import Candidate, discover
from headwater.model import Feed, Item
from headwater.query.rising import Topic, rising
from headwater.store.store import Store
from headwater.store.suggesting import site_of
from headwater.web.forms import Refused
from headwater.web.frame import Frame
from headwater.web.joining import join
from headwater.web.pages.notes import Note, said, then, wrong
from headwater.web.session import current

DAY = 86_400.0
DAYS = 6.0  # before today, that a topic is compared with
EACH = 10
_LINK = re.compile(r'href="(https?://[^"/?#]+)', re.IGNORECASE)
SAID = {"subscribed": "The feed is among yours now."}


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A feed that is here already, and why you might like it."""

    feed: Feed
    reason: str


@dataclass(frozen=True, slots=True)
class Linked:
    """A site that your items link to, and that none of your feeds comes from."""

    site: str
    times: int
    feeds: int


@dataclass(frozen=True, slots=True)
class Risen:
    topic: Topic
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class DiscoverPage:
    also: tuple[Suggestion, ...]
    linked: tuple[Linked, ...]
    popular: tuple[Suggestion, ...]
    rising: tuple[Risen, ...]


async def discoveries(frame: Frame, user_id: int) -> DiscoverPage:
    """The page of one person, which may be some minutes old; what they have subscribed to since is left out."""
    page: DiscoverPage = await frame.kept.of("discover", user_id, lambda: look(frame.store, user_id, frame.clock()))
    mine = await frame.store.reading.among(user_id, [one.feed.id for one in (*page.also, *page.popular)])
    if not mine:
        return page
    also, popular = (tuple(one for one in some if one.feed.id not in mine) for some in (page.also, page.popular))
    return replace(page, also=also, popular=popular)


async def look(store: Store, user_id: int, now: float) -> DiscoverPage:
    also, popular = await store.pages.also_read(user_id, EACH), await store.pages.popular(user_id, EACH)
    feeds = await store.pages.by_ids(
        {id for one in also for id in (one.feed_id, one.because)} | {id for id, _ in popular}
    )
    suggested = [
        Suggestion(feeds[one.feed_id], f"{one.both} of {one.readers} who read {_name(feeds[one.because])} also read it")
        for one in also
        if one.feed_id in feeds and one.because in feeds
    ]
    here = {one.feed.id for one in suggested}
    liked = [Suggestion(feeds[id], f"{number} people here read it") for id, number in popular if id in feeds]
    titles = await store.pages.titles(user_id, now - (DAYS + 1) * DAY)
    topics = await asyncio.to_thread(rising, titles, now, DAYS, EACH)
    items = {one.id: one for one in await store.queries.items([id for topic in topics for id in topic.items[:3]])}
    return DiscoverPage(
        tuple(suggested),
        tuple(await linked(store, user_id)),
        tuple(one for one in liked if one.feed.id not in here),
        tuple(Risen(topic, tuple(items[id] for id in topic.items[:3] if id in items)) for topic in topics),
    )


async def linked(store: Store, user_id: int) -> list[Linked]:
    """Sites that the latest items link to, most often first; a feed's own site and one that you read do not count."""
    texts = await store.pages.texts(user_id)
    if not texts:
        return []
    mine = await store.pages.sites(user_id)
    times: Counter[str] = Counter()
    feeds: dict[str, set[int]] = {}
    for feed_id, text in texts:
        for found in {match[1].lower() for match in _LINK.finditer(text)}:
            site = site_of(found)
            if site and site not in mine:
                times[site] += 1
                feeds.setdefault(site, set()).add(feed_id)
    return [Linked(site, number, len(feeds[site])) for site, number in times.most_common(EACH) if number > 1]


def _name(feed: Feed) -> str:
    return feed.title or feed.url


def routes(frame: Frame) -> list[Route]:
    async def show(request: Request) -> Response:
        return await _page(request, note=said(request, SAID))

    async def find(request: Request) -> Response:
        """Which feeds an address has: one is added at once, of several somebody chooses."""
        user = await current(request, "write")
        form = await frame.forms.read(request)
        address = form.get("address", "").strip()
        try:
            if not address:
                raise InputError("No address was given: paste the address of a feed, or of a page that has one.")
            await frame.allowance.check(user, [address])
            if frame.node is not None and request.url.path == "/discover":
                found = await discover(frame.node.scout, address)
                if len(found) > 1:
                    return await _page(request, candidates=found, address=address)
                address = found[0].url
            added = await frame.add(address, user.id)
        except StoreError:
            raise
        except HeadwaterError as error:
            status = error.status if isinstance(error, Refused) else 400
            note = wrong(error, form, "address")
            return await _page(request, note=note, address=address, status=status)
        return then(f"/read/feed/{added.feed.id}")

    async def subscribe(request: Request) -> Response:
        """To a feed that is here already."""
        user = await current(request, "write")
        form = await frame.forms.read(request)
        feed = await frame.store.feed(form.get("feed", "")[:20] or "0")
        await join(frame.store, user, feed.id, frame.clock())
        return then("/discover", said="subscribed")

    async def _page(
        request: Request,
        *,
        candidates: list[Candidate] | None = None,
        address: str = "",
        note: Note | None = None,
        status: int = 200,
    ) -> Response:
        user = await current(request)
        page = await discoveries(frame, user.id)
        return frame.page(
            request, "discover.html", status, page=page, candidates=candidates, address=address, note=note
        )

    return [
        Route("/discover", show),
        Route("/discover", find, methods=["POST"]),
        Route("/discover/add", find, methods=["POST"]),
        Route("/discover/subscribe", subscribe, methods=["POST"]),
    ]
