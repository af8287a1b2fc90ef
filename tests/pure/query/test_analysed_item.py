"""Conditions see the right value for each field of an item."""

from __future__ import annotations

from headwater.language.ast import Field
from headwater.model import Enclosure, Item
from headwater.query.items.analysed_item import AnalysedItem, list_language_prefixes
from headwater.query.items.language_detection import make_language_detector
from headwater.query.items.origin import Origin

ORIGIN = Origin("blog", "http://blog.example/feed")


def item(**fields: object) -> AnalysedItem:
    base: dict[str, object] = {
        "feed_id": 1,
        "identity": "x",
        "content_hash": "",
        "title": None,
        "link": None,
        "published": 0.0,
        "dated": True,
        "updated": None,
        "first_seen": 0.0,
    }
    return AnalysedItem(Item(**(base | fields)), ORIGIN)  # type: ignore[arg-type]


def test_item_is_title_content_categories_and_authors() -> None:
    analysed = item(
        title="One", content="<p>Two</p>", categories=("Three", "Four"), authors=("Five",), link="http://six"
    )
    assert analysed.distinct_words(Field.ITEM) == {"one", "two", "three", "four", "five"}


def test_values_of_a_field_are_separated() -> None:
    analysed = item(title="ash", content="cloud", categories=("lava", "flow"))
    assert " lava flow " not in analysed.joined_words(Field.CATEGORY)
    assert " ash cloud " not in analysed.joined_words(Field.ITEM)
    assert [dict(bag) for bag in analysed.word_bags(Field.CATEGORY)] == [{"lava": 1}, {"flow": 1}]


def test_content_and_description_replace_each_other() -> None:
    assert item(summary="short").field_texts(Field.CONTENT) == ("short",)
    assert item(content="long").field_texts(Field.DESCRIPTION) == ("long",)
    both = item(summary="short", content="long")
    assert (both.field_texts(Field.CONTENT), both.field_texts(Field.DESCRIPTION)) == (("long",), ("short",))


def test_a_value_of_white_space_or_markup_alone_is_missing() -> None:
    analysed = item(title="  ", content="<p> </p>", link=" ")
    assert not any(map(analysed.has_field, (Field.TITLE, Field.CONTENT, Field.LINK, Field.ITEM, Field.SIZE)))


def test_a_date_set_by_us_does_not_count_as_published() -> None:
    assert not item(dated=False).has_field(Field.PUBLISHED)
    assert item(dated=True).has_field(Field.PUBLISHED)
    assert not item().has_field(Field.UPDATED)


def test_links_are_compared_normalised_and_languages_by_their_prefixes() -> None:
    assert item(link="HTTP://G/1?utm_source=x#top").comparable_values(Field.LINK) == {"http://g/1"}
    assert item(language="en-GB").comparable_values(Field.LANGUAGE) == {"en", "en-gb"}
    assert list_language_prefixes("pt") == ["pt"]


def test_an_enclosure_is_its_address_and_its_type() -> None:
    analysed = item(enclosures=(Enclosure("http://p/3/file", "image/jpeg"),))
    assert analysed.comparable_values(Field.ENCLOSURE) == {"http://p/3/file", "image/jpeg"}


def test_size_counts_the_characters_a_reader_sees() -> None:
    assert item(content="<b>lava</b>").size == 4
    assert item().size == 0


def test_the_language_is_detected_only_if_the_feed_does_not_declare_it() -> None:
    detect = make_language_detector()
    french = item(title="Éruption du volcan", content="La lave avance vers le village.").item
    assert AnalysedItem(french, ORIGIN, detect=detect).field_texts(Field.LANGUAGE) == ("fr",)
    assert AnalysedItem(french, ORIGIN).field_texts(Field.LANGUAGE) == ()
    declared = item(title="Éruption du volcan", language="x-klingon").item
    assert AnalysedItem(declared, ORIGIN, detect=detect).field_texts(Field.LANGUAGE) == ("x-klingon",)


def test_a_text_too_short_to_tell_has_no_language() -> None:
    assert make_language_detector()("ok 42") is None
