"""Places items into stories: finds the publisher of each, and whether it is late."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.formats.values.links import normalise_url
from headwater.model import Item
from headwater.query.items.origin import Origin
from headwater.query.stories.source_habits import Publishers
from headwater.query.stories.story_grouper import WINDOW, StoryGrouper
from headwater.query.stories.story_items import ItemStory, Placement, StoryItem, join_stems


@dataclass(frozen=True, slots=True)
class PlacedItem:
    """An item with its placement and its publisher."""

    item_id: int
    placement: Placement
    publisher: str
    late: bool

    @property
    def story(self) -> ItemStory | None:
        """The story of the item; None for a late item that resembles nothing."""
        story = self.placement.story
        return None if story is None else ItemStory(story, self.publisher, join_stems(self.placement.stems), self.late)


def is_late(published: float, arrived: float) -> bool:
    """Return whether an item was published so long before it arrived that it begins no story."""
    return arrived - published > WINDOW


class StoryPlacer:
    """Groups the items of an engine or a server. It keeps the state of the grouping, and the names of publishers."""

    def __init__(self, grouper: StoryGrouper | None = None) -> None:
        self.grouper = grouper or StoryGrouper()
        self._publishers = Publishers()

    def set_origins(self, origins: Iterable[Origin]) -> None:
        """Set the known feeds; call again when they change."""
        self._publishers = Publishers(origins)

    def place_item(self, item: Item, origin: Origin, arrived: float, known: PlacedItem | None = None) -> PlacedItem:
        """Place a new item, or one with a known placement again."""
        assert item.id is not None
        late = is_late(item.published, arrived)
        publisher = known.publisher if known is not None else self._publishers.find_publisher(item, origin)
        link = normalise_url(item.link) if item.link else None
        new = StoryItem(item.id, normalise_url(origin.url), publisher, item.title, arrived, link, late)
        return PlacedItem(item.id, self.grouper.place_item(new, known.placement if known else None), publisher, late)

    def knows(self, item: Item) -> bool:
        """Return whether the item is in the window."""
        return item.id is not None and item.id in self.grouper

    def change_item(self, item: Item) -> ItemStory | None:
        """Compare a changed item by its new title from now on. Return its story, if it is in the window."""
        assert item.id is not None
        self.grouper.change_title(item.id, item.title)
        return self.grouper.find_story(item.id, is_late(item.published, item.first_seen))
