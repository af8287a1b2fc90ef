"""Fills a store as if a server had watched a farm for days: real decisions, novelty and reports on a virtual clock.

Nothing is fetched: the farm's document of each time is read directly.
"""

from __future__ import annotations

import hashlib
import random

from headwater.farm.farm import Farm
from headwater.formats import read_to_keep
from headwater.model import Ending, Known, Outcome, Validators
from headwater.node.crawl import snapshot
from headwater.node.crawl.dispatcher import JobOrder, make_local_job
from headwater.node.crawl.ingest import Ingest, LearningPlanner
from headwater.node.crawl.politeness import Politeness
from headwater.node.crawl.scheduler import Scheduler, build_configured_strategy, make_budget_account
from headwater.node.crawl.transport import FetchResult
from headwater.node.quality.quality_monitor import QualityMonitor
from headwater.settings import Settings
from headwater.store.content.feed_state import load_feed_states
from headwater.store.content.feeds import NewFeed
from headwater.store.content.search import index_queued
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store

DAY = 86_400.0
TAGS = ("news", "science", "blogs", "sport")


async def simulate_days(
    store: Store,
    given: Settings,
    now: float,
    *,
    feeds: int = 24,
    days: float = 10,
    step: float = 300.0,
    port: int = 8950,
) -> Farm:
    """Fill the store with `days` up to `now`; every tenth feed has failed for some days. Returns the farm."""
    clock = [now - days * DAY]
    farm = Farm(feeds, 7, 1.0, port=port, rates=(0.5, 90.0), clock=lambda: clock[0], started=clock[0], hints=True)
    new = [NewFeed(farm.url(k), title=farm.feed_profile(k).title, tags=(TAGS[k % len(TAGS)],)) for k in range(feeds)]
    await store.write(add_and_subscribe, new, clock[0])
    courtesy = Politeness(random.Random(1), least=given.least_interval)
    decider = Scheduler(
        store,
        build_configured_strategy(given),
        make_budget_account(given),
        courtesy,
        per_host=64,
        clock=lambda: clock[0],
    )
    await decider.load_feeds()
    watch = QualityMonitor(store, decider, given.least_interval)
    ingest = Ingest(store, planner=LearningPlanner(decider))
    steps = int(days * DAY / step)
    for number in range(steps):
        clock[0] = at = now - days * DAY + (number + 1) * step
        chosen = decider.choose_feeds(max(int(given.budget * step / 60), 1), at)
        rows = [row for row, _ in chosen]
        known = await store.read(load_feed_states, decider.feed_table.ids[rows].tolist())
        batch = []
        for row, reason in chosen:
            feed = int(decider.feed_table.ids[row])
            broken = feed % 10 == 0 and at > now - 2 * DAY
            job = make_local_job(known[feed], JobOrder(feed, 0, reason, decider.estimate_feed_rate(feed), False))
            batch.append(FetchResult(job, _outcome(farm, feed, known[feed], at, broken)))
        if batch:
            settled = await ingest.save_results(batch)
            watch.count_refreshes((one.verdict.refresh, one.known.last_success) for one in settled)
        if number % 4 == 0 or number > steps - 10:
            report = await watch.make_report(at)
            await watch.save(at, report)
    await snapshot.save_snapshot(store, decider.feed_table, decider.strategy, courtesy, now)
    while await store.write(index_queued):
        pass
    return farm


def _outcome(farm: Farm, feed: int, known: Known, at: float, broken: bool) -> Outcome:
    url = known.url
    if broken:
        ending = Ending.TIMEOUT if feed % 20 == 0 else Ending.MISSING
        said = "The server did not answer within 30 s." if ending is Ending.TIMEOUT else "The address is gone (404)."
        return Outcome(ending, url, url, at, 1.0, 404 if ending is Ending.MISSING else None, message=said)
    body = farm.get_feed(feed - 1).make_document()
    digest = hashlib.sha256(body).hexdigest()
    if digest == known.body_hash:
        return Outcome(Ending.UNCHANGED, url, url, at, 0.1, 304, bytes=300, validators=Validators(f'"{digest[:8]}"'))
    document = read_to_keep(body, url=url)
    return Outcome(
        Ending.CHANGED,
        url,
        url,
        at,
        0.2,
        200,
        document=document,
        bytes=len(body),
        body_hash=digest,
        validators=Validators(f'"{digest[:8]}"'),
    )
