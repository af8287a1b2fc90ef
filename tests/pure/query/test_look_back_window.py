"""Windows find the same entries with and without an index, by arrays and by addition."""

from __future__ import annotations

from random import Random

import pytest

from headwater.language.ast import Field, LastWindow
from headwater.query.feeds import compared_texts
from headwater.query.feeds.compared_texts import ComparedFields
from headwater.query.feeds.look_back_window import LookBackWindow
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.similarity import WordFrequencies, fields_match
from support.tables import NEWS, item


@pytest.mark.parametrize("few_holders", [0, compared_texts.FEW_HOLDERS])
@pytest.mark.parametrize("at", [None, 0.3, 0.7])
@pytest.mark.parametrize("size", [4, 60])
def test_a_window_finds_what_comparing_every_pair_finds(
    size: int, at: float | None, few_holders: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compared_texts, "FEW_HOLDERS", few_holders)
    random, frequencies = Random(3), WordFrequencies()
    frequencies.track_field(Field.TITLE)
    window = LookBackWindow(LastWindow(size), Field.TITLE, Field.TITLE, at, ComparedFields())
    held: dict[int, AnalysedItem] = {}
    for number in range(150):
        title = " ".join(random.choices(["ash", "cloud", "lava", "oslo", "rio"], k=random.randint(1, 3)))
        known = random.random() < 0.1 and held  # a new version of an item in the window
        name = random.choice(list(held)) if known else number
        new = AnalysedItem(item(name, title), NEWS, float(number))
        frequencies.count_item(new)
        weights = frequencies.field_weights(Field.TITLE)
        expected = [
            old.item.identity for old in held.values() if fields_match(new, Field.TITLE, old, Field.TITLE, at, weights)
        ]
        assert [found.identity for found in window.find_matches(new, weights)] == expected
        window.add_item(new)
        held[name] = new
        if len(held) > size:
            del held[next(iter(held))]
