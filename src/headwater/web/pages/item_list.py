"""Makes the rows of a list: folds stories and duplicates by link or long title, explains an empty stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.formats.values.links import normalise_url
from headwater.query.items.tokens import split_words
from headwater.store.content.feed_overview import count_feed_states
from headwater.store.content.stories import StoryEntry
from headwater.store.readers.reader_items import ReaderItem
from headwater.store.readers.stream_positions import Stream
from headwater.store.store import Store
from headwater.web.shared.reader_feeds import ReaderFeeds

# One, several. What needs a look comes first.
CAUSE_WORDS = {
    "failing": ("fails", "fail"),
    "gone": ("is gone", "are gone"),
    "paused": ("is paused", "are paused"),
    "new": ("has not been asked yet", "have not been asked yet"),
    "well": ("has answered but shows none", "have answered but show none"),
}


@dataclass(frozen=True, slots=True)
class EmptyCause:
    """One reason why a stream is empty, and the page of its feeds."""

    words: str
    path: str | None


@dataclass(frozen=True, slots=True)
class EmptyStream:
    """Why a stream is empty; with `waiting`, no feed was refreshed yet."""

    cases: tuple[EmptyCause, ...]
    waiting: bool


async def explain_empty_stream(store: Store, user_id: int, mine: ReaderFeeds, which: Stream) -> EmptyStream:
    """Explain why a stream is empty."""
    states = await store.read(count_feed_states, user_id, which) if which.query is None else {}
    every = sum(states.values())
    only = which.feed if which.feed is not None else next(iter(mine.feeds)) if len(mine.feeds) == 1 else None
    cases: list[EmptyCause] = []
    for state, (one, several) in CAUSE_WORDS.items():
        if number := states.get(state, 0):
            who = _name_feeds(number, every, first=not cases)
            path = f"/feed/{only}" if only is not None else f"/feeds?state={state}" if state != "well" else None
            cases.append(EmptyCause(f"{who} {one if number == 1 else several}", path))
    return EmptyStream(tuple(cases), waiting=every > 0 and states.keys() == {"new"})


def _name_feeds(number: int, every: int, *, first: bool) -> str:
    if every == 1:
        return "the feed"
    if number == every:
        return f"all {number:,} feeds"
    return f"{number:,} of {every:,} feeds" if first else f"{number:,}"


LONG_TITLE = 4  # words that a title needs: “Correction” is no story


def fold_rows(
    readings: Sequence[ReaderItem], stories: Mapping[int, StoryEntry]
) -> list[tuple[ReaderItem, tuple[ReaderItem, ...]]]:
    """Return the rows in order, each with the later rows of its story and its duplicates in other feeds."""
    first: dict[object, int] = {}
    rows: list[tuple[ReaderItem, list[ReaderItem]]] = []
    for one in readings:
        keys = _duplicate_keys(one)
        story = stories.get(one.item.id or 0)
        place = None if story is None else first.get(("story", story.story_id))
        if place is None:
            place = next((first[key] for key in keys if key in first and _is_other_feed(rows[first[key]], one)), None)
        if place is not None:
            rows[place][1].append(one)
        else:
            place = len(rows)
            rows.append((one, []))
        for key in keys if story is None else (("story", story.story_id), *keys):
            first.setdefault(key, place)
    return [(one, tuple(others)) for one, others in rows]


def _is_other_feed(row: tuple[ReaderItem, list[ReaderItem]], one: ReaderItem) -> bool:
    return all(one.item.feed_id != known.item.feed_id for known in (row[0], *row[1]))


def _duplicate_keys(one: ReaderItem) -> list[object]:
    keys: list[object] = []
    if one.item.link:
        keys.append(("link", normalise_url(one.item.link)))
    title = tuple(split_words(one.item.title or ""))
    if len(title) >= LONG_TITLE:
        keys.append(("title", title))
    return keys
