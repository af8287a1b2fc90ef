"""The syntax tree: equality, hashing and flat conjunctions."""

from __future__ import annotations

from headwater.language.ast import TRUE, And, Contains, Field, Has, LastWindow, Position, TimeUnit, conjoin_conditions


def test_equal_conditions_are_equal_regardless_of_position_and_spelling() -> None:
    here = Contains(Field.TITLE, ("a", "b"), pos=Position(1, 7))
    there = Contains(Field.TITLE, ("a", "b"), pos=Position(9, 1), listed=True)
    assert here == there
    assert hash(here) == hash(there)


def test_a_conjunction_is_flat_and_an_empty_one_is_true() -> None:
    a, b, c = Has(Field.LINK), Has(Field.TITLE), Has(Field.AUTHOR)
    assert conjoin_conditions([And((a, b)), None, c]) == And((a, b, c))
    assert conjoin_conditions([None, a]) == a
    assert conjoin_conditions([]) == TRUE


def test_a_window_is_a_span_of_time_or_a_number_of_items() -> None:
    assert LastWindow(3, TimeUnit.HOUR).seconds == 10_800
    assert LastWindow(3).seconds is None
