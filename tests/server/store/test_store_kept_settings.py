"""Several processes change settings of one database: no change is lost, and each process gets those that are new
to it.
"""

from __future__ import annotations

import asyncio

from headwater.store import saved_state
from headwater.store.store import Store


async def test_changes_of_two_processes_at_once_are_all_kept(store: Store) -> None:
    names = [f"setting {k}" for k in range(8)]
    numbers = await asyncio.gather(
        *(store.write(saved_state.save_changed_settings, {name: k}, 0.0) for k, name in enumerate(names))
    )
    assert sorted(numbers) == list(range(1, 9))
    assert await store.read(saved_state.settings_changed_since, 0) == (8, {name: k for k, name in enumerate(names)})
    last = max(numbers)
    assert await store.read(saved_state.settings_changed_since, last - 1) == (
        8,
        {names[numbers.index(last)]: numbers.index(last)},
    )
    assert await store.read(saved_state.settings_changed_since, last) == (8, {})
