"""Names the publisher of an item, and remembers the words and series that a source repeats in recent titles."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable
from sys import intern

import msgspec

from headwater.formats.values.domains import registered_domain_of_url
from headwater.model import Item
from headwater.query.items.origin import Origin
from headwater.query.items.tokens import fold_value
from headwater.times import HOUR

REMEMBERED_TITLES = 100
MIN_TITLES = 8  # fewer say nothing about habits
MIN_USES = 4  # of a word that counts as repeated
REPEATED_SHARE = 0.25  # of the remembered titles
REMEMBERED_FORMS = 1_000
SERIES_USES = 2  # earlier uses of a form that make it a series, if the first was long ago
SERIES_AGE = 18 * HOUR
SERIES_USES_AT_ONCE = 5  # earlier uses that make it a series at any age


class SavedHabits(msgspec.Struct, array_like=True):
    """The habits of a source as they are saved: the stems of its titles, and each form's digest, uses and first use."""

    titles: list[tuple[str, ...]]
    forms: dict[bytes, tuple[int, float]]


class SourceHabits:
    """The recent titles of one source."""

    __slots__ = ("_forms", "_titles", "_uses")

    def __init__(self) -> None:
        self._titles: deque[tuple[str, ...]] = deque()
        self._uses: dict[str, int] = {}
        self._forms: dict[bytes, tuple[int, float]] = {}

    def drop_repeated(self, stems: Collection[str]) -> Collection[str]:
        """Return the stems without those in a quarter or more of the recent titles, such as the source's own name."""
        titles = len(self._titles)
        if titles < MIN_TITLES:
            return stems
        least = max(MIN_USES, REPEATED_SHARE * titles)
        return [stem for stem in stems if self._uses.get(stem, 0) < least]

    def is_series(self, form: bytes, now: float) -> bool:
        """Return whether the source has used this form often enough to call it a series."""
        uses, first = self._forms.get(form, (0, now))
        return uses >= SERIES_USES_AT_ONCE or (uses >= SERIES_USES and now - first > SERIES_AGE)

    def note_title(self, stems: Collection[str], form: bytes, now: float) -> None:
        """Remember a title, forget the oldest."""
        self._add_title(tuple(sorted(set(stems))))
        uses = self._uses
        if len(self._titles) > REMEMBERED_TITLES:
            for stem in self._titles.popleft():
                uses[stem] -= 1
                if not uses[stem]:
                    del uses[stem]
        times, first = self._forms.pop(form, (0, now))
        self._forms[form] = (times + 1, first)  # at the end: the forms are in the order of their last use
        if len(self._forms) > REMEMBERED_FORMS:
            del self._forms[next(iter(self._forms))]

    def _add_title(self, stems: tuple[str, ...]) -> None:
        self._titles.append(stems)
        for stem in stems:
            self._uses[stem] = self._uses.get(stem, 0) + 1

    def save(self) -> SavedHabits:
        return SavedHabits(list(self._titles), self._forms)

    @classmethod
    def load(cls, saved: SavedHabits) -> SourceHabits:
        habits = cls()
        for stems in saved.titles:
            habits._add_title(tuple(map(intern, stems)))
        habits._forms = saved.forms
        return habits


_LAST_PART = re.compile(r"\s[-–—|•·]\s+([^-–—|•·]{2,60})$")


class Publishers:
    """The titles of the known feeds, by which a title like “Alaska reports a reaction - Reuters” names its origin."""

    def __init__(self, origins: Iterable[Origin] = ()) -> None:
        self._domains = {
            fold_value(title): find_domain(origin.url)
            for origin in origins
            for title in (origin.title, origin.name)
            if title
        }

    def find_publisher(self, item: Item, origin: Origin) -> str:
        """Return the registered domain of the publisher: of the stated origin, of the link, or of the feed.

        >>> guardian = Origin(None, "https://www.theguardian.com/world/rss", title="The Guardian")
        >>> item = Item(1, "1", "", "Alaska - The Guardian", "https://news.example/1", 0.0, True, None, 0.0)
        >>> Publishers([guardian]).find_publisher(item, Origin(None, "https://news.example/rss"))
        'theguardian.com'
        """
        if item.source is not None:
            return find_domain(item.source.url) or fold_value(item.source.title or "") or find_domain(origin.url)
        last = _LAST_PART.search(item.title) if item.title else None
        named = self._domains.get(fold_value(last[1])) if last is not None else None
        return named or (find_domain(item.link) if item.link else "") or find_domain(origin.url) or origin.url


def find_domain(url: str) -> str:
    """Return the registered domain of an address, "" if it has none."""
    try:
        return registered_domain_of_url(url) if "://" in url else ""
    except ValueError:  # a malformed address
        return ""
