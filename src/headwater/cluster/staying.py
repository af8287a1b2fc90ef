"""Staying on the list of members: a sign of life with every beat, and a farewell at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from headwater.cluster.by_postgres import encode_json
from headwater.cluster.identity import Identity
from headwater.cluster.membership import Membership
from headwater.cluster.timing import Timing
from headwater.errors import HeadwaterError
from headwater.node.upkeep import every
from headwater.store import leases
from headwater.store.store import Store

log = structlog.get_logger()


@asynccontextmanager
async def on_the_list(store: Store, membership: Membership, identity: Identity, timing: Timing) -> AsyncIterator[None]:
    """For as long as the block runs, for who has joined."""

    async def stay() -> None:
        await membership.stay()
        await store.statement(leases.greet, identity.name, identity.role, encode_json(identity.report()))

    await stay()
    stop = asyncio.Event()
    staying = asyncio.create_task(every(timing.beat, stay, stop))
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(staying, return_exceptions=True)
        try:
            await store.write(leases.leave, identity.name)
        except HeadwaterError as error:
            log.warning("not_taken_leave", error=str(error))
