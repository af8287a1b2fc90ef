"""Postings: the three implementations agree, and unused features are dropped."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.query.index import postings
from headwater.query.index.postings import ABSENT, EITHER, NAMED, PHRASE, RULE, Postings

WORDS = ["ash", "cloud", "iceland", "lava", "oslo", "@nblog"]
ENTRIES = st.lists(
    st.tuples(
        st.sampled_from(WORDS),
        st.integers(0, 2**32 - 1),
        st.sampled_from([None, *WORDS]),
        st.sampled_from([0, ABSENT, PHRASE, EITHER, RULE]),
        st.sampled_from([0, NAMED]),
    )
)


def filled(entries: list[tuple[str, int, str | None, int, int]]) -> Postings:
    made = Postings(lambda _: None, lambda _: None)
    for key, owner, other, kind, named in entries:
        other_number = 0 if other is None else made.feature_number(other)
        made.add_entry(key, owner, other_number | (kind if other is not None or kind != ABSENT else 0) | named)
    return made


def sort_matches(met: tuple[object, object]) -> tuple[list[int], list[tuple[int, int]]]:
    ready, later = (list(each) for each in met)  # type: ignore[call-overload]
    return sorted(ready), sorted(zip(later[::2], later[1::2], strict=True))


def by_hand(
    entries: list[tuple[str, int, str | None, int, int]], features: set[str], named: bool, numbers: Postings
) -> tuple[list[int], list[tuple[int, int]]]:
    ready, later = [], []
    for key, owner, other, given_kind, name in entries:
        kind = 0 if other is None and given_kind == ABSENT else given_kind
        there = other is None or other in features
        if key in features and there != (kind == ABSENT) and (not named or name or kind == RULE):
            if kind in (PHRASE, EITHER, RULE):
                later.append((owner, (numbers.feature_number(other) if other else 0) | kind | name))
            else:
                ready.append(owner)
    return sorted(ready), sorted(later)


@settings(deadline=None)
@given(ENTRIES, st.sets(st.sampled_from(WORDS)), st.booleans())
def test_entries_match_alike_one_by_one_in_arrays_and_compiled(
    entries: list[tuple[str, int, str | None, int, int]], features: set[str], named: bool
) -> None:
    known = filled(entries)
    expected = by_hand(entries, features, named, known)
    for few, compiled in ((2**40, False), (0, False), (0, True)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(postings, "FEW", few)
            known.compile = compiled
            assert sort_matches(known.find_matches(features, named)) == expected


def test_a_feature_without_owners_and_requirements_is_dropped() -> None:
    opened: list[str] = []
    closed: list[str] = []
    known = Postings(opened.append, closed.append)
    known.add_entry("ash", 1, known.feature_number("cloud"))
    known.add_entry("cloud", 2)
    assert sorted(opened) == ["ash", "cloud"]
    known.keep_entries("cloud", [])
    assert not closed  # still in use
    known.keep_entries("ash", [])
    assert sorted(closed) == ["ash", "cloud"]
    assert "ash" not in known
    known.add_entry("oslo", 3)
    assert sort_matches(known.find_matches({"oslo", "ash"})) == ([3], [])


def test_compiled_code_is_used_once_there_are_many_entries_and_items(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def compiling(function: Callable[..., object]) -> Callable[..., object]:
        compiled.append(function.__name__)
        return function

    monkeypatch.setattr(postings, "compile_with_numba", compiling)
    for name, value in (("FEW", 0), ("UNCOMPILED", 3), ("SOON", 2), ("NUMBA_AVAILABLE", True)):
        monkeypatch.setattr(postings, name, value)
    known = filled([("ash", 1, None, 0, 0), ("ash", 2, None, 0, 0)])
    for _ in range(5):
        assert sort_matches(known.find_matches({"ash"})) == ([1, 2], [])
    known.add_entry("ash", 3)
    for _ in range(2):
        assert sort_matches(known.find_matches({"ash"})) == ([1, 2, 3], [])
    assert not compiled
    assert sort_matches(known.find_matches({"ash"})) == ([1, 2, 3], [])
    assert compiled == ["_find_matches_loop"]
    monkeypatch.setattr(postings, "NUMBA_AVAILABLE", False)
    assert sort_matches(known.find_matches({"ash"})) == ([1, 2, 3], [])
    assert len(compiled) == 1
