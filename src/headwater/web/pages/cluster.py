"""The machines of a cluster: who leads, who holds which partitions, what waits, and what is wrong."""

from __future__ import annotations

from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.cluster.node import is_shared_database
from headwater.cluster.status import ClusterStatus, describe_holdings, read_cluster_status
from headwater.errors import NotFound
from headwater.web.frame import Site, json_response

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
