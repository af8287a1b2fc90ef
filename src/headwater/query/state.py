"""The engine's memory as bytes: what it must not lose when the server stops."""

from __future__ import annotations

from array import array
from typing import Any

import msgspec

from headwater.errors import InputError
from headwater.language.ast import Field
from headwater.query.hits import Related
from headwater.query.recent import Recent, Seen
from headwater.query.shares import Shares
from headwater.query.similar import Frequencies
from headwater.query.standing import Record, Standing
from headwater.query.windows import Entry, Past

VERSION = 1


class _Window(msgspec.Struct, array_like=True):
    entries: list[tuple[float, Related, list[Any]]]
    gone: list[tuple[str, str]]


class _Query(msgspec.Struct, array_like=True):
    """The windows of a query feed, of its joins and then of DISTINCT; `text` tells whether it is still the same."""

    text: str
    windows: list[_Window]


class _Item(msgspec.Struct, array_like=True):
    source: str
    identity: str
    content_hash: str
    version: int
    emitted: bytes  # numbers of queries, four bytes each
    silent: list[int]


class _State(msgspec.Struct):
    version: int
    names: dict[int, str]
    replaced: dict[int, list[int]]
    queries: dict[str, _Query]
    recent: list[_Item]
    frequencies: dict[str, tuple[float, dict[str, float]]]
    shares: tuple[float, dict[str, float]]


def save(standing: Standing, recent: Recent, frequencies: Frequencies, shares: Shares) -> bytes:
    records = {number: record for number, record in enumerate(standing.records) if record is not None}
    state = _State(
        VERSION,
        {number: record.name for number, record in records.items()},
        {number: list(record.replaced) for number, record in records.items() if record.replaced},
        {
            record.name: _Query(record.text, [_window(past) for past in _pasts(record)])
            for record in records.values()
            if any(map(len, _pasts(record)))
        },
        [
            _Item(*key, seen.content_hash, seen.version, array("I", seen.emitted).tobytes(), sorted(seen.silent))
            for key, seen in recent.items()
        ],
        {str(field): counted for field, counted in frequencies.counted().items()},
        shares.counts(),
    )
    return msgspec.msgpack.encode(state)


def _pasts(record: Record) -> list[Past]:
    layer = record.layer
    if layer is None:
        return []
    return [*layer.secondaries, *([] if layer.firsts is None else [layer.firsts])]


def _window(past: Past) -> _Window:
    return _Window([(entry.at, entry.related, list(entry.values)) for entry in past.entries()], past.gone())


def load(saved: bytes, standing: Standing, recent: Recent, frequencies: Frequencies, shares: Shares) -> None:
    try:
        state = msgspec.msgpack.decode(saved, type=_State)
    except msgspec.DecodeError as error:
        raise InputError("The saved state of the queries cannot be read; fill their windows from the store.") from error
    if state.version != VERSION:
        raise InputError(f"The saved state of the queries is of version {state.version}; this reads version {VERSION}.")
    numbers = {
        old: number for old, name in state.names.items() if (number := standing.known(name.casefold())) is not None
    }
    for old, replaced in state.replaced.items():
        record = standing.records[numbers[old]] if old in numbers else None
        if record is not None:
            numbers |= _ghosts(standing, record, replaced)
    for name, query in state.queries.items():
        number = standing.known(name.casefold())
        record = None if number is None else standing.records[number]
        if record is not None and record.text == query.text:
            for past, window in zip(_pasts(record), query.windows, strict=True):
                _fill(past, window)
    for item in state.recent:
        emitted = array("I", item.emitted)
        kept = [numbers[old] for old in emitted if old in numbers]
        silent = frozenset(numbers[old] for old in item.silent if old in numbers)
        recent.put((item.source, item.identity), Seen(item.content_hash, item.version, kept, silent))
    frequencies.restore({Field(field): counted for field, counted in state.frequencies.items()})
    shares.restore(*state.shares)


def _ghosts(standing: Standing, record: Record, replaced: list[int]) -> dict[int, int]:
    """Numbers for definitions that were replaced before the restart: what they delivered stays delivered."""
    ghosts = {old: standing.reserve() for old in replaced}
    record.replaced = (*record.replaced, *ghosts.values())
    return ghosts


def _fill(past: Past, window: _Window) -> None:
    make = frozenset if past.at is None else tuple
    past.restore([Entry(at, related, make(values)) for at, related, values in window.entries], window.gone)
