"""Discover: from an address to its feeds, and what one might like to read (`suggestions`)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.errors import HeadwaterError, InputError, StoreError
from headwater.fetch.discovery import FeedCandidate, discover_candidates
from headwater.web.auth.authentication import require_user
from headwater.web.auth.cross_site import RequestRefused
from headwater.web.page import FlashMessage, make_field_error, read_flash, redirect_with_flash
from headwater.web.shared.reader_quota import join_feed
from headwater.web.shared.suggestions import suggest_feeds
from headwater.web.site import Site

FLASH = {"subscribed": "The feed is among yours now."}


class DiscoverPages:
    """The page, and its forms."""

    def __init__(self, frame: Site) -> None:
        self._frame = frame

    async def show_discover(self, request: Request) -> Response:
        return await self._render_discover(request, note=read_flash(request, FLASH))

    async def find_feeds(self, request: Request) -> Response:
        """Which feeds an address has: one is added at once, of several somebody chooses."""
        frame, user = self._frame, await require_user(request, "write")
        form = await frame.forms.read_form(request)
        address = form.get("address", "").strip()
        try:
            if not address:
                raise InputError("No address was given: paste the address of a feed, or of a page that has one.")
            await frame.reader_quota.check_additions(user, [address])
            if frame.node is not None and request.url.path == "/discover":
                found = await discover_candidates(frame.node.scout, address)
                if len(found) > 1:
                    return await self._render_discover(request, candidates=found, address=address)
                address = found[0].url
            added = await frame.add_feed(address, user.id)
        except StoreError:
            raise
        except HeadwaterError as error:
            status = error.status if isinstance(error, RequestRefused) else 400
            return await self._render_discover(
                request, note=make_field_error(error, form, "address"), address=address, status=status
            )
        return redirect_with_flash(f"/read/feed/{added.feed.id}")

    async def subscribe_to_feed(self, request: Request) -> Response:
        """To a feed that is here already."""
        frame, user = self._frame, await require_user(request, "write")
        form = await frame.forms.read_form(request)
        feed = await frame.store.feed(form.get("feed", "")[:20] or "0")
        await join_feed(frame.store, user, feed.id, frame.clock())
        return redirect_with_flash("/discover", said="subscribed")

    async def _render_discover(
        self,
        request: Request,
        *,
        candidates: list[FeedCandidate] | None = None,
        address: str = "",
        note: FlashMessage | None = None,
        status: int = 200,
    ) -> Response:
        user = await require_user(request)
        values = {"candidates": candidates, "address": address, "note": note}
        return self._frame.render_page(
            request, "discover.html", status, page=await suggest_feeds(self._frame, user.id), **values
        )

    def routes(self) -> list[Route]:
        return [
            Route("/discover", self.show_discover),
            Route("/discover", self.find_feeds, methods=["POST"]),
            Route("/discover/add", self.find_feeds, methods=["POST"]),
            Route("/discover/subscribe", self.subscribe_to_feed, methods=["POST"]),
        ]


def routes(frame: Site) -> list[Route]:
    return DiscoverPages(frame).routes()
