"""The same story several times on one page folds into one row: by its link, or by a title of some length."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.formats.urls import normalise
from headwater.query.words import words
from headwater.store.people import Reading

LONG = 4  # words that a title needs: “Correction” is no story


def folded(readings: Sequence[Reading]) -> list[tuple[Reading, tuple[Reading, ...]]]:
    """Rows in their order, each with the others that tell the same, of other feeds."""
    first: dict[object, int] = {}
    rows: list[tuple[Reading, list[Reading]]] = []
    for one in readings:
        keys = _keys(one)
        place = next((first[key] for key in keys if key in first), None)
        if place is not None and _other_feed(rows[place], one):
            rows[place][1].append(one)
        else:
            place = len(rows)
            rows.append((one, []))
        for key in keys:
            first.setdefault(key, place)
    return [(one, tuple(others)) for one, others in rows]


def _other_feed(row: tuple[Reading, list[Reading]], one: Reading) -> bool:
    return all(one.item.feed_id != known.item.feed_id for known in (row[0], *row[1]))


def _keys(one: Reading) -> list[object]:
    keys: list[object] = []
    if one.item.link:
        keys.append(("link", normalise(one.item.link)))
    title = tuple(words(one.item.title or ""))
    if len(title) >= LONG:
        keys.append(("title", title))
    return keys
