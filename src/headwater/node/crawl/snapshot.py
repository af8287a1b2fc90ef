"""Saves and restores the state of strategy and politeness, so that a restart forgets nothing.

A strategy's state is arrays with one row per feed, saved with the feeds' ids and sorted like the feed table when
loaded. State of another strategy or version is ignored with a line in the log, and learning starts anew.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import structlog
from numpy.typing import NDArray

from headwater.errors import StrategyError
from headwater.node.crawl.feed_table import FeedTable
from headwater.node.crawl.lessons import replay_refreshes
from headwater.node.crawl.politeness import Politeness
from headwater.schedule.strategy import Strategy
from headwater.store.content.refreshes import list_refreshes_after
from headwater.store.saved_state import load_state, save_state
from headwater.store.store import Store

# zipfile raises NotImplementedError for an unknown compression.
_DAMAGE_ERRORS = (ValueError, KeyError, EOFError, OSError, NotImplementedError, zipfile.BadZipFile, zlib.error)


def pack_arrays(arrays: Mapping[str, NDArray[Any]], *, compressed: bool = False) -> bytes:
    """Pack arrays as an npz archive."""
    packed = io.BytesIO()
    save: Any = np.savez_compressed if compressed else np.savez
    save(packed, **arrays)
    return packed.getvalue()


def unpack_arrays(blob: bytes) -> dict[str, NDArray[Any]]:
    """Return the packed arrays. Raises StrategyError if the blob is damaged.

    >>> unpack_arrays(pack_arrays({"due": np.arange(3)}))["due"].tolist()
    [0, 1, 2]
    """
    try:
        with np.load(io.BytesIO(blob), allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except (*_DAMAGE_ERRORS, AttributeError) as error:  # a single array is not an archive and has no files
        raise StrategyError(f"The saved state is damaged ({error}): start it afresh.") from error


STRATEGY, HOSTS = "strategy", "hosts"
VERSION = 1
IDS, LEARNED = "feed_ids", "learned"

log = structlog.get_logger()


async def save_snapshot(
    store: Store, feed_table: FeedTable, strategy: Strategy, politeness: Politeness, now: float
) -> None:
    """Save the learned state with the feeds that it belongs to; without feeds there is none, only empty buffers."""
    if len(feed_table):
        arrays: dict[str, Any] = {IDS: feed_table.ids, LEARNED: feed_table.learned_until, **strategy.save()}
        await store.write(save_state, STRATEGY, VERSION, pack_arrays(arrays), now)
    await store.write(save_state, HOSTS, VERSION, politeness.save(), now)


async def load_host_state(store: Store, politeness: Politeness) -> None:
    """Load the hosts that refused before a restart."""
    saved = await store.read(load_state, HOSTS)
    if saved is not None and saved[0] == VERSION:
        try:
            politeness.load(saved[1])
        except msgspec.DecodeError as error:
            log.warning("hosts_state_ignored", why=str(error))


async def load_snapshot(store: Store, feed_table: FeedTable, strategy: Strategy) -> bool:
    """Load the saved state into the strategy; return whether there was a usable one."""
    saved = await store.read(load_state, STRATEGY)
    if saved is None:
        return False
    try:
        if saved[0] != VERSION:
            raise StrategyError(f"The saved state has version {saved[0]}, this is {VERSION}: start it afresh.")
        state = unpack_arrays(saved[1])
        if IDS not in state:
            raise StrategyError("The saved state says nothing of its feeds: start it afresh.")
        ids, learned = state.pop(IDS), state.pop(LEARNED, None)
        strategy.load(align_rows(state, ids, feed_table.ids, strategy))
    except StrategyError as error:
        log.warning("strategy_state_ignored", strategy=strategy.name, why=str(error))
        return False
    there, source = _match_rows(ids, feed_table.ids)
    feed_table.learned_until[there] = feed_table.table.last[there] if learned is None else learned[source]
    return True


async def replay_missed(store: Store, feed_table: FeedTable, strategy: Strategy) -> None:
    """Teach the strategy the refreshes of the log that it has missed.

    Commands refresh feeds, pages add feeds with their first items, and a killed server has not saved its last minutes.
    """
    rows = feed_table.unlearned
    if len(rows):
        learned_until = dict(zip(feed_table.ids[rows].tolist(), feed_table.learned_until[rows].tolist(), strict=True))
        replay_refreshes(strategy, feed_table, await store.read(list_refreshes_after, learned_until))
        # the log may be pruned
        feed_table.learned_until[rows] = np.maximum(feed_table.learned_until[rows], feed_table.table.last[rows])


def align_rows(
    state: Mapping[str, NDArray[Any]], saved: NDArray[np.int64], wanted: NDArray[np.int64], blank: Strategy
) -> dict[str, NDArray[Any]]:
    """Return the saved rows in the order of `wanted`; a feed without one gets the row of a new feed in `blank`."""
    known, source = _match_rows(saved, wanted)
    fresh = blank.save()
    result = dict(state)
    for key, array in state.items():
        if key not in fresh or not array.ndim or len(array) != len(saved) or not _is_per_feed(key):
            continue
        rows = fresh[key].copy()
        if array.shape[1:] == rows.shape[1:]:  # a column of another layout is left to the strategy, which decides
            rows[known] = array[source]
            result[key] = rows
    return result | {key: fresh[key] for key in state if key in fresh and key.rsplit("/", 1)[-1] == "_feeds"}


def _match_rows(saved: NDArray[np.int64], wanted: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Return which of `wanted` were saved, and the saved row of each of those."""
    place = {int(feed): k for k, feed in enumerate(saved.tolist()) if feed >= 0}
    source = np.array([place.get(int(feed), -1) for feed in wanted.tolist()], np.intp)
    return source >= 0, source[source >= 0]


def _is_per_feed(key: str) -> bool:
    """Whether an array has one row per feed: keys of shared arrays start with “*”, of metadata with “_”."""
    return not key.rsplit("/", 1)[-1].startswith(("*", "_"))
