"""Refreshes many feeds once, for a command."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from headwater.errors import BudgetExhausted
from headwater.fetch.client import Fetcher
from headwater.formats.values.domains import registered_domain_of_url
from headwater.model import Ending, Feed, Known
from headwater.node.crawl.dispatcher import JobOrder, make_local_job
from headwater.node.crawl.ingest import Ingest
from headwater.node.crawl.network_outage import OutageDetector
from headwater.node.crawl.scheduler import REQUESTED
from headwater.node.crawl.transport import FetchResult, StoredRefresh
from headwater.store.content.feed_state import load_feed_states
from headwater.store.store import Store
from headwater.times import format_duration

CHUNK = 256
PATIENCE = 120.0  # seconds without any grant of the cluster's leader before a command gives up


async def refresh_many(
    store: Store,
    fetcher: Fetcher,
    feeds: Sequence[Feed],
    concurrency: int,
    *,
    named: bool,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[dict[str, object]]:
    """Refresh feeds. Those in a server's Retry-After and those with an address that is not allowed are reported only.

    If no server responds, the network of this machine is down: no feed counts as failed and the rest is not tried.
    Feeds that a person `named` are tried and counted all the same. `on_progress` gets how many
    feeds are done, and how many there are.
    """
    results: list[dict[str, object]] = []
    network: OutageDetector[FetchResult] = OutageDetector()
    ingest = Ingest(store)
    hosts = len({registered_domain_of_url(feed.url) for feed in feeds})
    slots = asyncio.Semaphore(concurrency)

    latest = time.monotonic()  # when the last fetch ended

    async def fetch(known: Known) -> FetchResult:
        nonlocal latest
        job = make_local_job(known, JobOrder(known.feed_id, 0, REQUESTED, None, requested=named))
        async with slots:
            while True:
                try:
                    outcome = await fetcher.fetch(
                        job.url, job.validators, body_hash=job.body_hash, delta=job.delta, window=job.window
                    )
                except BudgetExhausted:  # beside a cluster: its budget sets the pace
                    if time.monotonic() > latest + PATIENCE:
                        raise
                    continue
                latest = time.monotonic()
                return FetchResult(job, outcome)

    for start in range(0, len(feeds), CHUNK):
        chunk = feeds[start : start + CHUNK]
        known = await store.read(load_feed_states, [feed.id for feed in chunk])
        now = time.time()
        held = [feed for feed in chunk if feed.id in known and (known[feed.id].not_before or 0) > now]
        results += [_held_line(feed, known[feed.id], now) for feed in held]
        free = [known[feed.id] for feed in chunk if feed not in held and feed.id in known]
        fetched = await asyncio.gather(*(fetch(one) for one in free))
        results += [_blocked_line(one) for one in fetched if _was_blocked(one)]
        fetched = [one for one in fetched if not _was_blocked(one)]
        # A response proves that the network works, so responses are sorted to the end of the batch.
        fetched.sort(key=lambda one: one.outcome.status is not None)
        sifted = network.sort_results(fetched, hosts, [one.feed_id for one in free] if named else [], time.time())
        results += [_refresh_line(one) for one in await ingest.save_results(sifted.counted)]
        results += [_outage_line(one.feed_id, one.url) for one in sifted.again]
        on_progress(start + len(chunk), len(feeds))
        if network.away_since is not None:
            return results + [_outage_line(feed.id, feed.url) for feed in feeds[start + CHUNK :]]
    return results + [_refresh_line(one) for one in await ingest.save_results(network.note_answer())]


def _outage_line(feed_id: int, url: str) -> dict[str, object]:
    text = "not refreshed: no server responds, the network of this machine seems to be down; no feed counts as failed"
    return {"id": feed_id, "url": url, "ok": False, "text": text, "network_away": True}


def _was_blocked(one: FetchResult) -> bool:
    """Whether the guard refused the address itself; the server may be allowed to fetch it, so the feed has not
    failed."""
    return one.outcome.ending is Ending.BLOCKED and one.outcome.final_url == one.url


def _blocked_line(one: FetchResult) -> dict[str, object]:
    text = f"not refreshed: {one.outcome.message}"
    return {"id": one.feed_id, "url": one.url, "ok": False, "ending": Ending.BLOCKED.value, "text": text}


def _held_line(feed: Feed, known: Known, now: float) -> dict[str, object]:
    wait = (known.not_before or now) - now
    text = f"not refreshed: the server asked to wait another {format_duration(wait)} (Retry-After)"
    return {"id": feed.id, "url": feed.url, "ok": False, "text": text, "retry_after_s": wait}


def _refresh_line(settled: StoredRefresh) -> dict[str, object]:
    refresh = settled.verdict.refresh
    text = f"{refresh.new} new, {refresh.updated} updated" if refresh.ending.ok else refresh.message
    return {
        "id": refresh.feed_id,
        "url": settled.known.url,
        "ok": refresh.ending.ok,
        "ending": refresh.ending.value,
        "new": refresh.new,
        "updated": refresh.updated,
        "duplicates": refresh.duplicates,
        "lost": refresh.lost,
        "text": text,
    }
