"""What strategy and manners have learned, kept in the store so that a restart forgets nothing.

A strategy's state is arrays with one row per feed; they are saved with the feeds' ids and brought into the order of the
roster when loaded. State of another strategy or version is put aside with a line in the log, and learning starts anew.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import structlog
from numpy.typing import NDArray

from headwater.errors import StrategyError
from headwater.node.courtesy import Courtesy
from headwater.node.roster import Roster
from headwater.schedule.base import Strategy
from headwater.store.store import Store

STRATEGY, HOSTS = "strategy", "hosts"
VERSION = 1
IDS = "feed_ids"

log = structlog.get_logger()


async def save(store: Store, roster: Roster, strategy: Strategy, courtesy: Courtesy, now: float) -> None:
    packed = io.BytesIO()
    arrays: dict[str, Any] = {IDS: roster.ids, **strategy.save()}
    np.savez(packed, **arrays)
    await store.save_state(STRATEGY, VERSION, packed.getvalue(), now)
    await store.save_state(HOSTS, VERSION, courtesy.save(), now)


async def load_hosts(store: Store, courtesy: Courtesy) -> None:
    saved = await store.load_state(HOSTS)
    if saved is not None and saved[0] == VERSION:
        courtesy.load(saved[1])


async def load_strategy(store: Store, roster: Roster, strategy: Strategy) -> bool:
    """Give the strategy what it had learned about the feeds of the roster; False if there was nothing it could use."""
    saved = await store.load_state(STRATEGY)
    if saved is None or saved[0] != VERSION:
        return False
    with np.load(io.BytesIO(saved[1]), allow_pickle=False) as arrays:
        state = {key: arrays[key] for key in arrays.files}
    try:
        strategy.load(arranged(state, state.pop(IDS), roster.ids, strategy))
    except StrategyError as error:
        log.warning("strategy_state_put_aside", strategy=strategy.name, why=str(error))
        return False
    return True


def arranged(
    state: Mapping[str, NDArray[Any]], saved: NDArray[np.int64], wanted: NDArray[np.int64], blank: Strategy
) -> dict[str, NDArray[Any]]:
    """Saved rows in the order of `wanted`; a feed that was not there gets the row a new feed has in `blank`."""
    place = {int(feed): k for k, feed in enumerate(saved.tolist()) if feed >= 0}
    source = np.array([place.get(int(feed), -1) for feed in wanted.tolist()], np.intp)
    known = source >= 0
    fresh = blank.save()
    result = dict(state)
    for key, array in state.items():
        if key not in fresh or not array.ndim or len(array) != len(saved) or not _by_feed(key):
            continue
        rows = fresh[key].copy()
        rows[known] = array[source[known]]
        result[key] = rows
    return result | {key: fresh[key] for key in state if key in fresh and key.rsplit("/", 1)[-1] == "_feeds"}


def _by_feed(key: str) -> bool:
    """Keys of shared arrays start with “*”, those about the state itself with “_”."""
    return not key.rsplit("/", 1)[-1].startswith(("*", "_"))
