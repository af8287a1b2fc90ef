"""Compares the items that a farm published with those that were stored, announced and matched.

The farm makes a document when the request arrives, at some time between the beginning and the end of a refresh. So a
refresh must have stored every item that the window showed during all of it. An item published during the last refresh
may or may not be in its document, and is not due.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlalchemy import Connection, func, select

from headwater.farm.farm import Farm
from headwater.farm.farm_pages import LoggedRequest, RequestLog
from headwater.farm.timeline import FarmPosting
from headwater.model import Ending, Known, Refresh
from headwater.store.content.feed_state import load_feed_states
from headwater.store.content.feeds import list_feeds
from headwater.store.content.items import count_items, list_items
from headwater.store.content.refreshes import list_refreshes
from headwater.store.queries.hits import count_hits
from headwater.store.queries.query_feeds import find_query_feed
from headwater.store.schema.item_tables import item, outbox
from headwater.store.schema.query_tables import hit
from headwater.store.store import Store

MANY = 1_000_000
WHOLE = (Ending.CHANGED, Ending.UNCHANGED)  # endings of refreshes that saw the whole window


@dataclass(frozen=True, slots=True)
class RunAudit:
    """The result of an audit. `published` counts the items in the window at a feed's first good refresh, and those
    published up to its last.

    `missing` of those were shown to a refresh and are not stored; `overflowed` passed through the window between two
    refreshes, and for `unnoticed` of them the next refresh did not report a loss. `doubled` are stored twice,
    `unannounced` do not have exactly one outbox entry, `unmatched` not exactly one hit of the query for everything.
    `at_once` is the most requests that a host saw at a time, `closest` the fewest seconds between two requests to one
    (None: no host was asked twice). `stories` describe each fault.
    """

    published: int
    stored: int
    processed: int
    missing: int
    overflowed: int
    unnoticed: int
    doubled: int
    unannounced: int
    unmatched: int
    at_once: int
    requests: int
    closest: float | None = None
    stories: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        return not (self.missing or self.unnoticed or self.doubled or self.unannounced or self.unmatched)


async def audit_run(farm: Farm, store: Store, query: str) -> RunAudit:
    """Audit a run. `query` names a query feed for everything, made before the first item."""
    published = 0
    missing: list[str] = []
    overflowed: list[str] = []
    unnoticed: list[str] = []
    for feed in await store.read(list_feeds):
        refreshes = sorted(await store.read(list_refreshes, feed.id, limit=MANY), key=lambda one: one.at)
        reads = [one for one in refreshes if one.ending in WHOLE]
        if not reads:
            continue
        account = _FeedAudit(farm, int(feed.url.rpartition("/")[2]), reads)
        published += len(account.due) + len(account.passed)
        here = {one.identity for one in await store.read(list_items, feed_id=feed.id, limit=MANY)}
        gone = [one for one in account.passed if account.find_identity(one) not in here]
        unseen = [one for one in gone if not account.was_noticed(one)]
        lacking = [one for one in account.due if account.find_identity(one) not in here]
        known = (await store.read(load_feed_states, [feed.id])).get(feed.id)
        missing += account.tell_stories("missing", lacking, refreshes, known)
        unnoticed += account.tell_stories("passed unnoticed", unseen, refreshes, known)
        overflowed += [account.find_identity(one) for one in gone]
    query_id = (await store.read(find_query_feed, query)).id
    return RunAudit(
        published,
        await store.read(count_items),
        await store.read(count_hits, query_id),
        len(missing),
        len(overflowed),
        len(unnoticed),
        *await store.read(_count_faults, query_id),
        max(farm.log.most_at_once.values(), default=0),
        len(farm.log),
        find_closest_requests(farm.log),
        (*missing, *unnoticed, *describe_overlaps(farm.log)),
    )


def find_closest_requests(log: RequestLog) -> float | None:
    """Return the fewest seconds between the arrivals of two requests at one host."""
    arrived: dict[str, list[float]] = {}
    for line in log:
        arrived.setdefault(line.host, []).append(line.arrived)
    return min((b - a for times in arrived.values() for a, b in pairwise(sorted(times))), default=None)


def describe_overlaps(log: RequestLog) -> list[str]:
    """Describe requests that overlapped at one host."""
    last: dict[str, LoggedRequest] = {}
    told = []
    for line in sorted(log, key=lambda one: one.arrived):
        before = last.get(line.host)
        if before is not None and before.ended > line.arrived:
            told.append(
                f"{line.host} saw two at once: {before.path} of {before.peer} ({before.status}) from "
                f"{before.arrived:.3f} to {before.ended:.3f}, {line.path} of {line.peer} ({line.status}) from "
                f"{line.arrived:.3f} to {line.ended:.3f}."
            )
        if before is None or line.ended > before.ended:
            last[line.host] = line
    return told


class _FeedAudit:
    """One feed of the farm with its good refreshes in order. Times of postings are the farm's."""

    def __init__(self, farm: Farm, number: int, reads: Sequence[Refresh]) -> None:
        self._farm = farm
        self._number = number
        self._source = farm.get_feed(number)
        self._reads = [
            (farm.clock.to_farm_time(one.at - one.elapsed), farm.clock.to_farm_time(one.at), one) for one in reads
        ]
        self.due = {posting for start, end, _ in self._reads for posting in self._list_shown(start, end)}
        between = self._source.timeline.postings_between(self._reads[0][0], self._reads[-1][0])
        self.passed = [posting for posting in between if posting not in self.due]

    def find_identity(self, posting: FarmPosting) -> str:
        return self._farm.item_identity(self._number, posting.number)

    def was_noticed(self, posting: FarmPosting) -> bool:
        """Whether the first refresh after the item left the window reports that all of the window was new."""
        first = next(start for start, _, _ in self._reads if start >= posting.at)
        under_way = [one for start, end, one in self._reads if start <= first and end >= posting.at]
        return any(one.saturated for one in under_way)

    def _list_shown(self, start: float, end: float) -> Iterator[FarmPosting]:
        """List the postings that the window showed all the time from `start` to `end`."""
        window = self._source.timeline.newest_postings(end, self._farm.window)
        return (posting for posting in window if posting.at <= start)

    def tell_stories(
        self, what: str, postings: Iterable[FarmPosting], refreshes: Sequence[Refresh], known: Known | None
    ) -> Iterator[str]:
        for posting in postings:
            yield "\n".join(self._tell_story(what, posting, refreshes, known))

    def _tell_story(
        self, what: str, posting: FarmPosting, refreshes: Sequence[Refresh], known: Known | None
    ) -> Iterator[str]:
        """Describe an item; times are seconds since its publication."""
        clock, timeline = self._farm.clock, self._source.timeline
        zero = clock.to_wall_time(posting.at)
        after = timeline.postings_between(posting.at, clock.farm_time())[1:]
        full = len(after) >= self._farm.window
        left = f"{clock.to_wall_time(after[self._farm.window - 1].at) - zero:+.3f}" if full else "not yet"
        yield f"{what}: {self.find_identity(posting)}, published at {zero:.3f}, left the window: {left}"
        for one in refreshes:
            yield (
                f"  refresh {one.at - one.elapsed - zero:+.3f} to {one.at - zero:+.3f}: {one.ending} {one.status}, "
                f"new {one.new}, window {one.window}, overlap {one.overlap}, saturated {one.saturated}, "
                f"lost {one.lost:.1f}, {one.reason} {one.message}"
            )
        for line in self._farm.log.for_feed(self._number):
            yield f"  request {line.arrived - zero:+.3f} to {line.ended - zero:+.3f}: {line.status} from {line.peer}"
        if known is not None:
            yield f"  known: {known.validators}, body {known.body_hash}, window of {len(known.window)}"


def _count_faults(connection: Connection, query_id: int) -> tuple[int, int, int]:
    """(doubled, unannounced, unmatched)."""
    same = select(item.c.feed_id).group_by(item.c.feed_id, item.c.identity).having(func.count() > 1)
    announced = (
        select(outbox.c.item_id).where(outbox.c.kind == "new").group_by(outbox.c.item_id).having(func.count() == 1)
    )
    matched = select(hit.c.item_id).where(hit.c.query_id == query_id).group_by(hit.c.item_id).having(func.count() == 1)
    return (
        len(connection.execute(same).all()),
        len(connection.execute(select(item.c.id).where(item.c.id.not_in(announced))).all()),
        len(connection.execute(select(item.c.id).where(item.c.id.not_in(matched))).all()),
    )
