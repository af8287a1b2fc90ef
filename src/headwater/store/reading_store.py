"""The store's side of reading: `store.reading`. Every method is one transaction of its own.

All of it is for one person, whose id comes first; what is not theirs is NotFound, as if it were not there.
Feeds are added by `Store.add_feeds(…, subscriber=user_id)`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from headwater.store.content import search
from headwater.store.database.database import Database
from headwater.store.database.dialect import last_visible_item_id
from headwater.store.maintenance import trash
from headwater.store.people import (
    MarkedRead,
    ReaderItem,
    Remover,
    Stream,
    StreamPage,
    StreamQuery,
    Subscription,
    UnreadCounts,
)
from headwater.store.readers import mark_compaction, marks, reader_items, reader_search, shown_items, streams
from headwater.store.readers import subscriptions as subscribing
from headwater.store.readers.habits import ReaderHabits
from headwater.store.readers.stream_items import StreamPosition
from headwater.store.values import SearchPage

ALL = Stream()
CATCH_UP = 10


class ReadingStore:
    """Subscriptions, streams and marks."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._habits = ReaderHabits()

    # subscriptions

    async def subscriptions(self, user_id: int) -> list[Subscription]:
        """Feeds by id, then query feeds."""
        return await self._database.read(subscribing.list_subscriptions, user_id)

    async def subscriptions_part(
        self, user_id: int, *, after: tuple[int, int] | None, limit: int, tag: str | None = None
    ) -> list[Subscription]:
        """So many of them, beyond `after`: (0, id of a feed), or (1, id of a query feed)."""
        return await self._database.read(subscribing.list_subscription_page, user_id, after, limit, tag)

    async def subscription(
        self, user_id: int, *, feed_id: int | None = None, query_id: int | None = None
    ) -> Subscription | None:
        """One of them; None where the person does not subscribe to it."""
        feeds, queries = [[] if id is None else [id] for id in (feed_id, query_id)]
        found = await self._database.read(subscribing.find_subscriptions, user_id, feeds, queries)
        return found[0] if found else None

    async def among(self, user_id: int, feed_ids: Collection[int]) -> set[int]:
        """Those of these feeds that the person subscribes to."""
        found = await self._database.read(subscribing.find_subscriptions, user_id, feed_ids, ())
        return {one.feed_id for one in found if one.feed_id is not None}

    async def tags(self, user_id: int) -> dict[str, int]:
        """A person's tags, and how many subscriptions have each."""
        return await self._database.read(subscribing.count_subscription_tags, user_id)

    async def require(self, user_id: int, feed_id: int) -> None:
        """NotFound unless the person subscribes to the feed."""
        await self._database.read(subscribing.require_subscription, user_id, feed_id)

    async def require_query(self, user_id: int, query_id: int) -> None:
        """NotFound unless the person subscribes to the query feed."""
        await self._database.read(subscribing.require_query_subscription, user_id, query_id)

    async def subscribe(self, user_id: int, feed_id: int, now: float, *, tags: Collection[str] = ()) -> None:
        """To a feed that is here already."""
        await self._database.write(subscribing.subscribe_to_feed, user_id, feed_id, tags, now)

    async def subscribe_query(self, user_id: int, query_id: int, now: float) -> None:
        await self._database.write(subscribing.subscribe_to_query_feeds, user_id, [query_id], now)

    async def unsubscribe(self, user_id: int, feed_id: int, *, by: Remover) -> int:
        """What is starred stays. A feed that nobody else reads and no query names is no longer refreshed.

        The number by which it is taken back.
        """
        return await self._database.write(trash.move_subscription_to_trash, user_id, feed_id, by)

    async def unsubscribe_query(self, user_id: int, query_id: int, *, by: Remover) -> int:
        """The query feed itself stays. The number by which it is taken back."""
        return await self._database.write(trash.move_query_subscription_to_trash, user_id, query_id, by)

    async def retitle(
        self, user_id: int, title: str | None, *, feed_id: int | None = None, query_id: int | None = None
    ) -> None:
        """A title of one's own; None shows the feed's again."""
        await self._database.write(subscribing.change_subscription_title, user_id, feed_id, query_id, title)

    async def retag(
        self,
        user_id: int,
        *,
        feed_id: int | None = None,
        query_id: int | None = None,
        add: Collection[str] = (),
        remove: Collection[str] = (),
    ) -> None:
        """Tags of a feed or query feed. The owner's tags are also those that queries and published lists go by."""
        if query_id is not None:
            await self._database.write(subscribing.change_query_tags, user_id, query_id, add, remove)
        elif feed_id is not None:
            await self._database.write(subscribing.change_tags, user_id, feed_id, add, remove)

    async def rename_tag(self, user_id: int, old: str, new: str) -> None:
        """Maybe to one that is there already; NotFound if nothing has it."""
        await self._database.write(subscribing.rename_subscription_tag, user_id, old, new)

    async def remove_tag(self, user_id: int, tag: str, *, by: Remover) -> int:
        """Take a tag off everything; the number by which that is taken back. NotFound if nothing has it."""
        return await self._database.write(trash.move_tag_to_trash, user_id, tag, by)

    async def subscribers(self, feed_ids: Collection[int]) -> dict[int, int]:
        """How many people read each of these feeds."""
        return await self._database.read(subscribing.count_subscribers, feed_ids)

    async def brought(self, user_id: int, addresses: Collection[str]) -> tuple[int, int]:
        """Of these addresses, how many are no feed here yet; and how many feeds only this person reads."""
        return await self._database.read(subscribing.count_feeds_brought, user_id, addresses)

    # streams

    async def stream(
        self,
        user_id: int,
        which: Stream = ALL,
        *,
        unread: bool | None = None,
        starred: bool = False,
        since: float | None = None,
        until: float | None = None,
        before: tuple[float, int] | None = None,
        limit: int = 100,
        oldest_first: bool = False,
        by_arrival: bool = False,
        queries: bool = False,
    ) -> StreamPage:
        """A page of what a person reads; `people.Part` says what the options mean. `limit` is 1 to 10,000."""
        limit = max(1, min(limit, reader_items.MOST_ITEMS))
        part = StreamQuery(unread, starred, since, until, before, limit, oldest_first, by_arrival, queries)
        return await self._database.read(reader_items.list_reader_items, user_id, which, part, self._habits)

    async def places(self, user_id: int, which: Stream, part: StreamQuery) -> list[StreamPosition]:
        """(time, id) of a part of a stream; one more than its limit, where there are more."""
        return await self._database.read(
            streams.list_stream_positions, user_id, which, replace(part, limit=max(1, part.limit))
        )

    async def page(self, user_id: int, which: Stream, part: StreamQuery) -> shown_items.ShownPage:
        """Like `stream`, with what an API shows of each item and the subscriptions they belong to."""
        bounded = replace(part, limit=max(1, min(part.limit, reader_items.MOST_ITEMS)))
        return await self._database.read(shown_items.list_shown_items, user_id, which, bounded, self._habits)

    async def chosen(self, user_id: int, ids: Sequence[int]) -> shown_items.ShownPage:
        """Like `items`, with what an API shows of each."""
        return await self._database.read(shown_items.find_shown_items, user_id, ids)

    async def items(self, user_id: int, ids: Iterable[int]) -> list[ReaderItem]:
        """Those of these that the person may see, in the order given; ids of items, or of places in query feeds."""
        return await self._database.read(reader_items.find_reader_items, user_id, list(ids))

    async def counts(self, user_id: int) -> UnreadCounts:
        """How much is unread."""
        return await self._database.read(reader_items.count_unread, user_id)

    async def search(
        self, user_id: int, text: str, which: Stream = ALL, *, limit: int = 50, before_id: int | None = None
    ) -> tuple[SearchPage, list[ReaderItem]]:
        """Like `Store.search`, over what the person reads."""
        wanted = (user_id, text, which, max(1, min(limit, 1000)), before_id)
        found = await self._database.read(reader_search.search_reader_items, *wanted)
        if not found[0].waiting:
            return found
        for _ in range(CATCH_UP):
            if not await self._database.write(search.index_queued, 500):
                break
        return await self._database.read(reader_search.search_reader_items, *wanted)

    # marks

    async def mark(
        self, user_id: int, ids: Sequence[int], now: float, *, read: bool | None = None, starred: bool | None = None
    ) -> int:
        """How many there were; those that the person may not see are passed over."""
        return await self._database.write(marks.mark_items, user_id, ids, read, starred, now)

    async def mark_read(self, user_id: int, ids: Sequence[int], now: float) -> MarkedRead:
        """Like `mark` with `read`, of those that are unread; `Marked.undo` is for `undo`."""
        return await self._database.write(marks.mark_items_read, user_id, ids, now)

    async def mark_all_read(
        self,
        user_id: int,
        which: Stream = ALL,
        *,
        now: float,
        up_to: int | None = None,
        until: float | None = None,
        also: Collection[int] = (),
    ) -> MarkedRead:
        """All of a stream, up to the id of an item, or what arrived before a moment; and those items that are `also`
        meant. `Marked.undo` is for `undo`."""
        return await self._database.write(marks.mark_stream_read, user_id, which, up_to, until, also, now)

    async def settled(self) -> int:
        """An id up to which every item is there that ever will be: what is stored later is beyond it."""
        return (await self._database.read(last_visible_item_id))[1]

    async def undo(self, user_id: int, undo_id: int, now: float) -> None:
        """Take “mark all as read”, or `mark_read`, back; NotFound if it was, or is too long ago."""
        await self._database.write(marks.undo_mark_read, user_id, undo_id, now)

    async def compact(self, now: float) -> int:
        """Say what people have read with fewer marks; how many went. The node does so with retention."""
        await self._database.write(mark_compaction.delete_expired_undo, now)
        gone = 0
        _, last = await self._database.read(last_visible_item_id)
        for user_id in await self._database.read(subscribing.list_readers):
            gone += await self._database.write(mark_compaction.compact_marks, user_id, last, now)
        return gone + await self._database.write(mark_compaction.delete_redundant_marks, now)
