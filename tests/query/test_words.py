"""Words: the same for what is searched and what is searched for."""

from __future__ import annotations

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from headwater.query.words import fold, join, needle, strip, whole, words


def slow_fold(text: str) -> str:
    """The specification, word for word, over the whole text at once."""

    def bare(text: str) -> str:
        return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))

    return bare(bare(text).casefold())


@given(st.text())
def test_folding_twice_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(
    st.text(st.characters(exclude_characters="\u00ad\u200c\u200d\u2060\ufeff", categories=("L", "M", "N", "P", "Z")))
)
def test_folding_run_by_run_is_folding_the_whole(text: str) -> None:
    assert fold(text) == slow_fold(text).lower()


@given(st.text(st.characters(max_codepoint=0x24F)))
def test_words_are_runs_of_letters_and_digits(text: str) -> None:
    assert words(text) == re.findall(r"[^\W_]+", fold(text))


@given(st.text(), st.text())
def test_a_text_contains_every_run_of_its_own_words(before: str, after: str) -> None:
    both = words(f"{before} {after}")
    for start in range(len(both)):
        assert f" {' '.join(both[start : start + 3])} " in join(fold(f"{before} {after}"))


def test_case_accents_and_ligatures_do_not_matter() -> None:
    assert words("ÉRUPTION Straße ﬁn Ångström") == ["eruption", "strasse", "fin", "angstrom"]


def test_a_soft_hyphen_does_not_cut_a_word() -> None:
    assert words("Reyk\u00adjavík") == ["reykjavik"]


def test_every_han_and_kana_character_is_a_word() -> None:
    assert words("火山が噴火 2024") == ["火", "山", "か", "噴", "火", "2024"]
    assert needle("噴火") in join(fold("火山が噴火した"))


def test_underscores_and_apostrophes_cut_words() -> None:
    assert words("l'Etna snake_case") == ["l", "etna", "snake", "case"]


def test_inline_markup_does_not_cut_a_word_and_blocks_do() -> None:
    assert words(strip("<p>vol<b>can</b>o</p><p>ash</p>one<br/>two")) == ["volcano", "ash", "one", "two"]


def test_scripts_styles_and_comments_are_not_text() -> None:
    assert strip("a<script>var volcano</script>b<!-- lava -->c<style>x{}</style>").split() == ["a", "b", "c"]


def test_an_open_comment_or_script_hides_nothing() -> None:
    assert strip("ash <!-- cloud").split()[-1] == "cloud"


def test_entities_are_decoded_after_markup_is_gone() -> None:
    assert strip("AT&amp;T &lt;b&gt; caf&eacute;") == "AT&T <b> café"


def test_a_number_of_thousands_of_digits_is_left_alone() -> None:
    assert strip(f"a &#{'9' * 5_000}; b").split()[-1] == "b"


def test_a_less_than_sign_is_not_a_tag() -> None:
    assert strip("3 < 4 and 5 > 4") == "3 < 4 and 5 > 4"


def test_whole_values_are_trimmed_and_folded() -> None:
    assert whole("  Ann \n LEE ") == "ann lee"


def test_a_star_at_the_end_searches_a_prefix() -> None:
    assert needle("volcan*") in join("volcanoes i have known")
    assert needle("i have k*") in join("volcanoes i have known")
    assert needle("olcan*") not in join("volcanoes")
