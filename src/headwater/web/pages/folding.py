"""The same story several times on one page folds into one row: by its link, or by a title of some length."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.formats.urls import normalise_url
from headwater.query.words import split_words
from headwater.store.people import ReaderItem

LONG_TITLE = 4  # words that a title needs: “Correction” is no story


def fold_duplicates(readings: Sequence[ReaderItem]) -> list[tuple[ReaderItem, tuple[ReaderItem, ...]]]:
    """Rows in their order, each with the others that tell the same, of other feeds."""
    first: dict[object, int] = {}
    rows: list[tuple[ReaderItem, list[ReaderItem]]] = []
    for one in readings:
        keys = _story_keys(one)
        place = next((first[key] for key in keys if key in first), None)
        if place is not None and _is_other_feed(rows[place], one):
            rows[place][1].append(one)
        else:
            place = len(rows)
            rows.append((one, []))
        for key in keys:
            first.setdefault(key, place)
    return [(one, tuple(others)) for one, others in rows]


def _is_other_feed(row: tuple[ReaderItem, list[ReaderItem]], one: ReaderItem) -> bool:
    return all(one.item.feed_id != known.item.feed_id for known in (row[0], *row[1]))


def _story_keys(one: ReaderItem) -> list[object]:
    keys: list[object] = []
    if one.item.link:
        keys.append(("link", normalise_url(one.item.link)))
    title = tuple(split_words(one.item.title or ""))
    if len(title) >= LONG_TITLE:
        keys.append(("title", title))
    return keys
