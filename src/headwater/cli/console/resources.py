"""What commands need to do work: the event loop, the open store and the guarded client of the settings in force."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.errors import StoreError
from headwater.settings import Settings
from headwater.store import opening
from headwater.store.store import Store

if TYPE_CHECKING:
    from headwater.fetch.client import Fetcher

T = TypeVar("T")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine, on uvloop where there is one."""
    if sys.platform == "win32":
        return asyncio.run(work)
    import uvloop

    return uvloop.run(work)


def make_data_folder(settings: Settings) -> None:
    """Make the data folder, where the database is a file in it."""
    if settings.database is not None:
        return
    try:
        settings.data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(
            f"The data folder {settings.data} cannot be made: {reason}. Choose another by --data."
        ) from error


@asynccontextmanager
async def open_store(settings: Settings) -> AsyncIterator[Store]:
    """The store of these settings; the data folder is made if it is not there."""
    make_data_folder(settings)
    store = await opening.open_store(settings.database_url)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def open_fetcher(settings: Settings, store: Store) -> AsyncIterator[Fetcher]:
    """The one client by which anything leaves: from here, or where a cluster lives on the database, from the terminal
    that holds the host, so that no host sees two of us at once."""
    from headwater.fetch.client import Fetcher  # half of the start-up, for the commands that fetch

    async with AsyncExitStack() as stack:
        errands = None
        if settings.database_url.startswith("postgres"):
            from headwater.cluster.cluster_fetch import open_cluster_fetch

            errands = await stack.enter_async_context(open_cluster_fetch(settings, store))
        client = Fetcher(
            allow_private=settings.allow_private,
            contact=settings.contact,
            per_host=settings.per_host,
            pause=settings.host_pause,
            errands=errands,
        )
        yield await stack.enter_async_context(client)
