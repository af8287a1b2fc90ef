"""The machines of a cluster: who leads, who holds which partitions, what waits, and what is wrong."""

from __future__ import annotations

from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.cluster.node import shared
from headwater.cluster.status import ClusterStatus, cluster_status, holdings
from headwater.errors import NotFound
from headwater.web.frame import Frame, as_json

ALONE = "This server runs by itself: its database is a file. Several machines share a PostgreSQL database."


def routes(frame: Frame) -> list[Route]:
    page = ClusterPage(frame)
    return [Route("/cluster", page.show), Route("/cluster.json", page.tell)]


class ClusterPage:
    """Read anew each time; one query of a few small tables."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    async def show(self, request: Request) -> Response:
        status = await self._status()
        return self._frame.page(request, "cluster.html", cluster=status, holdings=holdings(status))

    async def tell(self, request: Request) -> Response:
        status = await self._status()
        return as_json({**asdict(status), "leader": status.leader})

    async def _status(self) -> ClusterStatus:
        if not shared(self._frame.settings):
            raise NotFound(ALONE)
        return await cluster_status(self._frame.store)
