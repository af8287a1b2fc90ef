"""Marking of searched words: only these are marked, and the text is unchanged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.language import parse
from headwater.query.items.tokens import split_words
from headwater.query.matched_words import SearchedWords, find_present_words, list_searched_words, mark_words


def needles_of(condition: str) -> list[str]:
    (create,) = parse(f"CREATE FEED a AS RETURN ALL WHERE {condition}").queries
    return [" ".join(needle.words) + ("*" if needle.prefix else "") for needle in list_searched_words(create.query)]


def test_words_under_not_are_not_marked() -> None:
    assert needles_of('TITLE CONTAINS "Ash cloud" AND NOT ITEM CONTAINS "film" AND CATEGORY != "x"') == ["ash cloud"]
    assert needles_of('ITEM CONTAINS "volcan*" OR AUTHOR = "Ann Lee"') == ["volcan*", "ann lee"]
    assert needles_of("SIZE > 10") == []


def test_case_accents_and_punctuation_do_not_hide_a_word() -> None:
    pieces = mark_words("L’ÉRUPTION: ash—cloud, Volcanoes!", [
        SearchedWords(("eruption",), False), SearchedWords(("ash", "cloud"), False), SearchedWords(("volcan",), True),
    ])  # fmt: skip
    assert [piece.text for piece in pieces if piece.found] == ["ÉRUPTION", "ash—cloud", "Volcanoes"]


def test_words_are_marked_in_every_script() -> None:
    for searched, text in (("किताब", "नई किताब है"), ("噴火", "火山が噴火した"), ("eruption", "E\u0301ruption")):
        wanted = SearchedWords(tuple(split_words(searched)), False)
        (found,) = [piece.text for piece in mark_words(text, [wanted]) if piece.found]
        assert split_words(found) == split_words(searched)


def test_find_present_words_returns_the_words_that_occur_in_a_text() -> None:
    wanted = [SearchedWords(("lava",), False), SearchedWords(("ash", "cloud"), False), SearchedWords(("snow",), False)]
    assert find_present_words(["Lava by night", "an ash cloud"], wanted) == ("lava", "ash cloud")


@given(
    st.text(max_size=80), st.lists(st.text(st.characters(categories=("L", "N")), min_size=1, max_size=6), max_size=4)
)
def test_the_pieces_concatenate_to_the_text(text: str, words: list[str]) -> None:
    pieces = mark_words(text, [SearchedWords((word.casefold(),), True) for word in words])
    assert "".join(piece.text for piece in pieces) == text
