"""Counts the items of each story that the sources of a query let through.

Queries with equal sources share one view. A view forgets a story four days after its first item there, because nothing
joins a story after that.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headwater.language.ast import FirstOfStory, StoryAtom, StoryCount, StoryGrowing, StoryMeasure
from headwater.model import Item
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.comparisons import COMPARE_FUNCTIONS
from headwater.query.items.origin import Origin
from headwater.query.items.related_item import Related
from headwater.query.stories.story_grouper import MAX_STORY_SECONDS
from headwater.query.stories.story_items import ItemId, ItemStory

MAX_RELATED = 100  # items of a story that its published item lists


class StoryMember(msgspec.Struct, array_like=True):
    """An item of a story. If a query publishes stories, the first one has its `outline`, the item without its text, and
    the later ones have what a `related` link needs."""

    item: ItemId
    at: float
    publisher: str
    words: str
    late: bool
    outline: tuple[Item, Origin] | None = None
    related: Related | None = None


class StoryView:
    """The items of each story that some sources let through. `key` describes the sources."""

    def __init__(self, key: str, keeps_items: bool = False) -> None:
        self.key = key
        self.keeps_items = keeps_items
        self._stories: dict[ItemId, list[StoryMember]] = {}

    def __len__(self) -> int:
        """Return the number of stories."""
        return len(self._stories)

    def add_item(self, story: ItemStory, analysed: AnalysedItem) -> StoryFacts:
        """Add an item to its story, unless it is there. Return the story as it is now."""
        members = self._stories.setdefault(story.story, [])
        item = analysed.item
        id: ItemId = item.id if item.id is not None else item.identity
        place = next((place for place, member in enumerate(members) if member.item == id), len(members))
        if place == len(members):
            members.append(StoryMember(id, analysed.arrived, story.publisher, story.words, story.late))
        if self.keeps_items and not place:
            outline = msgspec.structs.replace(item, summary=None, content=None, enclosures=())
            members[place].outline = (outline, analysed.origin)
        elif self.keeps_items:
            related = Related(*analysed.key, item.id, item.title, item.link, members[place].at)
            members[place].related = related
        return StoryFacts(id, members, analysed.arrived)

    def drop_ended(self, now: float) -> list[ItemId]:
        """Forget the stories that nothing can join any more, and return them."""
        ended: list[ItemId] = []
        for story, members in self._stories.items():
            if now - members[0].at < MAX_STORY_SECONDS:
                break
            ended.append(story)
        for story in ended:
            del self._stories[story]
        return ended

    def export_stories(self) -> list[tuple[ItemId, list[StoryMember]]]:
        return list(self._stories.items())

    def restore(self, stories: Iterable[tuple[ItemId, list[StoryMember]]]) -> None:
        self._stories = dict(stories)


class StoryFacts:
    """The items of a story that a query counts, when one of them arrives at `now`."""

    def __init__(self, item: ItemId, members: list[StoryMember], now: float) -> None:
        self.members = members
        self._item = item
        self._now = now

    def holds(self, condition: StoryAtom) -> bool:
        match condition:
            case StoryCount(measure, cmp, number, within):
                return COMPARE_FUNCTIONS[cmp](self.count(measure, None if within is None else within.seconds), number)
            case FirstOfStory():
                first = next((member for member in self.members if not member.late), None)
                return first is not None and first.item == self._item
            case StoryGrowing(number, within):
                seconds = within.seconds or 0
                times = list_source_times(self._fresh_members())
                recent = sum(at >= self._now - seconds for at in times)
                before = sum(self._now - 2 * seconds <= at < self._now - seconds for at in times)
                return recent >= number and recent > before

    def count(self, measure: StoryMeasure, seconds: int | None = None) -> int:
        """Count the items or sources of the story; with `seconds`, those of the time before `now`, late ones not."""
        members = self.members if seconds is None else self._fresh_members()
        times = [m.at for m in members] if measure is StoryMeasure.ITEMS else list_source_times(members)
        return len(times) if seconds is None else sum(at >= self._now - seconds for at in times)

    def template_values(self) -> dict[str, str]:
        """Return the values of {story.sources} and {story.items}."""
        return {f"story.{measure.lower()}": str(self.count(measure)) for measure in StoryMeasure}

    def _fresh_members(self) -> list[StoryMember]:
        return [member for member in self.members if not member.late]


def list_source_times(members: Iterable[StoryMember]) -> list[float]:
    """Return when each publisher came, in order: with its first title whose words no publisher before it has used."""
    publishers: set[str] = set()
    used: set[str] = set()
    times: list[float] = []
    for member in members:
        if member.publisher not in publishers and (not member.words or member.words not in used):
            publishers.add(member.publisher)
            times.append(member.at)
        used.add(member.words)
    return times
