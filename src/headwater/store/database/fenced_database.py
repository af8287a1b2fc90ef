"""A database whose every write is refused once a lease has been lost: the epoch goes with each transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection

from headwater.store import cluster_leases
from headwater.store.database.database import Database, Transaction

T = TypeVar("T")


class FencedDatabase(Database):
    """The same open database, for whoever holds `held`; closing it is left to its owner."""

    def __init__(self, inner: Database, held: cluster_leases.ClusterLease) -> None:
        self._inner = inner
        self._held = held

    async def read(self, function: Callable[..., T], *args: Any) -> T:
        return await self._inner.read(function, *args)

    async def snapshot(self, function: Callable[..., T], *args: Any) -> T:
        return await self._inner.snapshot(function, *args)

    async def write_one(self, function: Callable[..., T], *args: Any) -> T:
        return await self.write(function, *args)

    async def write(self, function: Callable[..., T], *args: Any) -> T:
        return await self._inner.write(self._run_fenced, function, args)

    def _run_fenced(self, connection: Connection, function: Callable[..., T], args: tuple[Any, ...]) -> T:
        cluster_leases.require_lease(connection, self._held)
        return function(connection, *args)

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        return self._transaction()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Transaction]:
        async with self._inner.transaction() as transaction:
            await transaction.run(cluster_leases.require_lease, self._held)
            yield transaction

    async def close(self) -> None:
        """Nothing is ours."""
