"""What is kept of a feed between refreshes, and the identities it has ever shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import orjson
from sqlalchemy import Connection, select

from headwater.model import Hints, Known, Validators
from headwater.store.clean import clean_text
from headwater.store.sql import OfIds, OfPairs, to_json
from headwater.store.tables import feed, known, seen
from headwater.store.values import Asking, ScheduleRow

_NO_HINTS = Hints()
_SCHEDULE = (
    select(
        feed.c.id,
        feed.c.url,
        feed.c.weight,
        feed.c.paused,
        feed.c.gone_since,
        known.c.window,
        known.c.last_refresh,
        known.c.last_success,
        known.c.last_change,
        known.c.next_refresh,
        known.c.not_before,
        known.c.fresh_until,
        known.c.failures,
        known.c.failing_since,
    )
    .join_from(feed, known)
    .order_by(feed.c.id)
)
_LATER = (
    *("body_hash", "last_refresh", "last_success", "last_change", "next_refresh", "not_before", "fresh_until"),
    *("failures", "failing_since", "last_error", "moved_to", "moves", "unstable", "hints", "hub", "topic"),
)
_KNOWN = OfIds(
    f"SELECT known.feed_id, url, etag, last_modified, entries, {', '.join(_LATER)} FROM known JOIN feed "
    "ON feed.id = known.feed_id LEFT JOIN feed_window ON feed_window.feed_id = known.feed_id "
    "WHERE known.feed_id IN {ids}"
)
_OUTLINE = OfIds(
    f'SELECT known.feed_id, url, etag, last_modified, known."window", {", ".join(_LATER)} FROM known JOIN feed '
    "ON feed.id = known.feed_id WHERE known.feed_id IN {ids}"
)
_KEY = blake2b(digest_size=16)
_UNREAD = (("", ""),)
_SEEN = OfPairs(seen, "content_hash")
_ASKING = OfIds(
    'SELECT known.feed_id, url, etag, last_modified, body_hash, known."window", last_success, failures '
    "FROM known JOIN feed ON feed.id = known.feed_id WHERE known.feed_id IN {ids}"
)


def load(connection: Connection, feed_ids: Iterable[int]) -> dict[int, Known]:
    return {row[0]: _known(row, _entries(row[4])) for row in _KNOWN.run(connection, feed_ids)}


def outlines(connection: Connection, feed_ids: Iterable[int]) -> dict[int, Known]:
    """What is known of feeds whose windows nobody will compare: those are as long as they are, and blank."""
    return {row[0]: _known(row, _UNREAD * row[4]) for row in _OUTLINE.run(connection, feed_ids)}


def asking(connection: Connection, feed_ids: Iterable[int]) -> dict[int, Asking]:
    """What it takes to ask for a feed: less than all that is known of it."""
    rows = _ASKING.run(connection, feed_ids)
    return {
        id: Asking(id, url, Validators(etag, date), body, window > 0, success is not None and not failures)
        for id, url, etag, date, body, window, success, failures in rows
    }


def _known(row: Sequence[Any], window: tuple[tuple[str, ...], ...]) -> Known:
    feed_id, url, etag, last_modified, _, *others, hints, hub, topic = row
    made: Any = Known  # by place: some hundred are made in a second
    return made(feed_id, url, Validators(etag, last_modified), window, *others, _hints(hints), hub, topic)  # type: ignore[no-any-return]


def _entries(stored: str | None) -> tuple[tuple[str, ...], ...]:
    return tuple(map(tuple, orjson.loads(stored))) if stored else ()


def _hints(stored: str | None) -> Hints:
    if stored is None:
        return _NO_HINTS
    values = orjson.loads(stored)
    return Hints(**values | {key: tuple(values[key]) for key in ("skip_hours", "skip_days")})


KNOWN_COLUMNS = [column.name for column in known.columns if column.name != "feed_id"]


def known_row(value: Known) -> dict[str, Any]:
    """The columns of `known`, with the key under the name an UPDATE can bind."""
    return {
        "of_feed": value.feed_id,
        "window": len(value.window),
        "last_refresh": value.last_refresh,
        "last_success": value.last_success,
        "last_change": value.last_change,
        "next_refresh": value.next_refresh,
        "not_before": value.not_before,
        "fresh_until": value.fresh_until,
        "failures": value.failures,
        "failing_since": value.failing_since,
        "moves": value.moves,
        "unstable": value.unstable,
        "etag": value.validators.etag,
        "last_modified": value.validators.last_modified,
        "body_hash": value.body_hash,
        "last_error": value.last_error,
        "moved_to": value.moved_to,
        "hub": value.hub,
        "topic": value.topic,
        "hints": None if value.hints == _NO_HINTS else orjson.dumps(value.hints).decode(),
    }


def window_row(value: Known) -> dict[str, Any]:
    return {"feed_id": value.feed_id, "entries": to_json(value.window) or "[]"}


def schedule(connection: Connection, after: int, limit: int) -> list[ScheduleRow]:
    rows = connection.execute(_SCHEDULE.where(feed.c.id > after).limit(limit)).all()
    return [ScheduleRow._make(row) for row in rows]


def weights(connection: Connection) -> dict[int, float]:
    """What a person has given each feed."""
    return dict(map(tuple, connection.execute(select(feed.c.id, feed.c.weight)).all()))


def seen_key(identity: str) -> bytes:
    """128 bits of an identity: identities are often whole addresses, and this is the largest key we have."""
    key = _KEY.copy()  # two thirds of the cost of making one
    key.update(identity.encode("utf-8", "surrogatepass"))
    return key.digest()


def identities(connection: Connection, wanted: Mapping[int, Sequence[str]]) -> dict[int, dict[str, str]]:
    names = {(id, seen_key(clean_text(one))): one for id, identities in wanted.items() for one in identities}
    found: dict[int, dict[str, str]] = {id: {} for id in wanted}
    for id, key, content_hash in _SEEN.run(connection, names):
        found[id][names[id, key]] = content_hash
    return found
