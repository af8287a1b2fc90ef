"""Staying on the list of members: a sign of life with every beat, and a farewell at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from headwater.cluster.by_postgres import encode_report
from headwater.cluster.identity import LocalMember
from headwater.cluster.membership import Membership
from headwater.cluster.timing import LeaseTiming
from headwater.errors import HeadwaterError
from headwater.node.upkeep import run_every
from headwater.store import leases
from headwater.store.store import Store

log = structlog.get_logger()


@asynccontextmanager
async def send_heartbeats(
    store: Store, membership: Membership, identity: LocalMember, timing: LeaseTiming
) -> AsyncIterator[None]:
    """For as long as the block runs, for who has joined."""

    async def stay() -> None:
        await membership.heartbeat()
        await store.write_one(
            leases.record_heartbeat, identity.name, identity.role, encode_report(identity.make_report())
        )

    await stay()
    stop = asyncio.Event()
    staying = asyncio.create_task(run_every(timing.heartbeat_seconds, stay, stop))
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(staying, return_exceptions=True)
        try:
            await store.write(leases.remove_member, identity.name)
        except HeadwaterError as error:
            log.warning("not_taken_leave", error=str(error))
