"""Maps the paths of the Google Reader API to their handlers."""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.web.greader.greader_call import GReaderCall, GReaderRouter, json_response, text_response
from headwater.web.greader.stream_handlers import StreamHandlers
from headwater.web.greader.subscription_handlers import MAX_OPML_BYTES, SubscriptionHandlers
from headwater.web.site import Site

LIKE_FRESHRSS = "/api/greader.php"  # serves the whole API too: apps append their paths to this address
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
    calls = [
        api.route("/token", lists.show_token),
        api.route("/user-info", lists.show_user_info),
        api.route("/subscription/list", lists.list_subscriptions),
        api.route("/subscription/edit", lists.edit_subscription, changes=True),
        api.route("/subscription/quickadd", lists.quick_add, changes=True),
        api.route("/subscription/import", lists.import_opml, changes=True, body=MAX_OPML_BYTES),
        api.route("/subscription/export", lists.export_opml),
        api.route("/tag/list", lists.list_tags),
        api.route("/rename-tag", lists.rename_tag, changes=True),
        api.route("/disable-tag", lists.disable_tag, changes=True),
        api.route("/unread-count", streams.count_unread),
        api.route("/stream/items/ids", streams.list_item_ids),
        api.route("/stream/items/contents", streams.show_items),
        api.route("/stream/contents", streams.show_contents),
        api.route("/stream/contents/", streams.show_contents),
        api.route("/stream/contents/{stream:path}", streams.show_contents),
        api.route("/edit-tag", streams.edit_tag, changes=True),
        api.route("/mark-all-as-read", streams.mark_all_read, changes=True),
        api.route("/preference/list", _list_preferences),
        api.route("/preference/stream/list", _list_stream_preferences),
    ]
    paths: list[BaseRoute] = [
        Route("/accounts/ClientLogin", api.login, methods=["GET", "POST"]),
        Mount("/reader/api/0", routes=calls),
        api.route("/reader/atom/{stream:path}", streams.show_atom),
    ]
    return [
        *paths,
        Route(LIKE_FRESHRSS, _show_greeting, methods=["GET"]),
        Mount(LIKE_FRESHRSS, routes=[Route("/", _show_greeting, methods=["GET"]), *paths]),
    ]


async def _show_greeting(request: Request) -> Response:
    """Explain the API's address to a person who opens it in a browser."""
    return text_response(
        "This is a Google Reader API. Enter this address in a reader app, with your name and password."
    )


async def _list_preferences(call: GReaderCall) -> Response:
    return json_response({"prefs": []})


async def _list_stream_preferences(call: GReaderCall) -> Response:
    return json_response({"streamprefs": {}})
