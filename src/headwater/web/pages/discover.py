"""Discover: from an address to its feeds, and what one might like to read (`suggestions`)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.errors import HeadwaterError, InputError, StoreError
from headwater.fetch.discover import Candidate, discover
from headwater.web.forms import Refused
from headwater.web.frame import Frame
from headwater.web.joining import join
from headwater.web.pages.notes import Note, said, then, wrong
from headwater.web.pages.suggestions import suggestions
from headwater.web.session import current

SAID = {"subscribed": "The feed is among yours now."}


class Discover:
    """The page, and its forms."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    async def show(self, request: Request) -> Response:
        return await self._page(request, note=said(request, SAID))

    async def find(self, request: Request) -> Response:
        """Which feeds an address has: one is added at once, of several somebody chooses."""
        frame, user = self._frame, await current(request, "write")
        form = await frame.forms.read(request)
        address = form.get("address", "").strip()
        try:
            if not address:
                raise InputError("No address was given: paste the address of a feed, or of a page that has one.")
            await frame.allowance.check(user, [address])
            if frame.node is not None and request.url.path == "/discover":
                found = await discover(frame.node.scout, address)
                if len(found) > 1:
                    return await self._page(request, candidates=found, address=address)
                address = found[0].url
            added = await frame.add(address, user.id)
        except StoreError:
            raise
        except HeadwaterError as error:
            status = error.status if isinstance(error, Refused) else 400
            return await self._page(request, note=wrong(error, form, "address"), address=address, status=status)
        return then(f"/read/feed/{added.feed.id}")

    async def subscribe(self, request: Request) -> Response:
        """To a feed that is here already."""
        frame, user = self._frame, await current(request, "write")
        form = await frame.forms.read(request)
        feed = await frame.store.feed(form.get("feed", "")[:20] or "0")
        await join(frame.store, user, feed.id, frame.clock())
        return then("/discover", said="subscribed")

    async def _page(
        self,
        request: Request,
        *,
        candidates: list[Candidate] | None = None,
        address: str = "",
        note: Note | None = None,
        status: int = 200,
    ) -> Response:
        user = await current(request)
        values = {"candidates": candidates, "address": address, "note": note}
        return self._frame.page(
            request, "discover.html", status, page=await suggestions(self._frame, user.id), **values
        )

    def routes(self) -> list[Route]:
        return [
            Route("/discover", self.show),
            Route("/discover", self.find, methods=["POST"]),
            Route("/discover/add", self.find, methods=["POST"]),
            Route("/discover/subscribe", self.subscribe, methods=["POST"]),
        ]


def routes(frame: Frame) -> list[Route]:
    return Discover(frame).routes()
