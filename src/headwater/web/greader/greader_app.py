"""Maps the paths of the Google Reader API to their handlers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.web.greader.greader_call import (
    PREFIXES,
    GReaderCall,
    GReaderRouter,
    json_response,
    text_response,
)
from headwater.web.greader.stream_handlers import StreamHandlers
from headwater.web.greader.subscription_handlers import MAX_OPML_BYTES, SubscriptionHandlers
from headwater.web.site import Site

_DOUBLED = re.compile("^(?://+|/(?=api/greader.php//))((?:api/greader.php/)?)/*")


class SingleSlashes:
    """Middleware that removes doubled slashes: newsboat appends its paths to an address that ends with a slash."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _DOUBLED.match(scope["path"]):
            path = _DOUBLED.sub(r"/\1", scope["path"])
            scope = {**scope, "path": path, "raw_path": path.encode()}
        await self._app(scope, receive, send)


def build_greader_routes(site: Site) -> list[BaseRoute]:
    """Return the routes of the whole API."""
    api, lists, streams = GReaderRouter(site), SubscriptionHandlers(site), StreamHandlers(site)
    parts: list[Sequence[BaseRoute]] = [
        [Route(f"{before}/accounts/ClientLogin", api.login, methods=["GET", "POST"]) for before in PREFIXES],
        [Route(f"{PREFIXES[1]}{path}", _show_greeting, methods=["GET"]) for path in ("", "/")],
        api.routes("/token", lists.show_token),
        api.routes("/user-info", lists.show_user_info),
        api.routes("/subscription/list", lists.list_subscriptions),
        api.routes("/subscription/edit", lists.edit_subscription, changes=True),
        api.routes("/subscription/quickadd", lists.quick_add, changes=True),
        api.routes("/subscription/import", lists.import_opml, changes=True, body=MAX_OPML_BYTES),
        api.routes("/subscription/export", lists.export_opml),
        api.routes("/tag/list", lists.list_tags),
        api.routes("/rename-tag", lists.rename_tag, changes=True),
        api.routes("/disable-tag", lists.disable_tag, changes=True),
        api.routes("/unread-count", streams.count_unread),
        api.routes("/stream/items/ids", streams.list_item_ids),
        api.routes("/stream/items/contents", streams.show_items),
        api.routes("/stream/contents", streams.show_contents),
        api.routes("/stream/contents/", streams.show_contents),
        api.routes("/stream/contents/{stream:path}", streams.show_contents),
        api.routes("/edit-tag", streams.edit_tag, changes=True),
        api.routes("/mark-all-as-read", streams.mark_all_read, changes=True),
        api.routes("/preference/list", _list_preferences),
        api.routes("/preference/stream/list", _list_stream_preferences),
        api.routes("/{stream:path}", streams.show_atom, prefix="/reader/atom"),
    ]
    return [route for part in parts for route in part]


async def _show_greeting(request: Request) -> Response:
    """Explain the API's address to a person who opens it in a browser."""
    return text_response(
        "This is a Google Reader API. Enter this address in a reader app, with your name and password."
    )


async def _list_preferences(call: GReaderCall) -> Response:
    return json_response({"prefs": []})


async def _list_stream_preferences(call: GReaderCall) -> Response:
    return json_response({"streamprefs": {}})
