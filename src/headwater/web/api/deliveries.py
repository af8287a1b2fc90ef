"""Deliveries: mails, web hooks and notifications of query feeds; dead letters and sending them again."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from headwater.errors import InputError
from headwater.store.values import Delivery
from headwater.web.api.endpoint import ADMIN, Answer, Asked, Call, Given, Noun
from headwater.web.api.values import Cursor, Id, Limit, Page, page, place

noun = Noun("deliveries", "Mails, web hooks and notifications of query feeds; the dead ones were given up.")

STATES = ("due", "failed", "sent", "dead")


class DeliveriesAsked(Asked, frozen=True):
    limit: Limit = 100
    cursor: Cursor | None = None
    state: Literal["due", "failed", "sent", "dead"] | None = None


@noun.get("/deliveries", ADMIN)
async def list_deliveries(call: Call, asked: DeliveriesAsked) -> Page[Delivery]:
    """List deliveries, the latest first."""
    before = place(asked.cursor, float, int)
    rows = await call.store.publishing.deliveries(
        (asked.state,) if asked.state else (),
        limit=asked.limit + 1,
        before=(before[0], before[1]) if before else None,
    )
    return page(rows, asked.limit, lambda one: one, lambda one: (one.at, one.id))


class DeliveryCounts(Answer, frozen=True):
    due: int
    failed: int
    sent: int
    dead: int


@noun.get("/deliveries/counts", ADMIN)
async def count_deliveries(call: Call) -> DeliveryCounts:
    """Count deliveries by state."""
    counts = await call.store.publishing.delivery_counts()
    return DeliveryCounts(**{state: counts.get(state, 0) for state in STATES})


class Resend(Given, frozen=True):
    """Either these, or all that were given up."""

    ids: Annotated[list[Id], Meta(max_length=1000)] = field(default_factory=list)
    dead: bool = False


class Due(Answer, frozen=True):
    due: int


@noun.post("/deliveries/resend", ADMIN)
async def resend_deliveries(call: Call, given: Resend) -> Due:
    """Try again what was given up or waits to be tried again."""
    if bool(given.ids) == given.dead:
        raise InputError("Give the numbers of deliveries, or dead for all that were given up.", "ids")
    number = await call.store.publishing.resend(given.ids, call.now)
    if given.ids and not number:
        raise InputError("None of these can be sent again: only dead and failed deliveries can.", "ids")
    if call.node is not None:
        call.node.deliverer.wake()
    return Due(due=number)
