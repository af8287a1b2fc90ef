"""Written documents are read back unchanged."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from msgspec.structs import replace

from headwater.formats import read as read_document
from headwater.formats.values.html import clean_html
from headwater.formats.values.text import replace_forbidden
from headwater.formats.write import write_atom, write_json, write_rss
from headwater.model import Chapter, Document, Enclosure, Entry, Episode, Hints, Person, SafeHtml, Source

read = partial(read_document, summaries=False)

words = (
    # Ã, Â and â may begin UTF-8 that was read as another encoding, which reading mends.
    st.text(
        st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp", "Zs"), exclude_characters="ÂÃâ"),
        min_size=1,
        max_size=20,
    )
    .map(replace_forbidden)
    .filter(lambda text: "<" not in text and "&" not in text and text == text.strip() and "\ufeff" not in text)
)
names = words.filter(lambda text: not set(text) & set("@()<>[]\"'") and not text.startswith("mailto:"))
tags = st.lists(words.filter(lambda text: "," not in text), max_size=3, unique=True).map(tuple)
paths = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_/", min_size=1, max_size=20)
links = paths.map(lambda path: f"https://example.org/{path}")
times = st.none() | st.integers(0, 4_000_000_000).map(float)
html = words.map(lambda text: f"<p>{text.replace('>', '')}</p>")
sizes = st.none() | st.integers(1, 9999)
enclosures = st.builds(
    Enclosure,
    links,
    st.sampled_from(["audio/mpeg", "image/png", "video/mp4"]),
    st.integers(1, 10**12),
    sizes,
    sizes,
    st.none() | st.integers(1, 10**8).map(lambda milliseconds: milliseconds / 1000),
)
episodes = st.builds(
    Episode,
    duration=st.integers(1, 10**6).map(float),
    number=st.none() | st.integers(1, 999).map(float),
    season=st.none() | st.integers(1, 99).map(float),
    kind=st.none() | st.sampled_from(["full", "trailer", "bonus"]),
    chapters=st.none() | st.builds(Enclosure, links, st.just("application/json+chapters")),
    transcripts=st.lists(
        st.builds(Enclosure, links, st.just("text/vtt"), language=st.sampled_from([None, "en", "de"])), max_size=2
    ).map(tuple),
    inline_chapters=st.lists(
        st.builds(
            Chapter,
            st.integers(0, 10**7).map(lambda milliseconds: milliseconds / 1000),
            names,
            st.none() | links,
            st.none() | links,
        ),
        max_size=3,
    ).map(tuple),
)
mails = st.none() | st.sampled_from(["ann@example.org", "bob.b@mail.example.org"])
persons = st.builds(Person, names, mails, st.none() | links)


def complete(entry: Entry) -> Entry:
    """Name the authors, and make the last picture the lead one."""
    pictures = [one.url for one in entry.enclosures if one.type == "image/png"]
    return replace(with_people(entry, entry.people), image=pictures[-1] if pictures else None)


def keep_in_rss(people: tuple[Person, ...]) -> tuple[Person, ...]:
    """Remove the fields that RSS cannot hold: an author's page, and the mail addresses of several authors."""
    return tuple(Person(one.name, one.email if len(people) == 1 else None) for one in people)


def with_people(entry: Entry, people: tuple[Person, ...]) -> Entry:
    known = people if any(one.email or one.url for one in people) else ()
    return replace(entry, authors=tuple(one.label for one in people), people=known)


entries = st.builds(
    Entry,
    id=links.map(lambda link: f"{link}#id"),
    link=links,
    title=words,
    published=st.integers(0, 4_000_000_000).map(float),
    updated=times,
    people=st.lists(persons, min_size=1, max_size=3, unique_by=lambda one: one.name).map(tuple),
    summary=st.none() | html,
    content=st.none() | html,
    categories=tags,
    enclosures=st.lists(enclosures, max_size=3, unique_by=lambda one: one.url).map(tuple),
    language=st.just("en"),
    source=st.none() | st.builds(Source, links, words),
    episode=st.none() | episodes,
).map(complete)
documents = st.builds(
    Document,
    format=st.just("rss 2.0"),
    title=words,
    subtitle=words.filter(lambda text: ">" not in text),
    link=links,
    language=st.just("en"),
    id=links,
    updated=st.integers(0, 4_000_000_000).map(float),
    authors=st.lists(names, min_size=1, max_size=3, unique=True).map(tuple),
    categories=tags,
    hub=st.lists(links, max_size=2, unique=True).map(tuple),
    self=links,
    icon=st.none() | links,
    generator=st.none() | words,
    next=st.none() | links,
    hints=st.builds(
        Hints,
        ttl=st.none() | st.integers(1, 10_000).map(lambda minutes: minutes * 60.0),
        skip_hours=st.sets(st.integers(0, 23)).map(lambda hours: tuple(sorted(hours))),
        skip_days=st.sampled_from([(), ("Saturday", "Sunday")]),
        update_period=st.none() | st.sampled_from(["hourly", "daily"]),
        update_frequency=st.none() | st.integers(1, 100),
    ),
    items=st.lists(entries, max_size=4, unique_by=lambda entry: entry.id).map(tuple),
)


@given(documents)
def test_rss_survives_a_round_trip(document: Document) -> None:
    again = read(write_rss(document))
    items = [with_people(item, keep_in_rss(item.people)) if item.people else item for item in document.items]
    assert again == replace(document, encoding="utf-8", items=tuple(items))


@given(documents)
def test_atom_survives_a_round_trip_except_for_fields_that_it_lacks(document: Document) -> None:
    again = read(write_atom(document))
    items = tuple(
        replace(item, updated=item.published if item.updated is None else item.updated) for item in document.items
    )
    assert again == replace(document, format="atom 1.0", encoding="utf-8", hints=Hints(), items=items)


@given(documents)
def test_json_feed_survives_a_round_trip_except_for_fields_that_it_lacks(document: Document) -> None:
    again = read(write_json(document))
    further = document.next if document.next != document.self else None  # JSON Feed forbids a page that is its own next
    assert (again.title, again.link, again.self, again.hub, again.next) == (
        document.title, document.link, document.self, document.hub, further,
    )  # fmt: skip
    assert again.authors == document.authors
    assert again.items == document.items


def test_a_title_about_references_comes_back_from_json_feed_as_it_was() -> None:
    title = "How to write &amp; and &#39;"
    again = read(write_json(Document("json 1.1", title=title, items=(Entry(id="1", title=title),))))
    assert (again.title, again.items[0].title) == (title, title)


anything = st.text(st.characters(), max_size=40)


@pytest.mark.parametrize("write", [write_rss, write_atom])
@given(title=anything, body=anything, identity=anything, author=anything)
def test_any_text_gives_well_formed_xml(write, title, body, identity, author) -> None:  # type: ignore[no-untyped-def]
    entry = Entry(id=identity, title=f"{title}]]>", content=f"]]>{body}", authors=(author,), categories=(body,))
    document = Document("rss 2.0", title=title, subtitle=body, link=identity, items=(entry,), self=body)
    etree.fromstring(write(document))


@given(title=anything, body=anything)
def test_any_text_gives_valid_json(title: str, body: str) -> None:
    document = Document("json", title=title, items=(Entry(id=title, content=body, summary=body, authors=(body,)),))
    assert orjson.loads(write_json(document))["version"] == "https://jsonfeed.org/version/1.1"


def test_an_atom_entry_has_all_that_rfc_4287_requires_even_when_the_item_has_nothing() -> None:
    root = etree.fromstring(write_atom(Document("rss 2.0", items=(Entry(),))))
    ns = {"a": "http://www.w3.org/2005/Atom"}
    for path in (
        "a:id",
        "a:title",
        "a:updated",
        "a:author/a:name",
        "a:entry/a:id",
        "a:entry/a:updated",
        "a:entry/a:content",
    ):
        assert root.find(path, ns) is not None, path
    assert (root.findtext("a:entry/a:id", namespaces=ns) or "").startswith("urn:uuid:")


def test_a_document_names_exactly_one_self_link_and_its_hubs() -> None:
    document = Document("rss 2.0", title="t", self="https://old.example/", hub=("https://old.example/hub",))
    for write in (write_rss, write_atom, write_json):
        again = read(write(document, self_url="https://new.example/feed", hub=("https://new.example/hub",)))
        assert again.self == "https://new.example/feed"
        assert again.hub == ("https://new.example/hub",)


def test_an_rss_guid_is_a_permalink_only_when_it_is_the_link() -> None:
    items = (
        Entry(id="https://example.org/1", link="https://example.org/1"),
        Entry(id="abc", link="https://example.org/2"),
    )
    root = etree.fromstring(write_rss(Document("rss 2.0", items=items)))
    assert [guid.get("isPermaLink") for guid in root.iter("guid")] == ["true", "false"]


@pytest.mark.parametrize("write", [write_rss, write_atom, write_json])
def test_the_source_of_a_republished_item_survives_a_round_trip(write) -> None:  # type: ignore[no-untyped-def]
    source = Source("https://other.example/feed?a=1&b=2", "Other <news> & more")
    entry = Entry(id="https://example.org/1", title="t", source=source)
    (again,) = read(write(Document("rss 2.0", title="t", items=(entry,)))).items
    assert again.source == source


@pytest.mark.parametrize("write", [write_rss, write_atom])
def test_an_archive_page_says_so_and_links_to_its_neighbours(write) -> None:  # type: ignore[no-untyped-def]
    page = Document(
        "rss 2.0", title="t", next="https://a.example/?page=1", previous="https://a.example/?page=3",
        current="https://a.example/", archived=True,
    )  # fmt: skip
    root = etree.fromstring(write(page))
    links = {link.get("rel"): link.get("href") for link in root.iter("{http://www.w3.org/2005/Atom}link")}
    assert links["prev-archive"] == links["next"] == "https://a.example/?page=1"
    assert links["next-archive"] == links["previous"] == "https://a.example/?page=3"
    assert links["current"] == "https://a.example/"
    assert len(list(root.iter("{http://purl.org/syndication/history/1.0}archive"))) == 1


def test_rss_names_no_two_items_by_one_guid() -> None:
    items = (Entry(id="a", link="https://example.org/1"), Entry(id="a", link="https://example.org/2"))
    root = etree.fromstring(write_rss(Document("rss 2.0", items=items)))
    assert [guid.text for guid in root.iter("guid")] == ["a"]
    assert [item.link for item in read(write_rss(Document("rss 2.0", items=items))).items] == [
        one.link for one in items
    ]


@pytest.mark.parametrize("write", [write_rss, write_atom])
def test_addresses_are_written_as_uris_and_read_as_such(write) -> None:  # type: ignore[no-untyped-def]
    entry = Entry(
        link="https://bücher.example/a b?n[]=1",
        title="t",
        enclosures=(Enclosure("https://example.org?ü", "audio/mpeg", 1),),
        source=Source("https://example.org/ö"),
    )
    (again,) = read(write(Document("rss 2.0", link="https://example.org/ä", items=(entry,)))).items
    assert again.link == "https://xn--bcher-kva.example/a%20b?n%5B%5D=1"
    assert again.enclosures == (Enclosure("https://example.org/?%C3%BC", "audio/mpeg", 1),)
    assert again.source is not None
    assert again.source.url == "https://example.org/%C3%B6"


def test_a_file_whose_length_is_reported_to_be_0_has_none_in_media_rss() -> None:
    files = (Enclosure("https://example.org/1", "audio/mpeg", 0), Enclosure("https://example.org/2", "audio/mpeg", 0))
    root = etree.fromstring(write_rss(Document("rss 2.0", items=(Entry(title="t", enclosures=files),))))
    assert [one.get("length") for one in root.iter("enclosure")] == ["0"]
    assert [one.get("fileSize") for one in root.iter("{http://search.yahoo.com/mrss/}content")] == [None]


@pytest.mark.parametrize(
    ("language", "written"), [("english", "en"), ("en_GB", "en-GB"), ("US", None), ("xx-yy-", None), ("yue", "yue")]
)
def test_only_valid_language_tags_are_written(language: str, written: str | None) -> None:
    document = Document("rss 2.0", title="t", language=language, items=(Entry(title="t", content="c", language="fr"),))
    for write in (write_rss, write_atom, write_json):
        again = read(write(document))
        assert again.language == written
        assert [item.language for item in again.items] == ["fr"]


def test_plain_text_of_rss_is_not_taken_for_html() -> None:
    body = write_rss(Document("rss 2.0", title="a & b", items=(Entry(title="<b> &amp;", categories=("R&D",)),)))
    assert b"&amp;" not in body
    assert b"&lt;" not in body
    again = read(body)
    assert again.items[0].categories == ("R&D",)


def test_a_file_of_unknown_length_stays_an_enclosure_of_rss_so_that_podcast_players_find_it() -> None:
    entry = Entry(title="t", enclosures=(Enclosure("https://example.org/1.mp3", "audio/mpeg", None),))
    root = etree.fromstring(write_rss(Document("rss 2.0", items=(entry,))))
    assert [one.get("length") for one in root.iter("enclosure")] == ["0"]


@pytest.mark.parametrize("write", [write_rss, write_atom, write_json])
def test_titles_of_files_and_types_of_lead_pictures_survive(write: Callable[[Document], bytes]) -> None:
    source = (
        b'<rss version="2.0" xmlns:media="http://search.yahoo.com/mrss/"><channel><title>F</title><item><title>T</title>'
        b'<guid>1</guid><media:content url="https://e.example/a.mp3" type="audio/mpeg" fileSize="9">'
        b"<media:title>Listen</media:title>"
        b'</media:content><media:content url="https://e.example/p.jpg"/>'
        b'<description>&lt;img src="https://e.example/p.jpg"&gt;</description></item></channel></rss>'
    )
    document = read_document(source)
    sound, picture = document.items[0].enclosures
    assert (sound.title, picture.type) == ("Listen", "image/*")
    assert read_document(write(document)).items[0].enclosures == (sound, picture)


@pytest.mark.parametrize("write", [write_rss, write_atom, write_json])
@pytest.mark.parametrize("kind", ["image/png", "image/*"])
def test_descriptions_of_pictures_survive_in_items_without_a_title(
    write: Callable[[Document], bytes], kind: str
) -> None:
    picture = Enclosure("https://e.example/p.png", kind, 9, title="Lizards")
    entry = Entry(id="1", link="https://e.example/1", summary=SafeHtml("Look!"), enclosures=(picture,))
    again = read_document(write(Document("rss 2.0", title="F", items=(entry,)))).items[0]
    assert (again.enclosures, again.title, again.summary) == ((picture,), None, "Look!")


def test_cleaned_players_in_objects_are_clean_already() -> None:
    text = (
        '<p>A<object data="https://e.example/v.swf"><param name="x"></object> <object><embed src="/w.swf"></object></p>'
    )
    cleaned = clean_html(text, "https://e.example/") or ""
    assert clean_html(cleaned, None) == cleaned
    assert "https://e.example/v.swf" in cleaned
    assert "https://e.example/w.swf" in cleaned
