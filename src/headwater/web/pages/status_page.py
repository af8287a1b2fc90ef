"""The status pages: node, cluster, background jobs, /health and /metrics."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass

from prometheus_client.registry import Collector
from starlette.responses import Response

from headwater import __version__
from headwater.cluster.cluster_status import describe_holdings, read_cluster_status
from headwater.errors import NotFound, StoreError
from headwater.model import Feed, Item, Refresh
from headwater.node.crawl.crawl_status import CrawlStatus
from headwater.node.quality.promises import PromiseReport, load_promises
from headwater.node.quality.quality_report import QualityReport, load_last_report
from headwater.settings import is_shared_database
from headwater.store.content.feeds import find_feeds
from headwater.store.content.items import list_items
from headwater.store.content.refreshes import ActivitySummary, summarise_activity
from headwater.store.queries.source_references import (
    BrokenQuery,
    count_broken_queries,
    list_broken_queries,
    list_queries_with_empty_tags,
)
from headwater.store.readers.accounts import ADMIN, READ
from headwater.store.store import Store
from headwater.web.auth.authentication import Forbidden, NotSignedIn
from headwater.web.auth.cross_site import RequestRefused
from headwater.web.metrics import (
    CONTENT_TYPE,
    BrokenQueriesCollector,
    ClusterCollector,
    PromiseCollector,
    render_metrics,
)
from headwater.web.page import OPEN, PageGroup, Visit
from headwater.web.shared.article_html import followable_link
from headwater.web.shared.health import FAILING, OK, describe_failure, summarise_problems
from headwater.web.site import json_response

NOT_A_CLUSTER = "This server runs by itself: its database is a file. Several machines share a PostgreSQL database."


NEWEST_ITEMS = 12


pages = PageGroup()


@dataclass(frozen=True, slots=True)
class StatusPage:
    """Everything on the page. `feeds` has the feeds that rows mention; removed ones are missing there."""

    summary: ActivitySummary
    status: CrawlStatus
    refreshes: tuple[Refresh, ...]
    newest: tuple[Item, ...]
    feeds: dict[int, Feed]
    report: QualityReport | None  # the same that the quality page shows

    @property
    def last(self) -> float | None:
        return self.refreshes[0].at if self.refreshes else None

    def feed_title(self, feed_id: int) -> str:
        feed = self.feeds.get(feed_id)
        return (feed.title or feed.url) if feed else f"feed {feed_id} (removed)"

    def feed_link(self, feed_id: int) -> str | None:
        feed = self.feeds.get(feed_id)
        return followable_link(feed.link or feed.url) if feed else None


async def load_status_page(store: Store, status: CrawlStatus, now: float) -> StatusPage:
    summary = await store.read(summarise_activity, now)
    newest = tuple(await store.read(list_items, before=now, limit=NEWEST_ITEMS))
    mentioned = {refresh.feed_id for refresh in summary.last} | {item.feed_id for item in newest}
    feeds = await store.read(find_feeds, mentioned)
    return StatusPage(summary, status, summary.last, newest, feeds, await load_last_report(store))


@pages.get("/status", ADMIN)
async def show_status(visit: Visit) -> Response:
    """Show the server's activity, and how to add feeds by a command."""
    page = await load_status_page(visit.store, visit.site.status(), visit.now)
    given = visit.site.settings
    folder = None if given.database else shlex.quote(str(given.data.absolute()))  # a database URL may have a password
    return visit.render("status_page.html", page=page, folder=folder)


@pages.get("/cluster", ADMIN)
async def show_cluster(visit: Visit) -> Response:
    if not is_shared_database(visit.site.settings):
        raise NotFound(NOT_A_CLUSTER)
    status = await read_cluster_status(visit.store)
    return visit.render("cluster_page.html", cluster=status, holdings=describe_holdings(status))


@pages.get("/health", OPEN)
async def show_health(visit: Visit) -> Response:
    """Answer whether items arrive, are stored and are delivered: 200, or 503 if nothing can be stored.

    With `?strict=1` also degraded is 503. The error handler answers 503 if the store cannot be read at all.
    """
    site, status = visit.site, visit.site.status()
    problems = await site.health.find_problems(site.settings, status, visit.now)
    state = summarise_problems(problems)
    strict = visit.query("strict") not in ("", "0")
    if state == FAILING:
        asks_owner = any(one.detail for one in problems) and await _is_owner(visit)
        return json_response(describe_failure(problems, to_owner=asks_owner), 503)
    summary = await visit.store.read(summarise_activity, visit.now)
    named = await _is_owner(visit)
    return json_response(
        {
            "status": state,
            "problems": [{"name": one.name, "message": one.message} for one in problems],
            "version": __version__,
            "feeds": summary.feeds,
            "items": summary.items,
            "failing": summary.failing,
            "under_way": status.under_way,
            "last_refresh": summary.last[0].at if summary.last else None,
            "next_due": status.next_due,
            "network_away_since": status.network_away_since,
            "queries": status.queries,
            "targets": [asdict(aim) for aim in status.aims if named],
            "promises": [asdict(one) for one in await _load_promises(visit, named=named)],
            "broken_queries": [asdict(one) for one in await visit.store.read(list_broken_queries) if named],
            "queries_with_empty_tags": [asdict(one) for one in (await _load_empty_tags(visit) if named else ())],
        },
        503 if strict and state != OK else 200,
    )


async def _is_owner(visit: Visit) -> bool:
    """Return whether an owner asks, by a token or signed in: only owners read names of queries and places."""
    try:
        return ADMIN in (await visit.site.authenticator.identify(visit.request)).scopes
    except (NotSignedIn, Forbidden, RequestRefused, StoreError):  # StoreError: /health still names the problem
        return False


async def _load_promises(visit: Visit, *, named: bool) -> list[PromiseReport]:
    """Load the promises, up to a minute old: monitors ask every few seconds. Those of queries only if `named`."""
    site = visit.site
    found: list[PromiseReport] = await site.timed_cache.get_or_gather(
        "promises", 0, lambda: load_promises(site.store, visit.now)
    )
    return found if named else [one for one in found if one.query is None]


async def _load_empty_tags(visit: Visit) -> list[BrokenQuery]:
    """Load the queries over tags that no feed has, up to a minute old: all definitions are read."""
    site = visit.site
    found: list[BrokenQuery] = await site.timed_cache.get_or_gather(
        "empty tags", 0, lambda: site.store.read(list_queries_with_empty_tags)
    )
    return found


@pages.get("/metrics", OPEN)
async def show_metrics(visit: Visit) -> Response:
    summary = await visit.store.read(summarise_activity, visit.now)
    report = await load_last_report(visit.store)
    shared = is_shared_database(visit.site.settings)
    more: list[Collector] = [ClusterCollector(await read_cluster_status(visit.store))] if shared else []
    promises = await _load_promises(visit, named=await _is_owner(visit))
    more += [PromiseCollector(promises), BrokenQueriesCollector(await visit.store.read(count_broken_queries))]
    figures = render_metrics(summary, visit.site.status(), report, more)
    return Response(figures, media_type=CONTENT_TYPE)


@pages.get("/jobs/{job_id}", READ)
async def show_job(visit: Visit) -> Response:
    job = visit.site.background_jobs.find_job(visit.path("job_id"))
    if job is None:
        raise NotFound("This job has ended, or the server was restarted since. Look whether its result is there.")
    if visit.wants_json:
        progress = {"running": job.running, "done": job.done, "total": job.total, "doing": job.doing}
        return json_response(progress | {"part": job.result is not None})
    if visit.part == "result" and job.result is not None:
        return visit.render_part(f"_job_{job.page}.html", job=job)
    return visit.render("job_page.html", job=job)
