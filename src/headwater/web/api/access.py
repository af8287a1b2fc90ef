"""Who may call an endpoint, and what of the server's things they may see."""

from __future__ import annotations

from starlette.requests import Request

from headwater.node.node import Node
from headwater.web.api.endpoint import ApiCall
from headwater.web.forms import RequestRefused
from headwater.web.session import Forbidden, Identity, NotSignedIn, require_identity


async def require_scope(request: Request, scope: str) -> Identity:
    """Who asks, if they may; Refused with 401 or 403."""
    try:
        return await require_identity(request, scope)
    except NotSignedIn as error:
        raise RequestRefused(str(error), 401) from error
    except Forbidden as error:
        raise RequestRefused(str(error), 403) from error


def require_owner(call: ApiCall, does: str) -> None:
    """Refused unless an owner calls: for what only a part of an endpoint needs."""
    if not call.user.is_owner:
        raise RequestRefused(f"Only an owner {does}.", 403)


def require_aggregator(call: ApiCall) -> Node:
    """The aggregator of this process; Refused where there is none."""
    if call.node is None:
        raise RequestRefused("This process runs no aggregator: ask the one that does.", 503)
    return call.node


async def require_visible_feed(call: ApiCall, feed_id: int) -> None:
    """NotFound, in the same words, for a feed that is not here and for one that is not theirs."""
    if call.user.is_owner:
        await call.store.feed(feed_id)
    else:
        await call.store.reading.require(call.user.id, feed_id)
