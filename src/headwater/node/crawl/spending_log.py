"""Keeps the record of spent requests in the store, so that the next leader, or a restarted server, counts them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
from sqlalchemy import Connection

from headwater.schedule.budget import BudgetRecord
from headwater.store import saved_state
from headwater.store.store import Store

NAME, VERSION = "spent requests", 1

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(BudgetRecord).decode


class SpendingLog:
    """Saves and loads the record. `read_clock` reads a clock that all its writers share: the database's in a cluster.

    With a fenced store, a process that no longer leads cannot write after the next one has read.
    """

    def __init__(self, store: Store, read_clock: Callable[[Connection], float]) -> None:
        self._store = store
        self._read_clock = read_clock
        self._saving = asyncio.Lock()

    async def save_record(self, make_record: Callable[[], BudgetRecord]) -> float:
        """Save the record that `make_record` returns; return the time of the shared clock at which it was saved.

        One at a time, so that an older record does not replace a newer one.
        """
        async with self._saving:
            return await self._store.write(self._save, _encode(make_record()))

    async def load_record(self) -> tuple[BudgetRecord, float] | None:
        """Return the last record with its age in seconds; None if there is none."""
        return await self._store.read(self._load)

    def _save(self, connection: Connection, body: bytes) -> float:
        now = self._read_clock(connection)
        saved_state.save_state(connection, NAME, VERSION, body, now)
        return now

    def _load(self, connection: Connection) -> tuple[BudgetRecord, float] | None:
        found, saved = saved_state.load_state(connection, NAME), saved_state.find_save_time(connection, NAME)
        if found is None or saved is None or found[0] != VERSION:
            return None
        return _decode(found[1]), max(self._read_clock(connection) - saved, 0.0)
