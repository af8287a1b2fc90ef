"""Saves the engine's windows, recent items and counts as bytes, and restores them."""

from __future__ import annotations

from array import array
from typing import Any

import msgspec

from headwater.errors import InputError
from headwater.language.ast import Field
from headwater.query.feeds.look_back_window import LookBackWindow, WindowEntry
from headwater.query.feeds.query_registry import QueryFeedEntry, QueryFeeds
from headwater.query.feeds.recent_items import RecentItem, RecentItems
from headwater.query.index.access_path import FeatureShares
from headwater.query.items.related_item import Related
from headwater.query.items.similarity import WordFrequencies
from headwater.query.stories.story_items import ItemId
from headwater.query.stories.story_views import StoryMember

VERSION = 1


class _WindowSnapshot(msgspec.Struct, array_like=True):
    entries: list[tuple[float, Related, list[Any]]]
    gone: list[tuple[str, str]]


class _QuerySnapshot(msgspec.Struct, array_like=True):
    """The windows of a query feed: first its joins, then DISTINCT. `text` detects a changed definition."""

    text: str
    windows: list[_WindowSnapshot]
    stories: list[ItemId] = []  # published by EACH STORY


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
    views: dict[str, list[tuple[ItemId, list[StoryMember]]]] = {}


def save_snapshot(
    query_feeds: QueryFeeds, recent: RecentItems, frequencies: WordFrequencies, shares: FeatureShares
) -> bytes:
    entries = {number: entry for number, entry in enumerate(query_feeds.entries) if entry is not None}
    state = _EngineSnapshot(
        VERSION,
        {number: entry.name for number, entry in entries.items()},
        {number: list(entry.replaced) for number, entry in entries.items() if entry.replaced},
        {
            entry.name: _QuerySnapshot(
                entry.text, [_snapshot_window(window) for window in _list_windows(entry)], _list_stories(entry)
            )
            for entry in entries.values()
            if any(map(len, _list_windows(entry))) or _list_stories(entry)
        },
        [
            _ItemSnapshot(
                *key, item.content_hash, item.version, array("I", item.emitted).tobytes(), sorted(item.silent)
            )
            for key, item in recent.items()
        ],
        {str(field): counted for field, counted in frequencies.export_counts().items()},
        shares.export_counts(),
        {key: entry.view.export_stories() for key, entry in query_feeds.views.items()},
    )
    return msgspec.msgpack.encode(state)


def _list_windows(entry: QueryFeedEntry) -> list[LookBackWindow]:
    derived = entry.derived
    if derived is None:
        return []
    return [*derived.secondaries, *([] if derived.firsts is None else [derived.firsts])]


def _list_stories(entry: QueryFeedEntry) -> list[ItemId]:
    return [] if entry.derived is None else list(entry.derived.stories)


def _snapshot_window(window: LookBackWindow) -> _WindowSnapshot:
    entries = [(entry.at, entry.related, list(entry.values)) for entry in window.list_entries()]
    return _WindowSnapshot(entries, window.list_dropped())


def load_snapshot(
    saved: bytes, query_feeds: QueryFeeds, recent: RecentItems, frequencies: WordFrequencies, shares: FeatureShares
) -> None:
    try:
        state = msgspec.msgpack.decode(saved, type=_EngineSnapshot)
    except msgspec.DecodeError as error:
        raise InputError("The saved state of the queries is damaged. Fill their windows from the store.") from error
    if state.version != VERSION:
        raise InputError(
            f"The saved state of the queries has version {state.version}; this release reads version {VERSION}."
        )
    numbers = {
        old: number
        for old, name in state.names.items()
        if (number := query_feeds.get_number(name.casefold())) is not None
    }
    for old, replaced in state.replaced.items():
        entry = query_feeds.entries[numbers[old]] if old in numbers else None
        if entry is not None:
            numbers |= _restore_replaced(query_feeds, entry, replaced)
    for name, query in state.queries.items():
        number = query_feeds.get_number(name.casefold())
        entry = None if number is None else query_feeds.entries[number]
        if entry is not None and entry.text == query.text:
            for window, saved_window in zip(_list_windows(entry), query.windows, strict=True):
                _restore_window(window, saved_window)
            if entry.derived is not None:
                entry.derived.stories = set(query.stories)
    for key, stories in state.views.items():
        if key in query_feeds.views:
            query_feeds.views[key].view.restore(stories)
    for item in state.recent:
        emitted = array("I", item.emitted)
        kept = [numbers[old] for old in emitted if old in numbers]
        silent = frozenset(numbers[old] for old in item.silent if old in numbers)
        recent.put((item.source, item.identity), RecentItem(item.content_hash, item.version, kept, silent))
    frequencies.restore({Field(field): counted for field, counted in state.frequencies.items()})
    shares.restore(*state.shares)


def _restore_replaced(query_feeds: QueryFeeds, entry: QueryFeedEntry, replaced: list[int]) -> dict[int, int]:
    """Reserve numbers for definitions replaced before the restart, so that their items are not delivered again."""
    restored = {old: query_feeds.reserve_number() for old in replaced}
    entry.replaced = (*entry.replaced, *restored.values())
    return restored


def _restore_window(window: LookBackWindow, saved: _WindowSnapshot) -> None:
    make = frozenset if window.at is None else tuple
    window.restore([WindowEntry(at, related, make(values)) for at, related, values in saved.entries], saved.gone)
