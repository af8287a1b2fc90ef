"""The engine's memory as bytes: what it must not lose when the server stops."""

from __future__ import annotations

from array import array
from typing import Any

import msgspec

from headwater.errors import InputError
from headwater.language.ast import Field
from headwater.query.feeds.look_back_window import LookBackWindow, WindowEntry
from headwater.query.feeds.query_feeds import QueryFeedEntry, QueryFeeds
from headwater.query.feeds.recent_items import RecentItem, RecentItems
from headwater.query.hits import Related
from headwater.query.index.access_path import FeatureShares
from headwater.query.items.similarity import WordFrequencies

VERSION = 1


class _WindowSnapshot(msgspec.Struct, array_like=True):
    entries: list[tuple[float, Related, list[Any]]]
    gone: list[tuple[str, str]]


class _QuerySnapshot(msgspec.Struct, array_like=True):
    """The windows of a query feed, of its joins and then of DISTINCT; `text` tells whether it is still the same."""

    text: str
    windows: list[_WindowSnapshot]


class _ItemSnapshot(msgspec.Struct, array_like=True):
    source: str
    identity: str
    content_hash: str
    version: int
    emitted: bytes  # numbers of queries, four bytes each
    silent: list[int]


class _EngineSnapshot(msgspec.Struct):
    version: int
    names: dict[int, str]
    replaced: dict[int, list[int]]
    queries: dict[str, _QuerySnapshot]
    recent: list[_ItemSnapshot]
    frequencies: dict[str, tuple[float, dict[str, float]]]
    shares: tuple[float, dict[str, float]]


def save_snapshot(
    standing: QueryFeeds, recent: RecentItems, frequencies: WordFrequencies, shares: FeatureShares
) -> bytes:
    records = {number: record for number, record in enumerate(standing.records) if record is not None}
    state = _EngineSnapshot(
        VERSION,
        {number: record.name for number, record in records.items()},
        {number: list(record.replaced) for number, record in records.items() if record.replaced},
        {
            record.name: _QuerySnapshot(record.text, [_snapshot_window(past) for past in _list_windows(record)])
            for record in records.values()
            if any(map(len, _list_windows(record)))
        },
        [
            _ItemSnapshot(
                *key, seen.content_hash, seen.version, array("I", seen.emitted).tobytes(), sorted(seen.silent)
            )
            for key, seen in recent.items()
        ],
        {str(field): counted for field, counted in frequencies.export_counts().items()},
        shares.export_counts(),
    )
    return msgspec.msgpack.encode(state)


def _list_windows(record: QueryFeedEntry) -> list[LookBackWindow]:
    layer = record.layer
    if layer is None:
        return []
    return [*layer.secondaries, *([] if layer.firsts is None else [layer.firsts])]


def _snapshot_window(past: LookBackWindow) -> _WindowSnapshot:
    return _WindowSnapshot(
        [(entry.at, entry.related, list(entry.values)) for entry in past.list_entries()], past.list_dropped()
    )


def load_snapshot(
    saved: bytes, standing: QueryFeeds, recent: RecentItems, frequencies: WordFrequencies, shares: FeatureShares
) -> None:
    try:
        state = msgspec.msgpack.decode(saved, type=_EngineSnapshot)
    except msgspec.DecodeError as error:
        raise InputError("The saved state of the queries cannot be read; fill their windows from the store.") from error
    if state.version != VERSION:
        raise InputError(f"The saved state of the queries is of version {state.version}; this reads version {VERSION}.")
    numbers = {
        old: number for old, name in state.names.items() if (number := standing.get_number(name.casefold())) is not None
    }
    for old, replaced in state.replaced.items():
        record = standing.records[numbers[old]] if old in numbers else None
        if record is not None:
            numbers |= _restore_replaced(standing, record, replaced)
    for name, query in state.queries.items():
        number = standing.get_number(name.casefold())
        record = None if number is None else standing.records[number]
        if record is not None and record.text == query.text:
            for past, window in zip(_list_windows(record), query.windows, strict=True):
                _restore_window(past, window)
    for item in state.recent:
        emitted = array("I", item.emitted)
        kept = [numbers[old] for old in emitted if old in numbers]
        silent = frozenset(numbers[old] for old in item.silent if old in numbers)
        recent.put((item.source, item.identity), RecentItem(item.content_hash, item.version, kept, silent))
    frequencies.restore({Field(field): counted for field, counted in state.frequencies.items()})
    shares.restore(*state.shares)


def _restore_replaced(standing: QueryFeeds, record: QueryFeedEntry, replaced: list[int]) -> dict[int, int]:
    """Numbers for definitions that were replaced before the restart: what they delivered stays delivered."""
    ghosts = {old: standing.reserve_number() for old in replaced}
    record.replaced = (*record.replaced, *ghosts.values())
    return ghosts


def _restore_window(past: LookBackWindow, window: _WindowSnapshot) -> None:
    make = frozenset if past.at is None else tuple
    past.restore([WindowEntry(at, related, make(values)) for at, related, values in window.entries], window.gone)
