"""What is happening, gathered from the store: counts, the last refreshes, the newest items."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.cluster.cluster_status import ClusterStatus, describe_holdings, read_cluster_status
from headwater.cluster.shared_node import is_shared_database
from headwater.errors import NotFound
from headwater.model import Feed, Item, Refresh
from headwater.node.crawl.crawler import CrawlStatus
from headwater.store.store import Store
from headwater.store.values import ActivitySummary
from headwater.web.site import Site, followable_link, json_response

NOT_A_CLUSTER = "This server runs by itself: its database is a file. Several machines share a PostgreSQL database."


def routes(frame: Site) -> list[Route]:
    page = ClusterPages(frame)
    return [Route("/cluster", page.show_cluster), Route("/cluster.json", page.show_cluster_json)]


class ClusterPages:
    """Read anew each time; one query of a few small tables."""

    def __init__(self, frame: Site) -> None:
        self._frame = frame

    async def show_cluster(self, request: Request) -> Response:
        status = await self._load_status()
        return self._frame.render_page(request, "cluster.html", cluster=status, holdings=describe_holdings(status))

    async def show_cluster_json(self, request: Request) -> Response:
        status = await self._load_status()
        return json_response({**asdict(status), "leader": status.leader})

    async def _load_status(self) -> ClusterStatus:
        if not is_shared_database(self._frame.settings):
            raise NotFound(NOT_A_CLUSTER)
        return await read_cluster_status(self._frame.store)


NEWEST_ITEMS = 12


@dataclass(frozen=True, slots=True)
class StatusPage:
    """Everything on the page. `feeds` has the feeds that rows mention; removed ones are missing there."""

    summary: ActivitySummary
    status: CrawlStatus
    refreshes: tuple[Refresh, ...]
    newest: tuple[Item, ...]
    feeds: dict[int, Feed]

    @property
    def last(self) -> float | None:
        return self.refreshes[0].at if self.refreshes else None

    @property
    def caught(self) -> float | None:
        """Completeness of the last day, as far as losses were noticed; None before anything was published."""
        day = self.summary.day
        return day.new / (day.new + day.lost) if day.new else None

    def feed_title(self, feed_id: int) -> str:
        feed = self.feeds.get(feed_id)
        return (feed.title or feed.url) if feed else f"feed {feed_id} (removed)"

    def feed_link(self, feed_id: int) -> str | None:
        feed = self.feeds.get(feed_id)
        return followable_link(feed.link or feed.url) if feed else None


async def load_status_page(store: Store, status: CrawlStatus, now: float) -> StatusPage:
    summary = await store.summary(now)
    newest = tuple(await store.items(before=now, limit=NEWEST_ITEMS))
    mentioned = {refresh.feed_id for refresh in summary.last} | {item.feed_id for item in newest}
    return StatusPage(summary, status, summary.last, newest, await store.pages.by_ids(mentioned))
