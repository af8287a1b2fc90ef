"""Windows share the texts that they compare: each is indexed once, and searched once for an item."""

from __future__ import annotations

from collections import Counter

import pytest

from headwater.language.ast import Field
from headwater.query import Engine
from headwater.query.feeds import compared_texts
from headwater.query.feeds.compared_texts import LEAST_UNUSED, ComparedTexts
from headwater.query.items.similarity import WordFrequencies
from support.tables import NEWS, item

WEIGHTS = WordFrequencies().field_weights(Field.TITLE)


def make_bags(text: str) -> tuple[Counter[str], ...]:
    return (Counter(text.split()),)


def test_equal_texts_of_an_item_are_held_once_until_no_window_has_them() -> None:
    texts = ComparedTexts()
    key = ("news", "1")
    first = texts.hold_text(key, make_bags("ash cloud"))
    assert texts.hold_text(key, make_bags("ash cloud")) == first
    changed = texts.hold_text(key, make_bags("ash storm"))
    assert (changed != first, len(texts)) == (True, 2)
    for number in (first, first, changed):
        texts.release_text(number)
    assert len(texts) == 0


def test_numbers_of_unused_texts_are_given_again_and_never_found() -> None:
    texts = ComparedTexts()
    old = [texts.hold_text(("news", str(n)), make_bags(f"ash cloud {n}")) for n in range(LEAST_UNUSED + 1)]
    for number in old:
        texts.release_text(number)
    new = texts.hold_text(("news", "new"), make_bags("lava flows"))
    assert new in old
    assert list(texts.find_similar(Counter(("ash", "cloud")), WEIGHTS, 0.5)) == []
    assert list(texts.find_similar(Counter(("lava", "flows")), WEIGHTS, 0.9)) == [new]


def test_one_look_up_serves_all_windows_of_about_the_same_cosine(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[float] = []
    find = compared_texts.ComparedTexts._find_candidates
    monkeypatch.setattr(
        compared_texts.ComparedTexts,
        "_find_candidates",
        lambda texts, weighed, at: looked_up.append(at) or find(texts, weighed, at),  # type: ignore[func-returns-value]
    )
    engine = Engine()
    for number in range(40):
        engine.add_query(f"CREATE FEED q{number} AS RETURN ALL DISTINCT ON TITLE AT 0.7{number % 10}")
    assert len(engine.match(item(1, "ash cloud over Oslo"), NEWS)) == 40
    assert looked_up == []  # nothing to compare with yet
    assert len(engine.match(item(2, "ash cloud over Oslo"), NEWS)) == 0
    assert looked_up == [0.7]


def test_a_dropped_query_gives_its_texts_back() -> None:
    engine = Engine()
    engine.add_query("CREATE FEED a AS RETURN ALL DISTINCT ON TITLE AT 0.7")
    engine.add_query("CREATE FEED b AS RETURN ALL DISTINCT ON TITLE AT 0.7")
    engine.match(item(1, "ash cloud"), NEWS)
    texts = engine._query_feeds._compared[Field.TITLE]
    assert len(texts) == 1
    engine.drop_query("a")
    assert len(texts) == 1
    engine.add_query("CREATE OR REPLACE FEED b AS RETURN ALL")
    assert len(texts) == 0
