"""Text arrives whole: mentions of elements, formulas, characters of other encodings, unknown types."""

from __future__ import annotations

import re
from html import unescape
from itertools import permutations
from xml.sax.saxutils import escape

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import NotAFeed
from headwater.formats import read
from headwater.formats.values.html import clean_html
from headwater.formats.values.text import html_to_text, repair_mojibake
from headwater.model import Entry


def read_rss_item(inside: str) -> Entry:
    (item,) = read(f"<rss><channel><item>{inside}</item></channel></rss>".encode()).items
    return item


def read_atom_entry(inside: str) -> Entry:
    (item,) = read(f'<feed xmlns="http://www.w3.org/2005/Atom"><entry>{inside}</entry></feed>'.encode()).items
    return item


@pytest.mark.parametrize(
    "name",
    """
    path title textarea template script style noscript xmp plaintext g vector svg math select object button video
    """.split(),  # noqa: SIM905 - shorter
)
@pytest.mark.parametrize("around", ["…", "<code>…</code>", "<p>…", "<svg><path d='M0'/></svg>…"])
def test_the_mention_of_an_element_does_not_end_a_text(name: str, around: str) -> None:
    text = f"The {around.replace('…', f'<{name}>')} element <b>draws</b>."
    item = read_rss_item(f"<description>{escape(text)}</description>")
    assert item.summary is not None
    assert f"&lt;{name}&gt;" in item.summary
    assert item.summary.removesuffix("</p>").endswith("<b>draws</b>.")


@pytest.mark.parametrize("name", ["path", "script", "style", "textarea", "svg", "iframe", "select"])
def test_the_mention_of_an_element_stays_in_a_title(name: str) -> None:
    expected = f"The <{name}> element and a reset"
    assert read_rss_item(f"<title>{escape(f'The <{name}> element <b>and</b> a reset')}</title>").title == expected
    assert read_atom_entry(f"<title type='html'>{escape(expected)}</title>").title == expected


@pytest.mark.parametrize("mention", "<script> <style> <!DOCTYPE <!-- <?php </3 <!' <![CDATA[".split())  # noqa: SIM905
@pytest.mark.parametrize("text", ["{} is first", "in {} between", "it ends with {}"])
def test_a_mention_stays_at_the_start_in_the_middle_and_at_the_end(mention: str, text: str) -> None:
    text = text.format(mention)
    for published in (text, escape(text)):
        assert html_to_text(published) == text
        assert clean_html(published, None) == escape(text)


@pytest.mark.parametrize("name", "head body html meta link input form label button".split())  # noqa: SIM905
def test_an_element_that_shows_nothing_is_named_behind_a_word_and_in_code(name: str) -> None:
    assert clean_html(f"<p>The <{name}> element, <code><{name}></code></p>end", None) == (
        f"<p>The &lt;{name}&gt; element, <code>&lt;{name}&gt;</code></p>end"
    )


def test_pages_and_forms_that_were_cut_off_show_no_tags() -> None:
    assert clean_html("<html><head><meta><link></head><body><p>a</p><label>b", None) == "<p>a</p>b"
    assert clean_html("<select><option>one<option>two</select>", None) == "onetwo"


@pytest.mark.parametrize(
    "mention",
    [
        *("<https://example.org/a>", "<me@example.org>", "<stdio.h>", "<sys/types.h>", "Map<K, V>", "Rc<Cell<T>>"),
        *("<a,b>", "<typename T>", "<your name>", "<your-name>", "<Ctrl+C>", "fn<T: Clone>(x)", "if a<b, c>d"),
        *("if (a<b) x<y; z", "a[i<n] = a<b&&c>d", "<%= x %>"),
    ],
)
@pytest.mark.parametrize("text", ["one {} two <b>three</b>", "<p>one</p> <code>{}</code> two", "{}"])
def test_addresses_types_and_blanks_in_angle_brackets_stay(mention: str, text: str) -> None:
    shown = unescape(re.sub("<[^>]*>", "", clean_html(text.format(mention), None) or ""))
    assert shown == unescape(re.sub("</?(?:b|p|code)>", "", text)).format(mention)
    assert html_to_text(mention) == mention


@pytest.mark.parametrize(
    "words",
    [
        *("for x<y we are done", "if a<b and c<d or e>f", "x <y ", "it's n<p, so p<q holds"),
        *("x<y && y>z", "if a<b then c>d", "2<i or i>n"),
    ],
)
@pytest.mark.parametrize("text", ["{}", "<p>one {}</p><p>two</p>", '{} <a>three</a> "four"'])
def test_comparisons_stay_in_texts(words: str, text: str) -> None:
    shown = unescape(re.sub("<[^>]*>", "", clean_html(text.format(words), None) or ""))
    assert shown == re.sub("</?[ap]>", "", text).format(words).strip()


def test_a_text_that_was_cut_off_within_a_tag_shows_no_tag() -> None:
    for end in ('<a href="https://example.org/', '<x-card title="a b', "<table clas", "<img "):
        assert clean_html(f"<p>one {end}", None) == "<p>one </p>"


def test_comparisons_stay_in_titles() -> None:
    assert html_to_text("if a<b and c>d <i>then</i> e") == "if a<b and c>d then e"


def test_declarations_and_comments_that_are_not_mentioned_are_removed() -> None:
    left = "<!DOCTYPE html><p>a<!-- <path> <b> -->b<?xml:namespace prefix = o /><![if !supportLists]>c<![endif]></p>"
    assert clean_html(left, None) == "<p>abc</p>"
    assert clean_html("use <!DOCTYPE html> always", None) == "use &lt;!DOCTYPE html&gt; always"
    assert html_to_text("A title<!-- broken off") == "A title"
    assert clean_html("<p>a</p><!--[if gte mso 9]><xml><w:Word", None) == "<p>a</p>"
    assert clean_html("<![CDATA[<p>wrapped <b>twice</b></p>]]>", None) == "<p>wrapped <b>twice</b></p>"


MENTIONS = "<div> <h1> <a> <span> <script> <title> <svg> <path> <textarea> <T> <!-- <?xsl".split()  # noqa: SIM905


@given(words=st.lists(st.sampled_from(["One", "two & three", "d'être", "5 < 6", *MENTIONS]), min_size=1, max_size=6))
def test_every_field_keeps_the_words_and_mentions_of_a_title(words: list[str]) -> None:
    text = " ".join(["The", *words])
    once, twice = escape(text), escape(escape(text))
    item = read_rss_item(f"<title>{once}</title><description>{twice}</description>")
    assert (item.title, item.summary) == (text, once)
    assert read_rss_item(f"<title>{twice}</title>").title == text
    entry = read_atom_entry(f"<title>{once}</title><summary>{once}</summary><content type='html'>{twice}</content>")
    assert (entry.title, entry.summary, entry.content) == (text, once, once)
    assert read_atom_entry(f"<title type='html'>{twice}</title>").title == text
    fields = {"id": "1", "title": text, "content_text": text, "summary": text}
    (item,) = read(orjson.dumps({"version": "https://jsonfeed.org/version/1.1", "items": [fields]})).items
    assert (item.title, item.content, item.summary) == (text, once, once)


def test_code_in_a_title_is_removed_and_prose_between_mentions_stays() -> None:
    assert html_to_text("A<script>alert(1)</script> title") == "A title"
    assert html_to_text("From <script> to </script>") == "From  to"


def test_both_tags_of_a_mentioned_title_keep_the_text_between_them() -> None:
    assert clean_html("<code><title></code> and <code></title></code> end", None) == (
        "<code>&lt;title&gt;</code> and <code></code> end"
    )


@pytest.mark.parametrize(
    "removed",
    [
        "<script>alert(1)</script>",
        "<style>p {}</style>",
        "<head><title>a <b></title></head>",
        "<svg><style>p {}</style><script>x()</script><path d='M0'></svg>",
        "<svg viewBox='0 0 1 1'><g><path d='M0'/></g></svg>",
        "<template><p>x</p></template>",
    ],
)
def test_elements_that_are_not_only_mentioned_are_still_removed(removed: str) -> None:
    assert clean_html(f"<p>a</p>{removed}<p>b</p>", None) == "<p>a</p><p>b</p>"


def test_formulas_stay_without_what_could_run() -> None:
    formula = '<math display="block"><msup><mi>x</mi><mn>2</mn></msup><mo stretchy="false">)</mo></math>'
    assert clean_html(f"<p>{formula}</p>", None) == f"<p>{formula}</p>"
    hostile = "<math onclick='a()' href='javascript:a()'><mi xlink:href='javascript:a()'>x</mi>"
    hostile += "<annotation>x</annotation></math>"
    assert clean_html(hostile, None) == "<math><mi>x</mi></math>"
    linked = '<math><mrow {}="{}"><mi>x</mi></mrow></math>'
    for name in ("href", "xlink:href"):
        resolved = linked.format(name, "https://example.org/x")
        assert clean_html(linked.format(name, "/x"), "https://example.org/feed") == resolved


@pytest.mark.parametrize(
    ("published", "meant"),
    [
        ("&#151;", "—"),
        ("a &#x85;", "a …"),
        ("\x97", "—"),
        ("â€\x9d", "”"),
        ("â€&#157;", "”"),
        ("â€™", "’"),
        ("Ã©", "é"),
        ("FÃ³rmula de SÃ£o Paulo", "Fórmula de São Paulo"),
        ("Ã‰tat, Ã€ propos, GroÃŸ, Ãœber, MÃ‰XICO", "État, À propos, Groß, Über, MÉXICO"),
        ("Ã–sterreich, Ã…ngström", "Österreich, Ångström"),
        ("cafÃ© Â© 2024", "café © 2024"),
        ("Ã\x89tÃ\xa9", "Été"),
        ("ã\x82\xab", "カ"),
        ("\x81", "\ufffd"),
        ("ÃƒÂ© Ã‚Â© Ãƒâ€°", "é © É"),
        ("Ð¿Ñ€Ð¸Ð²ÐµÑ‚", "привет"),
    ],
)
def test_characters_of_windows_1252_are_mended_wherever_they_stand(published: str, meant: str) -> None:
    text = f"it {published} is"
    item = read_rss_item(
        f"<title>{text}</title><category>{text}</category><author>{text}</author><description>{text}</description>"
        f"<content>&lt;p&gt;{text}&lt;/p&gt;</content>"
    )
    expected = f"it {meant} is"
    assert (item.title, item.categories) == (expected, (expected,))
    assert (item.summary, item.content) == (expected, f"<p>{expected}</p>")
    entry = read_atom_entry(f"<title>{text}</title><summary type='text'>{text}</summary>")
    assert (entry.title, entry.summary) == (expected, expected)


@pytest.mark.parametrize("body", [b"it &#151; is", "it \x97 is".encode(), b"it &#x97; is"])
def test_a_dash_is_mended_in_json_and_every_field_of_xml(body: bytes) -> None:
    for field in (b"title", b"description", b"dc:creator", b"category"):
        xml = b"<rss><channel><title>t</title><item><%b>%b</%b></item></channel></rss>"
        (item,) = read(xml % (field, body, field)).items
        shown = {b"title": item.title, b"description": item.summary, b"dc:creator": "".join(item.authors)}
        assert shown.get(field, "".join(item.categories)) == "it — is"
    document = {"version": "https://jsonfeed.org/version/1.1", "items": [{"id": "1", "content_text": "it \x97 is"}]}
    assert read(orjson.dumps(document)).items[0].content == "it — is"


def test_a_letter_whose_second_byte_became_a_blank_is_mended() -> None:
    assert repair_mojibake("l’été Ã  la plage") == "l’été à la plage"


@pytest.mark.parametrize(
    "text",
    [
        "café\xa0»",
        "«\xa0voilà\xa0»",
        "AMANHÃ”",
        "IRMÃ\xa0DE",
        "IRMÃ\xa0de",
        "MANHÃ–e",
        "AMANHÃ… e",
        "«AMANHÃ»",
        "São Paulo",
        "Ângela",
        "5\xa0°C à\xa0…",
        "IRMÃ  DE",
        "ÑÑÑ Ðð",
    ],
)
def test_words_that_only_look_like_mojibake_stay(text: str) -> None:
    assert repair_mojibake(text) == text


@given(st.text(st.characters(codec="cp1252", exclude_characters="ÂÃÐÑ\x81\x8d\x8f\x90\x9d"), max_size=60))
def test_text_without_control_characters_stays(text: str) -> None:
    if "â€" not in text:
        assert repair_mojibake(text) == text


@given(st.text(st.sampled_from("éèàüßñçøåÉÖ’“”–—…€ abc")))
def test_utf8_read_as_latin_1_is_read_as_meant(text: str) -> None:
    assert repair_mojibake(text.encode().decode("latin-1")) == text or not text


@pytest.mark.parametrize(
    "kind", ["application/markdown", "foo/bar", "markdown", "application/x-text", "text/x-unknown"]
)
def test_text_of_an_unknown_type_is_text(kind: str) -> None:
    assert read_atom_entry(f'<content type="{kind}">Test</content>').content == "Test"


def test_binary_content_is_still_decoded_or_dropped() -> None:
    assert read_atom_entry('<content type="application/octet-stream">PGI+aGk8L2I+</content>').content == "<b>hi</b>"
    assert read_atom_entry('<content type="image/png">iVBORw0KGgo=</content>').content is None


@pytest.mark.parametrize("version", ["1.0", "1", "https://example.org/v1", 1.1])
def test_json_with_another_version_and_items_is_read(version: object) -> None:
    body = orjson.dumps({"version": version, "items": [{"id": "1", "title": "One"}, {"url": "https://a/2"}]})
    assert [item.title for item in read(body).items] == ["One", None]


@pytest.mark.parametrize("items", [[1, 2], [{"sku": 5, "price": 3}], {"a": 1}])
def test_other_json_with_a_version_is_refused(items: object) -> None:
    with pytest.raises(NotAFeed):
        read(orjson.dumps({"version": "1.0", "items": items}))


_LINKS = [
    '<link rel="enclosure" type="audio/mpeg" href="https://a/1.mp3">1.mp3</link>',
    '<link rel="Enclosure" href="https://a/2.mp3"/>',
    '<link rel="alternate" href="https://a/page"/>',
    '<link rel="self" href="https://a/self"/>',
]


@pytest.mark.parametrize("links", list(permutations(_LINKS)))
def test_an_enclosure_never_beats_the_alternate_link(links: tuple[str, ...]) -> None:
    entry = read_atom_entry("".join(links))
    assert entry.link == "https://a/page"
    assert {one.url for one in entry.enclosures} == {"https://a/1.mp3", "https://a/2.mp3"}


def test_content_elsewhere_of_a_media_type_is_a_file() -> None:
    entry = read_atom_entry('<content type="video/mp4" src="https://a/1.mp4"/><link href="https://a/page"/>')
    assert entry.link == "https://a/page"
    assert [(one.url, one.type) for one in entry.enclosures] == [("https://a/1.mp4", "video/mp4")]
    picture = read_atom_entry('<content type="image/png" src="https://a/1.png"/>')
    assert picture.link == picture.image == "https://a/1.png"


@pytest.mark.parametrize("name", ["template", "noscript", "textarea", "title"])
def test_text_between_a_mention_and_a_real_element_stays(name: str) -> None:
    text = clean_html(f"The <{name}> element: <{name}>gone</{name}> the end", None) or ""
    assert text.startswith(f"The &lt;{name}&gt; element:")
    assert text.endswith("the end")
