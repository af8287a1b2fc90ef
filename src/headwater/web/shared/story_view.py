"""Shows the story of an item to one reader: its other items, and why each of them joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.store.content.stories import StoryEntry, find_story_entries, list_story
from headwater.store.store import Store
from headwater.web.shared.reader_feeds import ReaderFeeds

MAX_WORDS = 6  # shared words that are shown


@dataclass(frozen=True, slots=True)
class JoinReason:
    """The item that another one joined, the score, and the heaviest shared words. Equal links have no words."""

    title: str
    feed: str
    score: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoryMemberView:
    """An item of a story that the reader may read."""

    entry: StoryEntry
    feed: str
    reason: JoinReason | None  # None for the first item that the reader may read


@dataclass(frozen=True, slots=True)
class ReaderStory:
    """The items of a story that a reader may read, in the order of arrival, and its place in it.

    `first_published` is the feed of an item that was published before the first one and arrived later.
    """

    id: int
    mine: StoryMemberView
    others: tuple[StoryMemberView, ...]
    publishers: int
    first_published: str | None


def explain_joining(entry: StoryEntry, feeds: ReaderFeeds) -> JoinReason | None:
    """Return why an item joined its story; None if it began it, or joined an item that is gone or that the reader may
    not read: its words would tell what others read."""
    if entry.joined_feed_id not in feeds.feeds or entry.score is None:
        return None
    return JoinReason(
        entry.joined_title or "Untitled",
        feeds.feed_title(entry.joined_feed_id),
        f"{entry.score:.2f}".removeprefix("0"),
        entry.words[:MAX_WORDS],
    )


async def load_story(store: Store, feeds: ReaderFeeds, item_id: int) -> ReaderStory | None:
    """Load the story of an item, as far as the reader may read it; None if it has none."""
    entry = (await store.read(find_story_entries, [item_id])).get(item_id)
    if entry is None:
        return None
    every = await store.read(list_story, entry.story_id)
    seen = [one for one in every if one.feed_id in feeds.feeds or one.item_id == item_id]
    members = [StoryMemberView(one, feeds.feed_title(one.feed_id), explain_joining(one, feeds)) for one in seen]
    others = tuple(one for one in members if one.entry.item_id != item_id)
    return ReaderStory(
        entry.story_id,
        StoryMemberView(entry, feeds.feed_title(entry.feed_id), explain_joining(entry, feeds)),
        others,
        len({one.entry.publisher for one in members}),
        _find_first_published(members),
    )


def _find_first_published(members: Sequence[StoryMemberView]) -> str | None:
    if not members:
        return None
    earliest = min(members, key=lambda one: one.entry.published)
    return earliest.feed if earliest.entry.published < members[0].entry.published else None
