"""Subscriptions and labels by the Google Reader API."""

from __future__ import annotations

from starlette.responses import Response

from headwater.errors import InputError, NotFound
from headwater.formats.opml import Outline, read_opml
from headwater.formats.write import write_opml
from headwater.model import Feed
from headwater.store.people import ADMIN, Remover, Stream, Subscription
from headwater.store.values import NewFeed
from headwater.web.greader import ids, shapes
from headwater.web.greader.api import Call, Shared, answered, beside, conditional, ok, said, short_token

LONGEST_LIST = 20 << 20  # bytes of OPML


class SubscriptionPart:
    """subscription/…, tag/list, rename-tag, disable-tag, user-info and token."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._store = shared.store

    async def token(self, call: Call) -> Response:
        return said(short_token(call.secret))

    async def user_info(self, call: Call) -> Response:
        user = call.user
        return answered(
            {
                "userId": str(user.id),
                "userName": user.name,
                "userProfileId": str(user.id),
                "userEmail": "",
                "isBloggerUser": False,
                "signupTimeSec": int(user.created),
                "isMultiLoginEnabled": False,
            }
        )

    async def listed(self, call: Call) -> Response:
        found = await self._store.reading.subscriptions(call.user.id)

        def make() -> Response:
            return conditional(call, {"subscriptions": [shapes.subscription(one, self._shared.base) for one in found]})

        return await beside(make, len(found))

    async def tags(self, call: Call) -> Response:
        return conditional(call, {"tags": shapes.tags(await self._store.reading.tags(call.user.id))})

    async def edit(self, call: Call) -> Response:
        """ac=subscribe, unsubscribe or edit; s (several), t, a, r."""
        action, given = call.given.get("ac"), call.given
        streams = given.all("s")
        if not streams:
            raise InputError("Which subscription? The field s is missing.")
        add = [ids.label(each) for each in given.all("a") if ids.state(each) is None]
        remove = [ids.label(each) for each in given.all("r") if ids.state(each) is None]
        titles = given.all("t")
        for place, stream in enumerate(streams):
            title = titles[place] if place < len(titles) else None
            asked = ids.stream(stream)
            if action == "subscribe":
                await self._subscribe(call, asked, title, add)
            elif action == "unsubscribe":
                await self._unsubscribe(call, await self._which(call, asked))
            elif action == "edit":
                await self._change(call, await self._which(call, asked), title, add, remove)
            else:
                raise InputError("ac is subscribe, unsubscribe or edit.")
        return ok()

    async def _subscribe(self, call: Call, asked: ids.Asked, title: str | None, add: list[str]) -> None:
        if asked.which.query is not None:
            await self._refuse_private(call, asked.which.query)
            await self._store.reading.subscribe_query(call.user.id, asked.which.query, self._shared.now())
            which = asked.which
        elif asked.url is not None:
            feed = (await self._shared.add(asked.url, call.user.id)).feed
            which = Stream(feed=feed.id)
        else:
            which = await self._which(call, asked)
        await self._change(call, which, title, add, [])

    async def _refuse_private(self, call: Call, query_id: int) -> None:
        """Query feeds are for everybody, unless they are published for those with a token only."""
        name = (await self._store.queries.names([query_id])).get(query_id)
        private = (await self._store.publishing.access()).private
        if name is None or (f"/feeds/{name}".casefold() in private and ADMIN not in call.scopes):
            raise NotFound(f"There is no query feed {query_id}.")

    async def _unsubscribe(self, call: Call, which: Stream) -> None:
        by = Remover(call.user.id, self._shared.now())  # the client cannot take it back, but the pages can
        if which.query is not None:
            await self._store.reading.unsubscribe_query(call.user.id, which.query, by=by)
        elif which.feed is not None:
            await self._store.reading.unsubscribe(call.user.id, which.feed, by=by)

    async def _change(self, call: Call, which: Stream, title: str | None, add: list[str], remove: list[str]) -> None:
        user = call.user.id
        if title is not None:
            await self._store.reading.retitle(user, title, feed_id=which.feed, query_id=which.query)
        if add or remove:
            await self._store.reading.retag(user, feed_id=which.feed, query_id=which.query, add=add, remove=remove)

    async def _which(self, call: Call, asked: ids.Asked) -> Stream:
        """The feed, by number or by address; NotFound or InputError."""
        if asked.url is not None:
            return Stream(feed=(await self._by_address(call, asked.url)))
        if asked.which.feed is None and asked.which.query is None:
            raise InputError("This is no subscription: it should be feed/….")
        return asked.which

    async def _by_address(self, call: Call, url: str) -> int:
        feed: Feed = await self._store.feed(url)
        if await self._store.reading.subscription(call.user.id, feed_id=feed.id) is None:
            raise NotFound(f"There is no subscription to {url[:200]}.")
        return feed.id

    async def quickadd(self, call: Call) -> Response:
        address = (call.given.get("quickadd") or "").strip().removeprefix("feed/")
        if not address:
            raise InputError("Which feed? The field quickadd is missing.")
        try:
            feed = (await self._shared.add(address, call.user.id)).feed
        except (InputError, NotFound) as error:
            return answered({"numResults": 0, "query": address, "error": str(error)})
        stream = ids.feed_stream(feed.id, None)
        name = feed.title or feed.url
        return answered({"numResults": 1, "query": address, "streamId": stream, "streamName": name})

    async def import_(self, call: Call) -> Response:
        """OPML as the body; folders become labels."""
        lists = read_opml(call.body)
        new = [NewFeed(one.url, one.title, link=one.link, tags=tuple(one.tags)) for one in lists.feeds]
        allowed = self._shared.allowance.of(call.user)
        await self._store.add_feeds(new, self._shared.now(), subscriber=call.user.id, allowed=allowed)
        return ok()

    async def export(self, call: Call) -> Response:
        found = await self._store.reading.subscriptions(call.user.id)
        outlines = [Outline(*self._outline(one)) for one in found]
        headers = {"Content-Disposition": 'attachment; filename="subscriptions.opml"'}
        return Response(write_opml(outlines), 200, headers, media_type="text/x-opml; charset=utf-8")

    def _outline(self, one: Subscription) -> tuple[str, str, str | None, tuple[str, ...]]:
        shaped = shapes.subscription(one, self._shared.base)
        return shaped["url"], one.title, one.link, one.tags

    async def rename_tag(self, call: Call) -> Response:
        """s (or t, for what Google called a tag) becomes dest."""
        old = ids.label(call.given.get("s") or f"{ids.LABEL}{call.given.get('t') or ''}")
        new = ids.label(call.given.get("dest") or "")
        await self._store.reading.rename_tag(call.user.id, old, new)
        return ok()

    async def disable_tag(self, call: Call) -> Response:
        for given in call.given.all("s") or [f"{ids.LABEL}{call.given.get('t') or ''}"]:
            by = Remover(call.user.id, self._shared.now())
            await self._store.reading.remove_tag(call.user.id, ids.label(given), by=by)
        return ok()
