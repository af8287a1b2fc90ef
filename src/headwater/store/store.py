"""Runs functions on an open database: `await store.read(find_feed, 3)`, `await store.write(add_user, …)`.

The functions stand in the rooms of this package, each beside the values it returns, and take a `Connection` first. A
transaction is a function that calls functions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from headwater.store.cluster_leases import ClusterLease, require_lease
from headwater.store.database.database import Database, FencedDatabase

if TYPE_CHECKING:
    from headwater.loops import ChangeWatch

P = ParamSpec("P")
T = TypeVar("T")


class Store:
    """An open database. Use it in the event loop that opened it; any number of tasks may share it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @cached_property
    def changes(self) -> ChangeWatch:
        """Wakes tasks after any process has written to the database."""
        from headwater.loops import ChangeWatch  # loads structlog, which a short command does not need

        return ChangeWatch(self._database.read_change_mark)

    async def read(self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `function(connection, …)`, which only reads. A write in it fails."""
        return await self._database.read(function, *args, **kwargs)

    async def snapshot(self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `function(connection, …)`, which reads much and piece by piece, in one transaction."""
        return await self._database.snapshot(function, *args, **kwargs)

    async def write(self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `function(connection, …)` in a transaction that is committed before this returns."""
        return await self._database.write(function, *args, **kwargs)

    async def write_one(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run `function(connection, …)`, which writes with a single statement, without a transaction around it."""
        return await self._database.write_one(function, *args, **kwargs)

    def fenced(self, lease: ClusterLease) -> Store:
        """Return this store for the holder of a lease: writes raise LeaseLost once it has passed to another."""
        return Store(FencedDatabase(self._database, lambda connection: require_lease(connection, lease)))

    async def close(self) -> None:
        """Let running functions finish and close the database."""
        await self._database.close()

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
