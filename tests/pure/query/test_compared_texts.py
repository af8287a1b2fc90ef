"""Windows share the values that they compare: each is indexed once, and searched once for an item."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headwater.language.ast import Field
from headwater.query import Engine
from headwater.query.feeds import compared_texts
from headwater.query.feeds.compared_texts import ComparedTexts
from headwater.query.feeds.held_values import LEAST_UNUSED, EqualValues, HeldValues
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.similarity import WordFrequencies
from support.tables import NEWS, item

WEIGHTS = WordFrequencies().field_weights(Field.TITLE)


def analyse(number: int, title: str) -> AnalysedItem:
    return AnalysedItem(item(number, title), NEWS)


@pytest.mark.parametrize("make", [ComparedTexts, lambda field: EqualValues(field, field)])
def test_equal_values_of_an_item_are_held_once_until_no_window_has_them(
    make: Callable[[Field], HeldValues[Any]],
) -> None:
    values = make(Field.TITLE)
    first = values.hold_item(analyse(1, "ash cloud"))
    assert values.hold_item(analyse(1, "ash cloud")) == first
    assert list(values.list_versions(first)) == []
    changed = values.hold_item(analyse(1, "ash storm"))
    assert (changed != first, len(values)) == (True, 2)
    assert set(values.list_versions(changed)) == {first, changed}
    for number in (first, first, changed):
        values.release(number)
    assert len(values) == 0


@pytest.mark.parametrize("make", [ComparedTexts, lambda field: EqualValues(field, field)])
def test_numbers_that_nobody_holds_are_given_again_and_never_found(make: Callable[[Field], HeldValues[Any]]) -> None:
    values = make(Field.TITLE)
    old = [values.hold_item(analyse(number, f"ash cloud {number}")) for number in range(LEAST_UNUSED + 1)]
    assert values.find(analyse(100, "Ash cloud 1"), Field.TITLE, 0.9, WEIGHTS, {*old}) == {old[1]}
    for number in old:
        values.release(number)
    new = values.hold_item(analyse(101, "lava flows"))
    assert new in old
    assert values.find(analyse(102, "ash cloud 1"), Field.TITLE, 0.9, WEIGHTS, {new}) == set()
    assert values.find(analyse(103, "Lava flows"), Field.TITLE, 0.9, WEIGHTS, {new}) == {new}


def test_values_of_the_current_item_are_held_anew_after_their_last_window_has_let_go() -> None:
    values, current = ComparedTexts(Field.TITLE), analyse(1, "ash cloud")
    values.release(values.hold_item(current))
    values.hold_item(current)
    assert len(values) == 1


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
    texts = engine._query_feeds._compared.find_texts(Field.TITLE)
    assert len(texts) == 1
    engine.drop_query("a")
    assert len(texts) == 1
    engine.add_query("CREATE OR REPLACE FEED b AS RETURN ALL")
    assert len(texts) == 0
