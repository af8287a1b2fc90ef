"""Deliveries: mails, web hooks and notifications of query feeds; dead letters and sending them again."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from headwater.errors import InputError
from headwater.store.values import Delivery
from headwater.web.api.endpoint import ADMIN, ApiCall, EndpointGroup, Parameters, RequestBody, ResponseBody
from headwater.web.api.values import Cursor, Id, Limit, ListPage, decode_cursor, paginate

delivery_group = EndpointGroup(
    "deliveries", "Mails, web hooks and notifications of query feeds; the dead ones were given up."
)

DELIVERY_STATES = ("due", "failed", "sent", "dead")


class DeliveryListParameters(Parameters, frozen=True):
    limit: Limit = 100
    cursor: Cursor | None = None
    state: Literal["due", "failed", "sent", "dead"] | None = None


@delivery_group.get("/deliveries", ADMIN)
async def list_deliveries(call: ApiCall, asked: DeliveryListParameters) -> ListPage[Delivery]:
    """List deliveries, the latest first."""
    before = decode_cursor(asked.cursor, float, int)
    rows = await call.store.publishing.deliveries(
        (asked.state,) if asked.state else (),
        limit=asked.limit + 1,
        before=(before[0], before[1]) if before else None,
    )
    return paginate(rows, asked.limit, lambda one: one, lambda one: (one.at, one.id))


class DeliveryCounts(ResponseBody, frozen=True):
    due: int
    failed: int
    sent: int
    dead: int


@delivery_group.get("/deliveries/counts", ADMIN)
async def count_deliveries(call: ApiCall) -> DeliveryCounts:
    """Count deliveries by state."""
    counts = await call.store.publishing.delivery_counts()
    return DeliveryCounts(**{state: counts.get(state, 0) for state in DELIVERY_STATES})


class ResendRequest(RequestBody, frozen=True):
    """Either these, or all that were given up."""

    ids: Annotated[list[Id], Meta(max_length=1000)] = field(default_factory=list)
    dead: bool = False


class ResendCount(ResponseBody, frozen=True):
    due: int


@delivery_group.post("/deliveries/resend", ADMIN)
async def resend_deliveries(call: ApiCall, given: ResendRequest) -> ResendCount:
    """Try again what was given up or waits to be tried again."""
    if bool(given.ids) == given.dead:
        raise InputError("Give the numbers of deliveries, or dead for all that were given up.", "ids")
    number = await call.store.publishing.resend(given.ids, call.now)
    if given.ids and not number:
        raise InputError("None of these can be sent again: only dead and failed deliveries can.", "ids")
    if call.node is not None:
        call.node.deliverer.wake()
    return ResendCount(due=number)
