"""Stores the story of each item, and lists the items of a story."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from headwater.query.stories.story_items import Placement
from headwater.query.stories.story_placer import PlacedItem, is_late
from headwater.store.database.dialect import build_from_row, chunks, insert_or_ignore
from headwater.store.schema.feed_tables import TRASHED_FEEDS
from headwater.store.schema.item_tables import item, item_story
from headwater.store.schema.metadata import replace_refused

CHUNK = 500
MAX_STORY_ITEMS = 500  # of a story that are listed


@dataclass(frozen=True, slots=True)
class StoryEntry:
    """An item of a story, and why it is there: the item it joined, the score, the shared words, heaviest first.

    An item that began its story joined none; it may continue a story that has ended.
    """

    item_id: int
    feed_id: int
    title: str | None
    link: str | None
    published: float
    story_id: int
    publisher: str
    joined_id: int | None
    joined_title: str | None
    joined_feed_id: int | None
    score: float | None
    words: tuple[str, ...]
    continues_id: int | None


def save_placements(connection: Connection, placed: Iterable[PlacedItem]) -> None:
    """Save the stories of items in the caller's transaction. An item that has a story keeps it."""
    rows = [
        {
            "item_id": one.item_id,
            "story_id": one.placement.story,
            "joined_id": one.placement.joined,
            "score": one.placement.score,
            "words": replace_refused(" ".join(one.placement.shared)),
            "stems": replace_refused(" ".join(one.placement.stems)),
            "publisher": replace_refused(one.publisher),
            "continues_id": one.placement.continues,
        }
        for one in placed
        if one.placement.story is not None
    ]
    if rows:
        connection.execute(insert_or_ignore(connection, item_story), rows)


def find_placements(connection: Connection, item_ids: Collection[int]) -> dict[int, PlacedItem]:
    """Find the stored placements of items, by their id."""
    found: dict[int, PlacedItem] = {}
    for chunk in chunks(sorted(item_ids), CHUNK):
        query = select(item_story, item.c.published, item.c.first_seen).join(item, item.c.id == item_story.c.item_id)
        for row in connection.execute(query.where(item_story.c.item_id.in_(chunk))):
            placement = Placement(
                row.story_id,
                row.joined_id,
                row.score,
                tuple(row.words.split()),
                row.continues_id,
                tuple(row.stems.split()),
            )
            late = is_late(row.published, row.first_seen)
            found[row.item_id] = PlacedItem(row.item_id, placement, row.publisher, late)
    return found


_JOINED = item.alias("joined")
_SELECT_ENTRIES = (
    select(
        item_story,
        *(item.c[name] for name in ("feed_id", "title", "link", "published")),
        _JOINED.c.title.label("joined_title"),
        _JOINED.c.feed_id.label("joined_feed_id"),
    )
    .join(item, item.c.id == item_story.c.item_id)
    .outerjoin(_JOINED, _JOINED.c.id == item_story.c.joined_id)
)


def find_story_entries(connection: Connection, item_ids: Collection[int]) -> dict[int, StoryEntry]:
    """Find these items with their place in a story, by their id."""
    found: dict[int, StoryEntry] = {}
    for chunk in chunks(sorted(item_ids), CHUNK):
        rows = connection.execute(_SELECT_ENTRIES.where(item_story.c.item_id.in_(chunk)))
        found |= {row.item_id: _read_entry(row) for row in rows}
    return found


def list_story(connection: Connection, story_id: int) -> list[StoryEntry]:
    """List the items of a story in the order of arrival, at most `MAX_STORY_ITEMS`."""
    query = _SELECT_ENTRIES.where(item_story.c.story_id == story_id, item.c.feed_id.not_in(TRASHED_FEEDS))
    return [_read_entry(row) for row in connection.execute(query.order_by(item_story.c.item_id).limit(MAX_STORY_ITEMS))]


def _read_entry(row: Row[Any]) -> StoryEntry:
    return build_from_row(StoryEntry, row, words=tuple(row.words.split()))
