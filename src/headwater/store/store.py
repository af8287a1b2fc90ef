"""The store: the truth about feeds, items and refreshes, in a SQLite file or in PostgreSQL. It has no opinions.

Every method is one transaction of its own unless its docstring says otherwise; `transaction()` is how modules of
other packages write rows of theirs in one transaction with rows of ours.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, TypeVar

from sqlalchemy import Connection

from headwater.model import Feed, Item, Known, Refresh, Verdict
from headwater.store.values import (
    Added,
    Found,
    Keep,
    NewFeed,
    OutboxEntry,
    Pruned,
    Saved,
    ScheduleRow,
    Summary,
)

T = TypeVar("T")


class Transaction:
    """An open transaction: everything run in it is committed together, or not at all."""

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Call `function(connection, *args)` with SQLAlchemy's synchronous connection, off the event loop's way."""
        raise NotImplementedError


class Store:
    """An open database. Use it in the event loop that opened it; any number of tasks may share it."""

    @classmethod
    async def open(cls, url: str, *, create: bool = True) -> Store:
        """Open `sqlite:///FILE` or `postgresql://…` and bring its tables up to date.

        With `create` false a SQLite file that is not there is an error. SQLite: `?synchronous=full` makes every
        commit survive a power cut too. Raises StoreError with a sentence that says what to do.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Finish what is being written and let go of the database."""
        raise NotImplementedError

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """`async with store.transaction() as t: await t.run(function, …)`: the caller owns the transaction.

        It is committed when the block ends and rolled back when it raises. On SQLite nobody else can write while
        it is open: do no network inside.
        """
        raise NotImplementedError

    # feeds

    async def add_feeds(
        self, feeds: Iterable[NewFeed], now: float, *, progress: Callable[[int], None] | None = None
    ) -> list[Added]:
        """Add all of them in one transaction; answers are in the order given.

        An address that is already there (after normalising) is not added again but gets the new tags. A name that
        another feed has is an InputError and nothing is added. `progress` is called with how many are done, maybe
        from another thread.
        """
        raise NotImplementedError

    async def feed(self, ref: int | str) -> Feed:
        """By id (also as digits), address or name; NotFound suggests what might have been meant."""
        raise NotImplementedError

    async def feeds(
        self, *, after: int = 0, limit: int | None = None, tag: str | None = None, search: str | None = None
    ) -> list[Feed]:
        """In the order of ids, beyond `after`; `search` is part of a title, name or address."""
        raise NotImplementedError

    async def count_feeds(self) -> int:
        raise NotImplementedError

    async def tags(self) -> list[tuple[str, int]]:
        """Every tag with how many feeds have it, by name."""
        raise NotImplementedError

    async def update_feed(self, feed_id: int, **changes: Any) -> Feed:
        """Change title, name, weight, paused, url or tags.

        A title set here stays until it is set to None; then the publisher's is shown again. InputError where the
        name or address belongs to another feed.
        """
        raise NotImplementedError

    async def remove_feed(self, feed_id: int) -> None:
        """Delete the feed and everything that came of it; NotFound if it is not there."""
        raise NotImplementedError

    # the way of a refresh

    async def known(self, feed_ids: Iterable[int]) -> dict[int, Known]:
        """What we keep of these feeds between refreshes; a feed just added has its row too. Removed ones are left out.

        `url` is always the feed's present address: it is not stored a second time.
        """
        raise NotImplementedError

    def all_known_schedule(self, chunk: int = 5000) -> AsyncIterator[list[ScheduleRow]]:
        """Every feed in the order of ids, `chunk` at a time; each chunk is a transaction of its own."""
        raise NotImplementedError

    async def identities(self, feed_id: int, identities: Sequence[str]) -> dict[str, str]:
        """Those of `identities` this feed has ever shown, with the content hash last stored (also of deleted items)."""
        raise NotImplementedError

    async def identities_of(self, wanted: Mapping[int, Sequence[str]]) -> dict[int, dict[str, str]]:
        """`identities` for several feeds in one query; every feed asked for is in the answer."""
        raise NotImplementedError

    async def save(self, verdicts: Sequence[Verdict]) -> list[Saved]:
        """Write a batch of verdicts in one transaction; when this returns, they survive kill −9.

        Each verdict is written wholly or not at all; one that cannot be written (see `Saved.skipped`) does not stop
        the others. Items already seen under (feed, identity) are ignored; saving the same refresh (feed, at) twice
        writes it once. New and updated items get their outbox entries in this transaction.
        """
        raise NotImplementedError

    # items

    async def item(self, item_id: int) -> Item:
        """NotFound if there is none, or no longer."""
        raise NotImplementedError

    async def items(
        self,
        *,
        feed_id: int | None = None,
        tag: str | None = None,
        since: float | None = None,
        before: float | None = None,
        after: tuple[float, int] | None = None,
        limit: int = 100,
    ) -> list[Item]:
        """Newest first by (published, id). `since` ≤ published < `before`; `after` is (published, id) of the last
        item of the previous page."""
        raise NotImplementedError

    async def count_items(self, feed_id: int | None = None) -> int:
        raise NotImplementedError

    async def search(
        self,
        text: str,
        *,
        limit: int = 50,
        feed_id: int | None = None,
        tag: str | None = None,
        before_id: int | None = None,
    ) -> Found:
        """Items that have all words; "a phrase", -without, begin*. The latest arrival first; `before_id` pages on.

        The same answers on both databases; nothing in `text` can be an error of syntax. Sees everything saved before.
        """
        raise NotImplementedError

    # refreshes

    async def refreshes(
        self, feed_id: int | None = None, *, since: float | None = None, limit: int = 100
    ) -> list[Refresh]:
        """The latest first."""
        raise NotImplementedError

    async def summary(self, now: float) -> Summary:
        raise NotImplementedError

    async def prune(self, keep: Keep, now: float, *, limit: int = 1000) -> Pruned:
        """Delete what `keep` does not keep: at most `limit` of each kind in this transaction.

        Call again while anything was deleted; so readers and refreshes get their turn between.
        Items that a consumer of the outbox has not read yet are spared.
        """
        raise NotImplementedError

    # outbox

    async def outbox(self, after_position: int, limit: int = 500) -> list[OutboxEntry]:
        """Entries beyond a position, in the one order that all consumers see; nothing ever appears behind it."""
        raise NotImplementedError

    async def outbox_end(self) -> int:
        """The last position given out so far; where a consumer that wants no history begins."""
        raise NotImplementedError

    async def checkpoint(self, consumer: str) -> int:
        """How far a consumer has read; 0 for a new one."""
        raise NotImplementedError

    @staticmethod
    def advance(connection: Connection, consumer: str, position: int) -> None:
        """Remember how far a consumer has read, in the caller's transaction, beside its output:
        `await t.run(Store.advance, "queries", entry.position)`. Never moves back."""
        raise NotImplementedError

    # state of strategies

    async def save_state(self, name: str, version: int, blob: bytes, now: float) -> None:
        """Keep bytes under a name, in place of what was there."""
        raise NotImplementedError

    async def load_state(self, name: str) -> tuple[int, bytes] | None:
        raise NotImplementedError
