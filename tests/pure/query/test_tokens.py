"""Words are split and folded alike for items and for searched texts."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import QueryError
from headwater.language import parse
from headwater.query import Engine
from headwater.query.index.matchers import compile_matcher
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.similarity import WordFrequencies
from headwater.query.items.tokens import fold_text, fold_value, join_words, search_key, split_words, strip_markup
from headwater.store.content.search_terms import parse_search
from support import ROOT
from support.tables import NEWS
from support.tables import item as sample

PAGE = (ROOT / "docs" / "language.md").read_text()
TABLE = PAGE.split("| script | `CONTAINS` |")[1].split("\n\n")[0]
EXAMPLES = [tuple(cell.strip() for cell in row.split("|")[2:5]) for row in TABLE.splitlines()[2:]]


def contains(searched: str, text: str) -> bool:
    (create,) = parse(f"CREATE FEED a AS RETURN ALL WHERE TITLE CONTAINS {searched}").queries
    assert create.query.where is not None
    matcher = compile_matcher(create.query.where, WordFrequencies())
    engine = Engine()
    engine.add_query(create)
    found = sample(1, text)
    assert bool(engine.match(found, NEWS)) is matcher(AnalysedItem(found, NEWS))
    return matcher(AnalysedItem(found, NEWS))


@pytest.mark.parametrize(("searched", "found", "other"), EXAMPLES)
def test_the_examples_of_every_script_hold(searched: str, found: str, other: str) -> None:
    searched = searched.strip("`")
    assert contains(searched, found)
    assert not contains(searched, other)
    assert any(term.words for term in parse_search(searched))


def test_exact_compares_composed_letters() -> None:
    assert contains('EXACT "Reykjavík"', unicodedata.normalize("NFD", "in Reykjavík"))
    assert contains(f'EXACT "{unicodedata.normalize("NFD", "Reykjavík")}"', "in Reykjavík")
    assert not contains('EXACT "Reykjavík"', "in Reykjavik")
    assert contains('EXACT "C++"', "in C++")
    assert not contains('EXACT "C++"', "in c++")


def test_symbols_of_one_value_are_not_searched_in_another() -> None:
    assert contains('ANY ("F#", "lava")', "lava")
    assert not contains('ALL ("F#", "lava")', "F lava")
    assert contains('"C++" NEAR 2 "Rust"', "C++ or Rust")
    assert not contains('"C++" NEAR 2 "Rust"', "C or Rust")


@pytest.mark.parametrize("searched", ['"vol*no"', '"*cano"', '"vol *"', '"C++*"'])
def test_a_star_that_does_not_end_a_word_is_refused(searched: str) -> None:
    with pytest.raises(QueryError, match=r"\*"):
        contains(searched, "volcano")


@given(st.text())
def test_folding_twice_changes_nothing(text: str) -> None:
    assert fold_text(fold_text(text)) == fold_text(text)


@given(st.text())
def test_words_are_those_of_the_folded_text(text: str) -> None:
    assert split_words(fold_text(text)) == split_words(text)


@given(st.text(st.characters(categories=("L", "M", "N", "P", "Z"))))
def test_it_does_not_matter_how_a_text_is_composed(text: str) -> None:
    for form in ("NFC", "NFD"):
        assert split_words(unicodedata.normalize(form, text)) == split_words(text)
        assert join_words(unicodedata.normalize(form, text), exact=True) == join_words(text, exact=True)


@given(st.text(st.characters(max_codepoint=0x24F)))
def test_words_are_runs_of_letters_and_digits(text: str) -> None:
    assert split_words(text) == re.findall(r"[^\W_]+", fold_text(text))


@given(st.text(), st.text())
def test_a_text_contains_every_run_of_its_own_words(before: str, after: str) -> None:
    both = split_words(f"{before} {after}")
    for start in range(len(both)):
        assert f" {' '.join(both[start : start + 3])} " in join_words(fold_text(f"{before} {after}"))


def test_case_accents_and_ligatures_do_not_matter() -> None:
    assert split_words("ÉRUPTION Straße ﬁn Ångström") == ["eruption", "strasse", "fin", "angstrom"]


def test_a_soft_hyphen_does_not_cut_a_word() -> None:
    assert split_words("Reyk\u00adjavík") == ["reykjavik"]


def test_every_han_and_kana_character_is_a_word() -> None:
    assert split_words("火山た噴火 2024") == ["火", "山", "た", "噴", "火", "2024"]
    assert search_key("噴火") in join_words(fold_text("火山が噴火した"))


def test_japanese_voicing_marks_tell_words_apart() -> None:
    assert split_words("で") != split_words("て")
    assert split_words("パ") != split_words("バ") != split_words("ハ")
    assert len(split_words("ガラス")) == 3
    assert split_words("ｶﾞﾗｽ") == split_words("ガラス")


@pytest.mark.parametrize(("one", "other"), [("น้ำ", "น\u0e4d\u0e49\u0e32"), ("ນ້ຳ", "ນ\u0ecd\u0ec9\u0eb2")])
def test_a_tone_between_the_parts_of_am_makes_no_other_word(one: str, other: str) -> None:
    assert join_words(one) == join_words(other)
    assert join_words(one, exact=True) == join_words(other, exact=True)


@pytest.mark.parametrize("word", ["किताब", "हिन्दी", "বড়", "நாள்", "తెలుగు", "ಕನ್ನಡ", "മലയാളം", "བོད"])
def test_vowel_signs_do_not_cut_a_word(word: str) -> None:
    assert len(split_words(word)) == 1
    assert split_words(f"a {word}, {word}.") == ["a", *split_words(word), *split_words(word)]


@pytest.mark.parametrize(("one", "other"), [("किताब", "कुताब"), ("ข่าว", "ข้าว"), ("கல்", "கல"), ("বড়", "বড")])
def test_vowel_signs_and_tones_tell_words_apart(one: str, other: str) -> None:
    assert split_words(one) != split_words(other)


def test_hebrew_points_and_arabic_vowels_do_not_matter() -> None:
    assert split_words("שָׁלוֹם") == split_words("שלום")
    assert split_words("كِتَاب") == split_words("كتاب")


def test_joiners_and_variation_selectors_are_not_part_of_a_word() -> None:
    assert split_words("क्\u200dष") == split_words("क्ष")
    assert split_words("I ❤\ufe0f 1\ufe0f\u20e3 葛\U000e0100") == ["i", "1", "葛"]


def test_underscores_and_apostrophes_cut_words() -> None:
    assert split_words("l'Etna snake_case") == ["l", "etna", "snake", "case"]


def test_inline_markup_does_not_cut_a_word_and_blocks_do() -> None:
    assert split_words(strip_markup("<p>vol<b>can</b>o</p><p>ash</p>one<br/>two")) == ["volcano", "ash", "one", "two"]


def test_scripts_styles_and_comments_are_not_text() -> None:
    assert strip_markup("a<script>var volcano</script>b<!-- lava -->c<style>x{}</style>").split() == ["a", "b", "c"]


def test_an_open_comment_or_script_hides_nothing() -> None:
    assert strip_markup("ash <!-- cloud").split()[-1] == "cloud"


def test_entities_are_decoded_after_markup_is_gone() -> None:
    assert strip_markup("AT&amp;T &lt;b&gt; caf&eacute;") == "AT&T <b> café"


def test_a_number_of_thousands_of_digits_is_left_alone() -> None:
    assert strip_markup(f"a &#{'9' * 5_000}; b").split()[-1] == "b"


def test_a_less_than_sign_is_not_a_tag() -> None:
    assert strip_markup("3 < 4 and 5 > 4") == "3 < 4 and 5 > 4"


def test_whole_values_are_trimmed_and_folded() -> None:
    assert fold_value("  Ann \n LEE ") == "ann lee"


def test_a_star_at_the_end_searches_a_prefix() -> None:
    assert search_key("volcan*") in join_words("volcanoes i have known")
    assert search_key("i have k*") in join_words("volcanoes i have known")
    assert search_key("olcan*") not in join_words("volcanoes")
    assert search_key("हिन्दी*") in join_words(fold_text("हिन्दीभाषी"))
