"""Defines the operations of an open database: run plain functions on a connection, maybe fenced by a lease.

Every function of this package that uses SQL is a plain function whose first parameter is SQLAlchemy's synchronous
`Connection`. A `Database` runs such a function in a transaction of its own and returns its result asynchronously: one
change of threads per transaction, not one per statement.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

P = ParamSpec("P")
T = TypeVar("T")


class Database(ABC):
    """An open database."""

    @abstractmethod
    async def read(self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `function(connection, …)`, which only reads. Each statement sees all commits before it."""

    @abstractmethod
    async def snapshot(self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `function(connection, …)`, which only reads, in one transaction: everything as of one moment."""

    @abstractmethod
    async def write(self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `function(connection, …)` in a transaction that is committed before this returns.

        If the awaiting task is cancelled meanwhile, the transaction is still either whole or absent. PostgreSQL may
        run the function again when the connection was lost before the commit.
        """

    @abstractmethod
    async def write_one(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run `function(connection, …)`, which writes with a single statement and so needs no BEGIN and COMMIT."""

    def read_change_mark(self) -> object | None:
        """Return a value that changes with every write of any process, or None where that cannot be told cheaply."""
        return None

    @abstractmethod
    async def close(self) -> None:
        """Let running functions finish, then close all connections."""


class FencedDatabase(Database):
    """An open database whose writes first run `check`, which raises if the writer's lease has passed to another.

    Closing it leaves the database open for its owner.
    """

    def __init__(self, database: Database, check: Callable[[Connection], None]) -> None:
        self._database = database
        self._check = check

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
        self._check(connection)
        return function(connection, *args, **kwargs)

    async def close(self) -> None:
        """Do nothing: the owner closes the database."""
