"""Opens the store and the fetcher for a command, and runs its coroutine."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.errors import StoreError
from headwater.private_files import make_private_folder
from headwater.settings import Settings
from headwater.store import opening
from headwater.store.store import Store

if TYPE_CHECKING:
    from headwater.fetch.client import Fetcher

T = TypeVar("T")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, on uvloop if there is one."""
    if sys.platform == "win32":
        return asyncio.run(work)
    import uvloop

    return uvloop.run(work)


def make_data_folder(settings: Settings) -> None:
    """Create the data folder if the database is a file in it."""
    if settings.database is not None:
        return
    try:
        make_private_folder(settings.data)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(
            f"The data folder {settings.data} cannot be created: {reason}. Choose another with --data."
        ) from error


@asynccontextmanager
async def open_store(settings: Settings) -> AsyncIterator[Store]:
    """Open the store of these settings, with its data folder."""
    make_data_folder(settings)
    store = await opening.open_store(settings.database_url)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def open_fetcher(settings: Settings, store: Store) -> AsyncIterator[Fetcher]:
    """Open the HTTP client. Next to a cluster it fetches through the terminal that holds the host, so that each host
    still sees one client."""
    from headwater.fetch.client import Fetcher  # half of the start-up time of commands that fetch

    async with AsyncExitStack() as stack:
        proxy = None
        if settings.database_url.startswith("postgres"):
            from headwater.cluster.fetcher_setup import open_cluster_fetch

            proxy = await stack.enter_async_context(open_cluster_fetch(settings, store))
        client = Fetcher(
            allow_private=settings.allow_private,
            contact=settings.contact,
            per_host=settings.per_host,
            pause=settings.host_pause,
            proxy=proxy,
        )
        yield await stack.enter_async_context(client)
