"""Loads the state of feeds between refreshes: validators, windows and seen identities."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
import orjson
from sqlalchemy import Connection, bindparam, select, update

from headwater.model import Hints, Known, Validators
from headwater.store.content.verdict_statements import SelectByIds, SelectByKeys
from headwater.store.database.dialect import to_json
from headwater.store.schema.feed_tables import FEED_IS_LIVE, feed, feed_state
from headwater.store.schema.item_tables import seen_identity
from headwater.store.schema.metadata import replace_refused
from headwater.store.store import Store


class FetchPlan(NamedTuple):
    """The data needed to fetch a feed.

    `windowed` says that a delta can be added to a known window, `last_succeeded` that the last refresh did."""

    feed_id: int
    url: str
    validators: Validators
    body_hash: str | None
    windowed: bool
    last_succeeded: bool


class ScheduleRow(NamedTuple):
    """The data a scheduler needs of a feed when it starts; a tuple, because there are 100,000 of them."""

    feed_id: int
    url: str
    weight: float
    interval: float | None  # the longest pause that a person allows
    paused: bool
    gone_since: float | None
    window: int  # size of the last document, 0 before the first
    last_refresh: float | None
    last_success: float | None
    last_change: float | None
    next_refresh: float | None
    not_before: float | None
    fresh_until: float | None
    failures: int
    failing_since: float | None
    etag: str | None = None
    last_modified: str | None = None
    hints: str | None = None

    def to_known(self) -> Known:
        """Return the state of the feed, without its window."""
        return Known(
            self.feed_id,
            self.url,
            Validators(self.etag, self.last_modified),
            last_refresh=self.last_refresh,
            last_success=self.last_success,
            last_change=self.last_change,
            not_before=self.not_before,
            fresh_until=self.fresh_until,
            failures=self.failures,
            hints=_read_hints(self.hints),
        )


_NO_HINTS = Hints()
_SCHEDULE_QUERY = (
    select(
        feed.c.id,
        feed.c.url,
        feed.c.weight,
        feed.c.interval,
        feed.c.paused,
        feed.c.gone_since,
        feed_state.c.window,
        feed_state.c.last_refresh,
        feed_state.c.last_success,
        feed_state.c.last_change,
        feed_state.c.next_refresh,
        feed_state.c.not_before,
        feed_state.c.fresh_until,
        feed_state.c.failures,
        feed_state.c.failing_since,
        feed_state.c.etag,
        feed_state.c.last_modified,
        feed_state.c.hints,
    )
    .join_from(feed, feed_state)
    .order_by(feed.c.id)
)
_OTHER_COLUMNS = (
    *("body_hash", "last_refresh", "last_success", "last_change", "next_refresh", "not_before", "fresh_until"),
    *("failures", "failing_since", "last_error", "moved_to", "moves", "unstable", "hints", "hub", "topic"),
)
_FEED_STATES = SelectByIds(
    f"SELECT feed_state.feed_id, url, etag, last_modified, entries, {', '.join(_OTHER_COLUMNS)} "
    "FROM feed_state JOIN feed ON feed.id = feed_state.feed_id "
    "LEFT JOIN feed_window ON feed_window.feed_id = feed_state.feed_id "
    "WHERE feed_state.feed_id IN {ids}"
)
_FEED_STATES_WITHOUT_WINDOWS = SelectByIds(
    f'SELECT feed_state.feed_id, url, etag, last_modified, feed_state."window", {", ".join(_OTHER_COLUMNS)} '
    "FROM feed_state JOIN feed ON feed.id = feed_state.feed_id WHERE feed_state.feed_id IN {ids}"
)
_KEY = blake2b(digest_size=16)
_BLANK_ENTRY = (("", ""),)
_SEEN_HASHES = SelectByKeys(seen_identity, "content_hash")
_FETCH_PLANS = SelectByIds(
    'SELECT feed_state.feed_id, url, etag, last_modified, body_hash, feed_state."window", last_success, failures '
    "FROM feed_state JOIN feed ON feed.id = feed_state.feed_id WHERE feed_state.feed_id IN {ids}"
)


def load_feed_states(connection: Connection, feed_ids: Iterable[int], *, windows: bool = True) -> dict[int, Known]:
    """Load the states of these feeds; removed feeds are left out.

    Without `windows` their entries are blank, for refreshes that brought no document to compare with.
    """
    if not windows:
        rows = _FEED_STATES_WITHOUT_WINDOWS.run(connection, feed_ids)
        return {row[0]: _build_feed_state(row, _BLANK_ENTRY * row[4]) for row in rows}
    return {row[0]: _build_feed_state(row, _read_window(row[4])) for row in _FEED_STATES.run(connection, feed_ids)}


def load_fetch_plans(connection: Connection, feed_ids: Iterable[int]) -> dict[int, FetchPlan]:
    """Load the data needed to fetch these feeds: less than their whole state. Removed feeds are left out."""
    rows = _FETCH_PLANS.run(connection, feed_ids)
    return {
        id: FetchPlan(id, url, Validators(etag, date), body, window > 0, success is not None and not failures)
        for id, url, etag, date, body, window, success, failures in rows
    }


def _build_feed_state(row: Sequence[Any], window: tuple[tuple[str, ...], ...]) -> Known:
    feed_id, url, etag, last_modified, _, *others, hints, hub, topic = row
    made: Any = Known  # by place: some hundred are made in a second
    return made(feed_id, url, Validators(etag, last_modified), window, *others, _read_hints(hints), hub, topic)  # type: ignore[no-any-return]


def _read_window(stored: str | None) -> tuple[tuple[str, ...], ...]:
    return tuple(map(tuple, orjson.loads(stored))) if stored else ()


def _read_hints(stored: str | None) -> Hints:
    if stored is None:
        return _NO_HINTS
    values = orjson.loads(stored)
    return Hints(**values | {key: tuple(values[key]) for key in ("skip_hours", "skip_days")})


class MovedTime(NamedTuple):
    """A next refresh that was stored as `shown` and is now planned for `at`."""

    feed_id: int
    shown: float
    at: float


_MOVE = (
    update(feed_state)
    .where(feed_state.c.feed_id == bindparam("of_feed"), feed_state.c.next_refresh == bindparam("shown"))
    .values(next_refresh=bindparam("at"))
)


def save_moved_times(connection: Connection, moved: Sequence[MovedTime]) -> None:
    """Store when feeds are refreshed next, unless a refresh has stored another time since."""
    if moved:
        connection.execute(_MOVE, [{"of_feed": one.feed_id, "shown": one.shown, "at": one.at} for one in moved])


FEED_STATE_COLUMNS = [column.name for column in feed_state.columns if column.name != "feed_id"]


def feed_state_row(value: Known) -> dict[str, Any]:
    """Return the values of FEED_STATE_COLUMNS, with the feed's id as `of_feed`."""
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
        "hints": None if value.hints == _NO_HINTS else msgspec.json.encode(value.hints).decode(),
    }


def window_row(value: Known) -> dict[str, Any]:
    """Return the row of `feed_window`."""
    return {"feed_id": value.feed_id, "entries": to_json(value.window) or "[]"}


async def iterate_schedule_rows(store: Store, chunk: int = 5000) -> AsyncIterator[list[ScheduleRow]]:
    """Yield every feed by id, `chunk` at a time; each chunk is a transaction of its own."""
    after = 0
    while rows := await store.read(list_schedule_rows, after, chunk):
        yield rows
        after = rows[-1].feed_id


def list_schedule_rows(connection: Connection, after: int, limit: int) -> list[ScheduleRow]:
    """List feeds by id, beyond `after`."""
    rows = connection.execute(_SCHEDULE_QUERY.where(feed.c.id > after).limit(limit)).all()
    return [ScheduleRow._make(row) for row in rows]


def load_weights(connection: Connection) -> dict[int, float]:
    """Load the weight that a person has given each feed."""
    return dict(map(tuple, connection.execute(select(feed.c.id, feed.c.weight).where(FEED_IS_LIVE)).all()))


def hash_identity(identity: str) -> bytes:
    """Return 128 bits of an identity, which is often a whole address and would make our largest index larger."""
    key = _KEY.copy()  # costs two thirds of making a new one
    key.update(identity.encode("utf-8", "surrogatepass"))
    return key.digest()


def find_seen_identities(connection: Connection, wanted: Mapping[int, Sequence[str]]) -> dict[int, dict[str, str]]:
    """Find which of these identities each feed has ever shown, with the content hash last stored.

    Every feed is in the answer. Items that were deleted count as shown.
    """
    names = {(id, hash_identity(replace_refused(one))): one for id, identities in wanted.items() for one in identities}
    found: dict[int, dict[str, str]] = {id: {} for id in wanted}
    for id, key, content_hash in _SEEN_HASHES.run(connection, names):
        found[id][names[id, key]] = content_hash
    return found
