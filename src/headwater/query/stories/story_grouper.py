"""Groups items into stories in one pass: an item joins the story of the most similar recent item, or begins one.

A title is compared by its words, weighted as SIMILAR weights them, with every title of the last two days that shares
two uncommon words. The similarity fades with age, so that two items of one hour need less in common than two of
different days. Stories are neither merged nor split, and the id of a story, its first item, never changes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections import Counter
from itertools import chain
from math import exp, log, sqrt

import msgspec
import numpy as np

from headwater.errors import InputError
from headwater.query.items.tokens import split_words
from headwater.query.stories.source_habits import SavedHabits, SourceHabits
from headwater.query.stories.story_items import ItemId, ItemStory, Placement, StoryItem, join_stems
from headwater.query.stories.title_words import describe_form, list_stems, restore_words
from headwater.times import HOUR

WINDOW = 48 * HOUR  # items older than this are not compared
MAX_STORY_SECONDS = 96 * HOUR  # nothing joins a story that began earlier
FADING = 72 * HOUR
SAME_PUBLISHER = 0.85  # two items of one publisher are less often one story
MIN_SCORE = 0.35
MIN_WORDS = 2  # in a title that is compared, and shared by two titles
COMMON_SHARE = 0.01  # of the counted titles; a word in more of them is common
MIN_COUNTED = 2_000  # with fewer titles counted, shares are taken of this number
COUNTED_TITLES = 100_000  # when this many are counted, all counts are halved
MAX_HOLDERS = 1_000  # the latest titles with a word that are looked at, which bounds the cost of an item

ROUNDING = 1 - 1e-9
MANY_HOLDERS = 256  # titles with a word of the new one; from here on, arrays count them faster

VERSION = 2  # of the saved state


class _Entry(msgspec.Struct, array_like=True):
    """An item in the window. `bag` counts the stems to compare, `began` is the arrival of its story's first item."""

    item: ItemId
    story: ItemId
    began: float
    source: str
    publisher: str
    at: float
    bag: dict[str, int]
    link: str | None


class _SavedState(msgspec.Struct):
    version: int
    entries: list[_Entry]
    repeated_links: list[str]
    counted: float
    counts: dict[str, float]
    habits: dict[str, SavedHabits]


Match = tuple[_Entry, float, tuple[str, ...]]  # an earlier item, the score, the shared stems


class StoryGrouper:
    """The items of the last two days, the counts of words, and the habits of sources."""

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}
        self._next_number = 0
        self._first_indexed = 0
        self._holders: dict[str, array[int]] = {}
        self._by_item: dict[ItemId, int] = {}
        self._links: dict[str, int] = {}  # the first entry with the link
        self._repeated_links: set[str] = set()  # of the window; one source has used them for several items
        self._counted = 0.0
        self._counts: dict[str, float] = {}
        self._logs: dict[str, float] = {}  # ln(1 + count) of each stem: a logarithm for each comparison costs more
        self._habits: dict[str, SourceHabits] = {}

    def __len__(self) -> int:
        """Return the number of items in the window."""
        return len(self._entries)

    def __contains__(self, item: ItemId) -> bool:
        """Return whether an item is in the window."""
        return item in self._by_item

    def place_item(self, item: StoryItem, known: Placement | None = None) -> Placement:
        """Find the item's story, remember the item, and return the story and the reason.

        An item that has been placed before, which a replay meets again, keeps its `known` placement.
        """
        self._drop_expired(item.arrived)
        words, bag = self._learn_title(item)
        placement, began = self._decide(item, words, bag) if known is None else self._repeat(item, known)
        if placement.story is not None:
            bag = bag if known is None else dict(Counter(known.stems))
            story = placement.story
            self._add_entry(_Entry(item.id, story, began, item.source, item.publisher, item.arrived, bag, item.link))
        return placement

    def _decide(self, item: StoryItem, words: list[str], bag: dict[str, int]) -> tuple[Placement, float]:
        """Return the placement of a new item, and the beginning of its story."""
        stems = tuple(sorted([stem for stem, count in bag.items() for _ in range(count)]))
        found = self._find_by_link(item) or self._find_by_title(item, bag)
        if found is not None:
            entry, score, shared = found
            if item.arrived - entry.began < MAX_STORY_SECONDS:
                written = restore_words(shared, words)
                return Placement(entry.story, entry.item, score, written, stems=stems), entry.began
            if not item.late:
                return Placement(item.id, continues=entry.story, stems=stems), item.arrived
        return Placement(None if item.late else item.id, stems=stems), item.arrived

    def _repeat(self, item: StoryItem, known: Placement) -> tuple[Placement, float]:
        joined = None if known.joined is None else self._find_entry(known.joined)
        return known, item.arrived if joined is None else joined.began

    def find_story(self, item: ItemId, late: bool) -> ItemStory | None:
        """Return the story of an item in the window."""
        entry = self._find_entry(item)
        return None if entry is None else ItemStory(entry.story, entry.publisher, join_stems(entry.bag), late)

    def change_title(self, item: ItemId, title: str | None) -> None:
        """Compare an item in the window by its new title from now on. It stays in its story."""
        number = self._by_item.get(item)
        if number is None:
            return
        entry = self._entries[number]
        stems = list_stems(split_words(title)) if title else []
        kept = Counter(self._habits[entry.source].drop_repeated(stems) if entry.source in self._habits else stems)
        bag = dict(kept) if len(kept) >= MIN_WORDS else {}
        for stem in entry.bag.keys() - bag.keys():
            holders = self._holders[stem]
            del holders[bisect_left(holders, number)]
            if not holders:
                del self._holders[stem]
        for stem in bag.keys() - entry.bag.keys():
            insort(self._holders.setdefault(stem, array("Q")), number)
        entry.bag = bag

    def _find_entry(self, item: ItemId) -> _Entry | None:
        number = self._by_item.get(item)
        return None if number is None else self._entries[number]

    # the window

    def _add_entry(self, entry: _Entry) -> None:
        number = self._next_number
        self._next_number += 1
        self._entries[number] = entry
        self._by_item[entry.item] = number
        for stem in entry.bag:
            holders = self._holders.get(stem)
            if holders is None:
                self._holders[stem] = holders = array("Q")
            holders.append(number)
        if entry.link is not None:
            earlier = self._entries.get(self._links.setdefault(entry.link, number))
            if earlier is not None and earlier is not entry and earlier.source == entry.source:
                self._repeated_links.add(entry.link)

    def _drop_expired(self, now: float) -> None:
        """Drop the entries that have left the window. The index follows when a quarter of them has gone."""
        while self._entries:
            number = next(iter(self._entries))
            entry = self._entries[number]
            if now - entry.at <= WINDOW:
                break
            del self._entries[number]
            if self._by_item.get(entry.item) == number:
                del self._by_item[entry.item]
            if entry.link is not None and self._links.get(entry.link) == number:
                del self._links[entry.link]
                self._repeated_links.discard(entry.link)
        oldest = next(iter(self._entries), self._next_number)
        if oldest - self._first_indexed > len(self._entries) // 4:
            self._holders = {stem: held for stem, held in self._holders.items() if held[-1] >= oldest}
            for held in self._holders.values():
                del held[: bisect_left(held, oldest)]
            self._first_indexed = oldest

    # learning

    def _learn_title(self, item: StoryItem) -> tuple[list[str], dict[str, int]]:
        """Count the title's stems. Return its words and the stems to compare: not those that the source repeats, and
        none for a series."""
        words = split_words(item.title) if item.title else []
        if not words:
            return words, {}
        stems, form = list_stems(words), describe_form(words)
        habits = self._habits.get(item.source)
        if habits is None:
            habits = self._habits[item.source] = SourceHabits()
        is_series = habits.is_series(form, item.arrived)
        bag: dict[str, int] = {}
        for stem in habits.drop_repeated(stems):
            bag[stem] = bag.get(stem, 0) + 1
        habits.note_title(stems, form, item.arrived)
        self._count_words(bag)
        return words, {} if is_series or len(bag) < MIN_WORDS else bag

    def _count_words(self, bag: dict[str, int]) -> None:
        counts = self._counts
        for stem in bag:
            counts[stem] = counted = counts.get(stem, 0.0) + 1
            self._logs[stem] = log(1 + counted)
        self._counted += 1
        if self._counted >= COUNTED_TITLES:
            self._counted /= 2
            self._set_counts({stem: count / 2 for stem, count in counts.items() if count >= 1})

    def _set_counts(self, counts: dict[str, float]) -> None:
        self._counts = counts
        self._logs = {stem: log(1 + count) for stem, count in counts.items()}

    # comparing

    def _find_by_link(self, item: StoryItem) -> Match | None:
        """Return the item with the same link, unless one source has used that link for several items."""
        if item.link is None or item.link in self._repeated_links:
            return None
        entry = self._entries.get(self._links.get(item.link, -1))
        return None if entry is None or entry.source == item.source else (entry, 1.0, ())

    def _find_by_title(self, item: StoryItem, bag: dict[str, int]) -> Match | None:
        """Return the item with the highest score, the earlier of equals, if that score is high enough."""
        best, highest = None, 0.0
        get_log = self._logs.get
        rarest = log(1 + self._counted) + 1  # the weight of a stem is this less its logarithm, as for SIMILAR
        squares = {stem: (rarest - get_log(stem, 0.0)) ** 2 for stem in bag}
        parts = {stem: count * count * squares[stem] for stem, count in bag.items()}
        length = sqrt(sum(parts.values()))
        for number in self._find_candidates(bag):
            entry = self._entries[number]
            theirs = entry.bag
            fade = exp((entry.at - item.arrived) / FADING)
            share = SAME_PUBLISHER if entry.publisher == item.publisher else 1.0
            shared = sum([part for stem, part in parts.items() if stem in theirs])
            # by Cauchy-Schwarz, the cosine is at most the share of the length that the shared stems carry
            if sqrt(shared) * fade * share < max(highest, MIN_SCORE) * length * ROUNDING:
                continue
            dot = sum([count * theirs[stem] * squares[stem] for stem, count in bag.items() if stem in theirs])
            square = sum([(count * (rarest - get_log(stem, 0.0))) ** 2 for stem, count in theirs.items()])
            score = dot / (length * sqrt(square)) * fade * share
            if score > highest:
                best, highest = entry, score
        if best is None or highest < MIN_SCORE:
            return None
        common = sorted(bag.keys() & best.bag.keys(), key=lambda stem: (-squares[stem], stem))
        return best, highest, tuple(common)

    def _find_candidates(self, bag: dict[str, int]) -> list[int]:
        """Return the numbers of entries that share two uncommon words, in order of arrival."""
        most = COMMON_SHARE * max(self._counted, MIN_COUNTED)
        lists = []
        for stem in bag:
            holders = self._holders.get(stem)
            if holders is not None and self._counts.get(stem, 0.0) <= most:
                lists.append(holders[-MAX_HOLDERS:])
        if len(lists) < MIN_WORDS:
            return []
        if sum(map(len, lists)) < MANY_HOLDERS:
            counted = Counter(chain.from_iterable(lists))
            found = sorted([number for number, times in counted.items() if times >= MIN_WORDS])
        else:
            numbers = np.sort(np.frombuffer(b"".join(lists), np.uint64), kind="stable")  # of sorted runs
            repeated = numbers[MIN_WORDS - 1 :][numbers[MIN_WORDS - 1 :] == numbers[: 1 - MIN_WORDS]]
            found = list(dict.fromkeys(repeated.tolist()))
        return [number for number in found if number in self._entries]

    # saving

    def save_state(self) -> bytes:
        """Return the window, the counts and the habits as bytes."""
        return msgspec.msgpack.encode(
            _SavedState(
                VERSION,
                list(self._entries.values()),
                sorted(self._repeated_links),
                self._counted,
                self._counts,
                {source: habits.save() for source, habits in self._habits.items()},
            )
        )

    @classmethod
    def load_state(cls, saved: bytes) -> StoryGrouper:
        """Return the grouper that was saved: it places later items as the original would have."""
        try:
            state = msgspec.msgpack.decode(saved, type=_SavedState)
        except msgspec.DecodeError as error:
            raise InputError("The saved state of the stories is damaged. Stories begin anew.") from error
        if state.version != VERSION:
            raise InputError(
                f"The saved state of the stories has version {state.version}; this release reads version {VERSION}."
            )
        grouper = cls()
        for entry in state.entries:
            grouper._add_entry(entry)
        grouper._repeated_links = set(state.repeated_links)
        grouper._counted = state.counted
        grouper._set_counts(state.counts)
        grouper._habits = {source: SourceHabits.load(habits) for source, habits in state.habits.items()}
        return grouper
