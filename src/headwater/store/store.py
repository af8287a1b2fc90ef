"""The store: the truth about feeds, items and refreshes, in a SQLite file or in PostgreSQL. It has no opinions.

Every method is one transaction of its own unless its docstring says otherwise; `transaction()` is how modules of
other packages write rows of theirs in one transaction with rows of ours.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, TypeVar

from sqlalchemy import Connection, make_url
from sqlalchemy.exc import ArgumentError

from headwater.errors import StoreError
from headwater.model import Feed, Item, Known, Refresh, Verdict
from headwater.store import saved_state
from headwater.store.account_store import AccountStore
from headwater.store.article_store import ArticleStore
from headwater.store.cluster_leases import ClusterLease
from headwater.store.content import feed_state, feeds, items, outbox, refreshes, search
from headwater.store.content import verdicts as save
from headwater.store.content.feed_overview import PageStore
from headwater.store.database.database import Database, Transaction
from headwater.store.database.fenced_database import FencedDatabase
from headwater.store.database.migrate import HEAD
from headwater.store.database.sqlite import Sqlite
from headwater.store.hub_store import HubStore
from headwater.store.maintenance import backup, retention, trash
from headwater.store.maintenance.backup import Progress
from headwater.store.maintenance.backup_file import BackupReader, BackupWriter, Manifest
from headwater.store.people import Remover
from headwater.store.publishing.private_feeds import PublishStore
from headwater.store.query_store import QueryStore
from headwater.store.reading_store import ReadingStore
from headwater.store.removal_store import RemovalStore
from headwater.store.subscription_store import SubscriptionStore
from headwater.store.values import (
    ActivitySummary,
    AddedFeed,
    FeedLoss,
    FeedQuotaCheck,
    FetchPlan,
    NewFeed,
    OutboxEntry,
    PrunedCounts,
    RetentionPolicy,
    SavedRefresh,
    ScheduleRow,
    SearchPage,
)

T = TypeVar("T")

CATCH_UP = 10  # batches that a search indexes itself before it answers
_SECRET = re.compile("//.*@")
_WANTED = "“{url}” is no address of a database. Give sqlite:///FILE or postgresql://USER@HOST/NAME."


class Store:
    """An open database. Use it in the event loop that opened it; any number of tasks may share it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.queries = QueryStore(database)
        self.publishing = PublishStore(database)
        self.pages = PageStore(database)
        self.hub = HubStore(database)
        self.articles = ArticleStore(database)
        self.subscriptions = SubscriptionStore(database)
        self.accounts = AccountStore(database)
        self.reading = ReadingStore(database)
        self.removals = RemovalStore(database)

    @classmethod
    async def open(cls, url: str, *, create: bool = True, tables: str = HEAD) -> Store:
        """Open `sqlite:///FILE` or `postgresql://…` and bring its tables up to date.

        With `create` false a SQLite file that is not there is an error. SQLite: `?synchronous=full` makes every
        commit survive a power cut too. `tables` makes an older version of them, for a backup of that version. Raises
        StoreError with a sentence that says what to do.
        """
        try:
            parsed = make_url(url)
        except (ArgumentError, ValueError) as error:
            raise StoreError(_WANTED.format(url=_SECRET.sub("//…@", url))) from error
        backend = parsed.get_backend_name()
        if backend == "sqlite":
            return cls(await Sqlite.open(parsed, create=create, tables=tables))
        if backend in ("postgresql", "postgres"):
            try:
                import asyncpg  # noqa: F401  only asked whether it is there

                from headwater.store.database.postgres import (
                    Postgres,  # loads half of SQLAlchemy that SQLite does not need
                )
            except ImportError as error:
                raise StoreError("PostgreSQL needs more packages: install headwater[postgres].") from error
            return cls(await Postgres.open(parsed, tables=tables))
        raise StoreError(_WANTED.format(url=parsed.render_as_string(hide_password=True)))

    async def close(self) -> None:
        """Finish what is being written and let go of the database."""
        await self._database.close()

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
        return self._database.transaction()

    def fenced(self, held: ClusterLease) -> Store:
        """The same database, but every write is refused (LeaseLost) once the lease has passed to another."""
        return Store(FencedDatabase(self._database, held))

    async def write(self, function: Callable[..., T], *args: Any) -> T:
        """`function(connection, *args)` in a transaction of its own, for modules that have rows of their own here."""
        return await self._database.write(function, *args)

    async def read(self, function: Callable[..., T], *args: Any) -> T:
        """The same for what only reads."""
        return await self._database.read(function, *args)

    async def snapshot(self, function: Callable[..., T], *args: Any) -> T:
        """The same for what reads much, piece by piece."""
        return await self._database.snapshot(function, *args)

    async def write_one(self, function: Callable[..., T], *args: Any) -> T:
        """The same for what writes by one statement."""
        return await self._database.write_one(function, *args)

    # feeds

    async def add_feeds(
        self,
        new: Iterable[NewFeed],
        now: float,
        *,
        progress: Callable[[int], None] | None = None,
        subscriber: int | None = None,
        allowed: FeedQuotaCheck | None = None,
    ) -> list[AddedFeed]:
        """Add all of them in one transaction; answers are in the order given.

        An address that is already there (after normalising) is not added again but gets the new tags. A name that
        another feed has is an InputError and nothing is added. `progress` is called with how many are done, maybe
        from another thread. They are subscribed, with their tags, for the user `subscriber`, else for the owner.
        `allowed` is told how many of them are new here and how many feeds only that person reads, and may raise.
        """

        def add(connection: Connection) -> list[AddedFeed]:
            return feeds.add_feeds(connection, wanted, now, progress, subscriber=subscriber, allowed=allowed)

        wanted = list(new)
        return await self._database.write(add)

    async def feed(self, ref: int | str) -> Feed:
        """By id (also as digits), address or name; NotFound suggests what might have been meant."""
        return await self._database.read(feeds.find_feed, ref)

    async def feeds(
        self, *, after: int = 0, limit: int | None = None, tag: str | None = None, search: str | None = None
    ) -> list[Feed]:
        """In the order of ids, beyond `after`; `search` is part of a title, name or address."""
        return await self._database.read(feeds.list_feeds, after, limit, tag, search)

    async def feeds_by_id(self, ids: Iterable[int]) -> dict[int, Feed]:
        """Those of these feeds that are there."""
        return await self._database.read(feeds.find_feeds, list(ids))

    async def count_feeds(self) -> int:
        return await self._database.read(feeds.count_feeds)

    async def tags(self) -> list[tuple[str, int]]:
        """Every tag with how many feeds have it, by name."""
        return await self._database.read(feeds.count_feed_tags)

    async def update_feed(self, feed_id: int, **changes: Any) -> Feed:
        """Change title, name, weight, paused, url or tags.

        A title set here stays until it is set to None; then the publisher's is shown again. InputError where the
        name or address belongs to another feed.
        """
        return await self._database.write(feeds.change_feed, feed_id, changes)

    async def remove_feed(self, feed_id: int, *, by: Remover) -> int:
        """Delete the feed and everything that came of it; NotFound if it is not there.

        It is kept for a day: the number by which `removals.undo` brings it back.
        """
        return await self._database.write(trash.move_feed_to_trash, feed_id, by)

    async def revision(self) -> int:
        """Grows whenever anybody adds, changes or removes feeds: a running process looks whether it has to."""
        return await self._database.read(saved_state.read_revision)

    # the way of a refresh

    async def known(self, feed_ids: Iterable[int]) -> dict[int, Known]:
        """What we keep of these feeds between refreshes; a feed just added has its row too. Removed ones are left out.

        `url` is always the feed's present address: it is not stored a second time.
        """
        return await self._database.read(feed_state.load_feed_states, list(feed_ids))

    async def outlines(self, feed_ids: Iterable[int]) -> dict[int, Known]:
        """The same for refreshes that brought no document, to which no window is compared: their windows are blank."""
        return await self._database.read(feed_state.load_feed_states_without_windows, list(feed_ids))

    async def asking(self, feed_ids: Iterable[int]) -> dict[int, FetchPlan]:
        """What it takes to ask for these feeds; removed ones are left out."""
        return await self._database.read(feed_state.load_fetch_plans, list(feed_ids))

    async def all_known_schedule(self, chunk: int = 5000) -> AsyncIterator[list[ScheduleRow]]:
        """Every feed in the order of ids, `chunk` at a time; each chunk is a transaction of its own."""
        after = 0
        while rows := await self._database.read(feed_state.list_schedule_rows, after, chunk):
            yield rows
            after = rows[-1].feed_id

    async def weights(self) -> dict[int, float]:
        """Of every feed, as a person gave it."""
        return await self._database.read(feed_state.load_weights)

    async def identities(self, feed_id: int, identities: Sequence[str]) -> dict[str, str]:
        """Those of `identities` this feed has ever shown, with the content hash last stored (also of deleted items)."""
        return (await self._database.read(feed_state.find_seen_identities, {feed_id: identities}))[feed_id]

    async def identities_of(self, wanted: Mapping[int, Sequence[str]]) -> dict[int, dict[str, str]]:
        """`identities` for several feeds in one query; every feed asked for is in the answer."""
        return await self._database.read(feed_state.find_seen_identities, wanted)

    async def save(self, verdicts: Sequence[Verdict]) -> list[SavedRefresh]:
        """Write a batch of verdicts in one transaction; when this returns, they survive kill −9.

        Each verdict is written wholly or not at all; one that cannot be written (see `Saved.skipped`) does not stop
        the others. Items already seen under (feed, identity) are ignored; saving the same refresh (feed, at) twice
        writes it once. New and updated items get their outbox entries in this transaction.
        """
        try:
            return await self._database.write(save.save_batch, verdicts)
        except save.BatchRefused:
            return await self._database.write(save.save_one_by_one, verdicts)

    # items

    async def item(self, item_id: int) -> Item:
        """NotFound if there is none, or no longer."""
        return await self._database.read(items.find_item, item_id)

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
        return await self._database.read(items.list_items, feed_id, tag, since, before, after, limit)

    async def items_by_arrival(self, *, tag: str | None = None, skip: int = 0, limit: int = 100) -> list[Item]:
        """The first to arrive first, from the beginning of what is stored."""
        return await self._database.read(items.list_items_by_arrival, tag, skip, limit)

    async def count_items(self, feed_id: int | None = None, *, tag: str | None = None) -> int:
        return await self._database.read(items.count_items, feed_id, tag)

    async def search(
        self,
        text: str,
        *,
        limit: int = 50,
        feed_id: int | None = None,
        tag: str | None = None,
        before_id: int | None = None,
    ) -> SearchPage:
        """Items that have all words; "a phrase", -without, begin*. The latest arrival first; `before_id` pages on.

        The same answers on both databases; nothing in `text` can be an error of syntax. Lets `index`
        catch up first, by at most 5,000 items; `Found.waiting` says how many are still not searched.
        """
        for _ in range(CATCH_UP):
            if not await self.index():
                break
        return await self._database.read(search.search_items, text, limit, feed_id, tag, before_id)

    async def index(self, limit: int = 500) -> int:
        """Make up to `limit` saved items searchable, oldest first; how many were. The node calls it after saving."""
        return await self._database.write(search.index_queued, limit)

    async def anything_to_index(self) -> bool:
        """Whether `index` has anything to do; cheaper than to try."""
        return await self._database.read(search.has_queued_items)

    # refreshes

    async def refreshes(
        self,
        feed_id: int | None = None,
        *,
        since: float | None = None,
        before: float | None = None,
        limit: int = 100,
    ) -> list[Refresh]:
        """The latest first; `since` ≤ at < `before`."""
        return await self._database.read(refreshes.list_refreshes, feed_id, since, before, limit)

    async def missed(self, learned: Mapping[int, float], *, most: int = 200_000) -> list[Refresh]:
        """What the log has of each feed after the moment given for it; of more than `most`, not all."""
        return await self._database.read(refreshes.list_refreshes_after, learned, most)

    async def losses(self, *, since: float, limit: int = 20) -> list[FeedLoss]:
        """The feeds that lost most since then, the worst first."""
        return await self._database.read(refreshes.list_losses, since, limit)

    async def summary(self, now: float) -> ActivitySummary:
        return await self._database.read(refreshes.summarise_activity, now)

    async def prune(self, keep: RetentionPolicy, now: float, *, limit: int = 1000) -> PrunedCounts:
        """Delete what `keep` does not keep: at most `limit` of each kind in this transaction.

        Call again while anything was deleted; so readers and refreshes get their turn between.
        Items that a consumer of the outbox has not read yet are spared.
        """
        return await self._database.write(retention.delete_expired, keep, now, limit)

    # outbox

    async def outbox(self, after_position: int, limit: int = 500) -> list[OutboxEntry]:
        """Entries beyond a position, in the one order that all consumers see; nothing ever appears behind it."""
        return await self._database.read(outbox.list_outbox_entries, after_position, limit)

    async def outbox_end(self) -> int:
        """The last position given out so far; where a consumer that wants no history begins."""
        return await self._database.read(outbox.find_last_position)

    async def checkpoint(self, consumer: str) -> int:
        """How far a consumer has read; 0 for a new one."""
        return await self._database.read(outbox.read_checkpoint, consumer)

    @staticmethod
    def advance(connection: Connection, consumer: str, position: int) -> None:
        """Remember how far a consumer has read, in the caller's transaction, beside its output:
        `await t.run(Store.advance, "queries", entry.position)`. Never moves back."""
        outbox.advance_checkpoint(connection, consumer, position)

    # state of strategies

    async def save_state(self, name: str, version: int, blob: bytes, now: float) -> None:
        """Keep bytes under a name, in place of what was there."""
        await self._database.write(saved_state.save_state, name, version, blob, now)

    async def load_state(self, name: str) -> tuple[int, bytes] | None:
        return await self._database.read(saved_state.load_state, name)

    # backup

    async def backup(self, file: BackupWriter, now: float, progress: Progress) -> Manifest:
        """Write everything as of one moment; others go on writing. `progress` is called from another thread."""
        return await self._database.snapshot(backup.write_backup, file, now, progress)

    async def restore(self, file: BackupReader, where: str, progress: Progress) -> None:
        """Fill this database, which must be empty and have the tables of the backup's version, or leave it empty."""
        async with self.transaction() as transaction:
            await transaction.run(backup.require_empty, where)
            await transaction.run(backup.load_backup, file, progress)
