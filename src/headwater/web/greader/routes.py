"""Where the parts of the Google Reader API are."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from headwater.store.store import Store
from headwater.web.allowance import Allowance
from headwater.web.frame import Add
from headwater.web.greader.api import PREFIXES, Api, Call, Shared, answered, said
from headwater.web.greader.streams import StreamPart
from headwater.web.greader.subscriptions import LONGEST_LIST, SubscriptionPart
from headwater.web.signing_in import Door


def routes(store: Store, door: Door, add: Add, base: str, allowance: Allowance) -> list[BaseRoute]:
    shared = Shared(store, door, add, base.rstrip("/"), allowance)
    api, lists, streams = Api(shared), SubscriptionPart(shared), StreamPart(shared)
    parts: list[Sequence[BaseRoute]] = [
        [Route(f"{before}/accounts/ClientLogin", api.login, methods=["GET", "POST"]) for before in PREFIXES],
        [Route(f"{PREFIXES[1]}{path}", _here, methods=["GET"]) for path in ("", "/")],
        api.routes("/token", lists.token),
        api.routes("/user-info", lists.user_info),
        api.routes("/subscription/list", lists.listed),
        api.routes("/subscription/edit", lists.edit, changes=True),
        api.routes("/subscription/quickadd", lists.quickadd, changes=True),
        api.routes("/subscription/import", lists.import_, changes=True, body=LONGEST_LIST),
        api.routes("/subscription/export", lists.export),
        api.routes("/tag/list", lists.tags),
        api.routes("/rename-tag", lists.rename_tag, changes=True),
        api.routes("/disable-tag", lists.disable_tag, changes=True),
        api.routes("/unread-count", streams.unread_count),
        api.routes("/stream/items/ids", streams.item_ids),
        api.routes("/stream/items/contents", streams.items),
        api.routes("/stream/contents", streams.contents),
        api.routes("/stream/contents/", streams.contents),
        api.routes("/stream/contents/{stream:path}", streams.contents),
        api.routes("/edit-tag", streams.edit_tag, changes=True),
        api.routes("/mark-all-as-read", streams.mark_all, changes=True),
        api.routes("/preference/list", _preferences),
        api.routes("/preference/stream/list", _stream_preferences),
        api.routes("/{stream:path}", streams.atom, prefix="/reader/atom"),
    ]
    return [route for part in parts for route in part]


async def _here(request: Request) -> Response:
    """What a person sees who looks whether the address of the API is right."""
    return said("This is a Google Reader API. Give this address to a reader, with your name and password.")


async def _preferences(call: Call) -> Response:
    return answered({"prefs": []})


async def _stream_preferences(call: Call) -> Response:
    return answered({"streamprefs": {}})
