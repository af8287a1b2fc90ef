"""Saved state takes as many rows as it needs."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, select

from headwater.store import saved_state
from headwater.store.opening import open_store
from headwater.store.saved_state import load_state, save_state
from headwater.store.schema.item_tables import saved_state as table


def list_names(connection: Connection) -> list[str]:
    return sorted(connection.execute(select(table.c.name).where(table.c.name.like("learned%"))).scalars())


async def test_state_beyond_one_row_is_loaded_as_it_was_saved(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_state, "MAX_ROW_BYTES", 10)
    async with await open_store(database_url) as store:
        for length in (35, 9, 10, 20, 11, 0, 31):
            blob = bytes(range(length))
            await store.write(save_state, "learned", 3, blob, 1.0)
            assert await store.read(load_state, "learned") == (3, blob)
            assert len(await store.read(list_names)) == length // 10 + 1
        await store.write(save_state, "other", 1, b"short", 1.0)
        assert await store.read(load_state, "learned") == (3, bytes(range(31)))
