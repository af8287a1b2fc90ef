"""How functions on a connection are run: in SQLite's threads, or on PostgreSQL's sockets.

Everything in this package that speaks SQL is a plain function that takes SQLAlchemy's synchronous `Connection`
first. A `Database` runs such a function in a transaction of its own and answers asynchronously, one hop per
transaction and not per statement.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

T = TypeVar("T")


class Transaction(ABC):
    """An open transaction: everything run in it is committed together, or not at all."""

    @abstractmethod
    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """`function(connection, *args)` with SQLAlchemy's synchronous connection; the function must not commit."""


class Database(ABC):
    """An open database."""

    @abstractmethod
    async def read(self, function: Callable[..., T], *args: Any) -> T:
        """`function(connection, *args)` that only reads; of several statements each sees what is there by then."""

    @abstractmethod
    async def snapshot(self, function: Callable[..., T], *args: Any) -> T:
        """The same in one transaction, for what reads piece by piece, or wants everything as of one moment."""

    @abstractmethod
    async def write_one(self, function: Callable[..., T], *args: Any) -> T:
        """`function(connection, *args)` that writes by one statement and so needs no transaction around it."""

    @abstractmethod
    async def write(self, function: Callable[..., T], *args: Any) -> T:
        """`function(connection, *args)` in a transaction of its own, committed before this returns.

        When the awaiting task is cancelled meanwhile, the transaction is still either whole or absent.
        """

    @abstractmethod
    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A writing transaction over several awaits, committed at the end of the block."""

    @abstractmethod
    async def close(self) -> None:
        """Let everything under way finish, then let go."""
