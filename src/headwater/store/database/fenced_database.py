"""Refuses every write once a lease has passed to another process: the epoch is checked in each transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from headwater.store.cluster_leases import ClusterLease, require_lease
from headwater.store.database.database import Database

P = ParamSpec("P")
T = TypeVar("T")


class FencedDatabase(Database):
    """An open database for the holder of a lease. Closing it leaves the database open for its owner."""

    def __init__(self, database: Database, lease: ClusterLease) -> None:
        self._database = database
        self._lease = lease

    async def read(self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._database.read(function, *args, **kwargs)

    async def snapshot(self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._database.snapshot(function, *args, **kwargs)

    async def write(self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._database.write(self._run_fenced, function, args, kwargs)

    async def write_one(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await self.write(function, *args, **kwargs)

    def _run_fenced(
        self, connection: Connection, function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> T:
        require_lease(connection, self._lease)
        return function(connection, *args, **kwargs)

    async def close(self) -> None:
        """Do nothing: the owner closes the database."""
