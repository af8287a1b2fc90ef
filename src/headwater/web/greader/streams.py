"""Items by the Google Reader API: lists, contents, unread counts, marks."""

from __future__ import annotations

from urllib.parse import quote

import orjson
from starlette.responses import Response

from headwater.errors import InputError, NotFound
from headwater.formats.write import write_atom
from headwater.model import Document, Enclosure, Entry
from headwater.store.people import Stream, Subscription
from headwater.store.shown import Answer, Shown
from headwater.web.greader import ids, shapes
from headwater.web.greader.api import Call, Shared, answered, beside, ok
from headwater.web.greader.asking import MOST_IDS, MOST_ITEMS, continued, part, until

SCHEME = "http://www.google.com/reader/"  # of categories in Atom
MOST_CONTENTS = 10_000  # items asked for by id


class StreamPart:
    """stream/…, unread-count, edit-tag, mark-all-as-read and /reader/atom."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._store = shared.store

    async def unread_count(self, call: Call) -> Response:
        found = await self._store.reading.counts(call.user.id)
        return await beside(lambda: answered(shapes.counts(found)), len(found.feeds))

    async def item_ids(self, call: Call) -> Response:
        asked = await self._asked(call, call.given.get("s") or ids.READING_LIST)
        if asked.nothing:
            return answered({"itemRefs": []})
        wanted = part(asked, call.given, MOST_IDS)
        places = await self._store.reading.places(call.user.id, asked.which, wanted)
        answer: dict[str, object] = {"itemRefs": [{"id": str(id)} for _, id in places[: wanted.limit]]}
        if len(places) > wanted.limit:
            answer["continuation"] = continued(places[wanted.limit - 1])
        return answered(answer)

    async def contents(self, call: Call) -> Response:
        """A stream, named in the address or by s; the reading list where none is named."""
        name = call.request.path_params.get("stream") or call.given.get("s") or ids.READING_LIST
        asked = await self._asked(call, name)
        page = await self._page(call, asked)
        shape = shapes.Items(page.subscriptions, self._shared.base)
        answer: dict[str, object] = {
            "direction": "ltr",
            "id": name,
            "title": self._title(asked, page.subscriptions),
            "updated": int(self._shared.now()),
            "items": [shape(one) for one in page.items],
        }
        if page.next is not None:
            answer["continuation"] = continued(page.next)
        return answered(answer)

    async def _page(self, call: Call, asked: ids.Asked) -> Answer:
        if asked.nothing:
            return Answer([], {})
        return await self._store.reading.page(call.user.id, asked.which, part(asked, call.given, MOST_ITEMS))

    @staticmethod
    def _title(asked: ids.Asked, every: shapes.Subscriptions) -> str:
        one = next((one for one in every.values() if _shows(one, asked.which)), None)
        return one.title if one is not None else asked.which.tag or "Headwater"

    async def items(self, call: Call) -> Response:
        """The contents of these ids; those that are not there, or not for this reader, are left out."""
        numbers = [ids.item_id(each) for each in call.given.all("i")]
        if len(numbers) > MOST_CONTENTS:
            raise InputError(f"At most {MOST_CONTENTS:,} items at a time.")
        found = await self._store.reading.chosen(call.user.id, numbers)
        shape = shapes.Items(found.subscriptions, self._shared.base)
        items = [shape(one) for one in found.items]
        return answered({"id": ids.READING_LIST, "updated": int(self._shared.now()), "items": items})

    async def edit_tag(self, call: Call) -> Response:
        """i (many), a, r. Only read and starred mean something here; labels are for subscriptions."""
        numbers = [ids.item_id(each) for each in call.given.all("i")]
        read: bool | None = None
        starred: bool | None = None
        for field, added in (("r", False), ("a", True)):
            for tag in call.given.all(field):
                state = ids.state(tag)
                if state == "read":
                    read = added
                elif state == "kept-unread" and added:
                    read = False
                elif state == "starred":
                    starred = added
        await self._store.reading.mark(call.user.id, numbers, self._shared.now(), read=read, starred=starred)
        return ok()

    async def mark_all(self, call: Call) -> Response:
        name = call.given.get("s")
        if not name:
            raise InputError("What is read? The field s is missing.")
        asked = await self._asked(call, name)
        upto = until(call.given.number("ts"))
        if asked.nothing or asked.unread is False:
            return ok()
        if asked.starred:
            wanted = part(asked, call.given, MOST_IDS)
            places = await self._store.reading.places(call.user.id, asked.which, wanted)
            chosen = [id for at, id in places if upto is None or at < upto]
            await self._store.reading.mark(call.user.id, chosen, self._shared.now(), read=True)
        else:
            await self._store.reading.mark_all_read(call.user.id, asked.which, now=self._shared.now(), until=upto)
        return ok()

    async def atom(self, call: Call) -> Response:
        """A stream as an Atom document."""
        name = call.request.path_params["stream"]
        asked = await self._asked(call, name)
        page = await self._page(call, asked)
        here = f"{self._shared.base}/reader/atom/{quote(name)}"
        title = self._title(asked, page.subscriptions)
        document = Document("atom 1.0", title, id=here, items=tuple(map(_entry, page.items)))
        labels = {ids.long_id(one.id): _labels(one) for one in page.items}
        body = write_atom(document, self_url=here, labels=labels)
        return Response(body, media_type="application/atom+xml; charset=utf-8")

    async def _asked(self, call: Call, name: str) -> ids.Asked:
        asked = ids.stream(name)
        if asked.url is None:
            return asked
        feed = await self._store.feed(asked.url)
        if await self._store.reading.subscription(call.user.id, feed_id=feed.id) is None:
            raise NotFound(f"There is no subscription to {asked.url[:200]}.")
        return ids.Asked(Stream(feed=feed.id))


def _shows(one: Subscription, which: Stream) -> bool:
    if which.query is not None:
        return one.query_id == which.query
    return which.feed is not None and one.feed_id == which.feed


def _labels(one: Shown) -> list[tuple[str, str, str]]:
    """What newsboat learns the state of an item by; “fresh” is unread."""
    states = ["reading-list", "read" if one.read else "fresh", *(["starred"] if one.starred else [])]
    return [(f"{ids.STATE}{state}", SCHEME, state) for state in states]


def _entry(one: Shown) -> Entry:
    return Entry(
        ids.long_id(one.id),
        one.link,
        one.title,
        one.published,
        one.updated,
        tuple(orjson.loads(one.authors)) if one.authors else (),
        content=one.text,
        enclosures=tuple(Enclosure(*each) for each in orjson.loads(one.enclosures)) if one.enclosures else (),
    )
