"""Media in texts: players leave links, lazy pictures are shown, pixels are dropped, footnotes stay linked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html

from headwater.formats.values.html import ID_PREFIX, clean_html, find_first_picture

BASE = "https://example.org/post/"


def clean(text: str) -> str:
    return (clean_html(text, BASE) or "").replace(' rel="noopener noreferrer"', "")


@pytest.mark.parametrize(
    ("address", "page"),
    [
        ("https://www.youtube-nocookie.com/embed/abc?rel=0", "https://www.youtube.com/watch?v=abc"),
        ("//www.youtube.com/embed/videoseries?list=PL1", "https://www.youtube.com/playlist?list=PL1"),
        ("https://www.youtube.com/v/abc", "https://www.youtube.com/watch?v=abc"),
        ("https://player.vimeo.com/video/7?h=1", "https://vimeo.com/7"),
        ("https://www.dailymotion.com/embed/video/x7", "https://www.dailymotion.com/video/x7"),
        ("https://open.spotify.com/embed/episode/7", "https://open.spotify.com/episode/7"),
        (
            "https://w.soundcloud.com/player/?url=https%3A//api.soundcloud.com/tracks/7",
            "https://api.soundcloud.com/tracks/7",
        ),
        ("https://archive.org/embed/film", "https://archive.org/details/film"),
        ("https://tube.example/videos/embed/7?x=1", "https://tube.example/videos/watch/7"),
        ("https://any.example/widget?a=1&amp;b=2", "https://any.example/widget?a=1&amp;b=2"),
        ("/maps/1", "https://example.org/maps/1"),
    ],
)
def test_a_player_leaves_a_link_to_its_page(address: str, page: str) -> None:
    for text in (
        f'<iframe src="{address}" title="A &amp; B">no frames</iframe>',
        f"<IFRAME TITLE='A & B' SRC='{address}'>",
    ):
        shown = clean(f"<p>before</p>{text}<p>after</p>")
        assert f'<a href="{page}">' in shown
        assert "A &amp; B</a>" in shown
        assert shown.startswith("<p>before</p>")
        assert shown.endswith("<p>after</p>")
        assert "no frames" not in shown


@pytest.mark.parametrize("name", ["movie", "Src"])
def test_a_player_whose_address_is_a_parameter_leaves_a_link(name: str) -> None:
    text = f'<object width="9"><param name="x" value="1"><param name="{name}" value="https://www.youtube.com/v/abc"></object>'
    assert '<a href="https://www.youtube.com/watch?v=abc">' in clean(text)
    assert clean('<object><param name="movie" value="javascript:x()"></object>') == ""


def test_a_video_shows_its_thumbnail_where_one_is_known() -> None:
    shown = clean('<iframe src="https://www.youtube.com/embed/abc"></iframe>')
    assert '<img src="https://i.ytimg.com/vi/abc/hqdefault.jpg" alt=""> YouTube video</a>' in shown
    assert find_first_picture(shown) == "https://i.ytimg.com/vi/abc/hqdefault.jpg"


@pytest.mark.parametrize(
    "text",
    [
        '<iframe src="javascript:alert(1)"></iframe>',
        '<iframe src="data:text/html,x"></iframe>',
        '<iframe src="https://www.googletagmanager.com/ns.html?id=1" height="0" width="0"></iframe>',
        '<iframe src="about:blank"></iframe>',
        "<iframe></iframe>",
    ],
)
def test_frames_that_show_nothing_leave_nothing(text: str) -> None:
    assert clean(f"a{text}b") == "ab"


@pytest.mark.parametrize(
    "text",
    [
        '<img src="data:image/gif;base64,R0" data-src="/a.png">',
        '<img class="lazy" data-lazy-src="/a.png">',
        '<img src="/wait.gif?v=1" data-lazy-src="/a.png"><noscript><img src="/a.png"></noscript>',
        '<img src="/img/placeholder.svg" data-original="/a.png">',
        '<img src="/blank.gif" data-srcset="/s.png 300w, /a.png 1200w, /l.png 5000w">',
        '<img srcset="/s.png 1x, /a.png 2x">',
        '<picture><source srcset="/a.png 800w"><img></picture>',
        '<img src="data:image/gif;base64,R0"><noscript><img src="/a.png"></noscript>',
        '<img src="data:image/gif;base64,R0" data-src="/a.png"><noscript><img src="/a.png"></noscript>',
        '<NOSCRIPT>Please enable scripts: <img src="/a.png"></NOSCRIPT>',
    ],
)
def test_a_lazy_picture_is_shown_once(text: str) -> None:
    shown = clean(f"<p>x{text}y</p>")
    assert shown.count("<img") == 1
    assert find_first_picture(shown) == "https://example.org/a.png"
    assert "Please" not in shown


@pytest.mark.parametrize(
    "text",
    [
        '<img src="https://feeds.feedburner.com/~r/blog/~4/x" height="1" width="1">',
        '<img src="https://any.example/open?id=7" width="1" height="1px">',
        "<img src=https://any.example/open?id=7 width=1 height=1/>",
        '<img src="https://any.example/open?id=7" style="display:none">',
        '<img src="https://pixel.wp.com/b.gif?x=1">',
        '<noscript><img src="https://stats.example/matomo.php?idsite=1"></noscript>',
    ],
)
def test_tracking_pixels_are_dropped(text: str) -> None:
    assert clean(f"<p>x{text}y</p>") == "<p>xy</p>"


def test_pictures_without_an_address_are_dropped_unless_they_have_a_text() -> None:
    assert clean('<p>x<img class="lazy">y</p>') == "<p>xy</p>"
    assert clean('<p>x<img alt="The harbour">y</p>') == '<p>x<img alt="The harbour">y</p>'
    picture = '<img src="https://a.example/b.jpg">'
    assert clean(f'<img class="lazy"><noscript>{picture}</noscript>') == picture


def test_text_behind_a_frame_without_end_stays() -> None:
    frame = '<iframe src="https://a.example/1"{}'
    for ending in ("/>", " />", ">"):
        shown = clean(f"<p>a</p>{frame.format(ending)}<p>text</p>{frame.format('></iframe>')}<p>b</p>")
        assert shown.count("a.example/1") == 2
        assert "<p>text</p>" in shown
    assert "fallback" not in clean(frame.format("><p>fallback</p></iframe>"))


@pytest.mark.parametrize("tag", ["script", "style", "title", "textarea", "template"])
@pytest.mark.parametrize("rest", ["/", ' src="https://a.example/x.js" /', " async/"])
def test_text_behind_an_element_that_ends_in_its_start_tag_stays(tag: str, rest: str) -> None:
    assert clean(f"<p>a</p><{tag}{rest}><p>b</p>") == "<p>a</p><p>b</p>"


def test_texts_and_links_of_drawings_stay() -> None:
    head = '<svg viewBox="0 0 9 9"><title>Rivers</title><style>text {}</style><path d="M0"/>'
    assert clean(f"<p>a{head}<text>Rhine</text><text>Maas</text></svg>b</p>") == "<p>a Rivers Rhine Maas b</p>"
    link = "<a xlink:href='/rhine' xlink:title='x'><text>Rhine</text></a>"
    assert clean(f"{head}{link}</svg>") == 'Rivers <a href="https://example.org/rhine"> Rhine </a>'
    assert clean(f"{head}<desc>Five <i>of</i> them</desc></svg>") == "Rivers Five of them"
    assert clean("<p>a <svg><circle r='1'/></svg>b</p>") == "<p>a b</p>"


def test_links_and_players_for_readers_without_scripts_stay() -> None:
    poll = '<a href="https://poll.example/7">Take the poll</a>'
    assert clean(f"<p>x <noscript>{poll} now</noscript> y</p>") == f"<p>x {poll} now y</p>"
    player = '<iframe src="https://player.vimeo.com/video/7"></iframe>'
    assert clean(f"<noscript>{player}</noscript>").count("https://vimeo.com/7") == 1
    assert clean(f"{player}<noscript>{player}</noscript>").count("https://vimeo.com/7") == 1


def test_videos_that_would_play_by_themselves_can_be_played() -> None:
    assert clean('<video src="https://a.example/v.mp4" autoplay loop></video>') == (
        '<video src="https://a.example/v.mp4" loop="" controls=""></video>'
    )


def test_an_ordinary_picture_stays_as_it_was() -> None:
    text = '<img src="https://example.org/a.png" alt="A" width="1" height="300">'
    assert clean(text) == text


def test_footnotes_marked_by_names_stay_linked() -> None:
    text = '<a href="#n1">1</a> <a name="n1">Note</a> <a name="other">x</a> <a id="n2" name="n2" href="#n2">y</a>'
    assert clean(text) == ('<a href="#hw-n1">1</a> <a id="hw-n1">Note</a> <a>x</a> <a id="hw-n2" href="#hw-n2">y</a>')


def test_a_pixel_sized_by_its_style_is_dropped() -> None:
    assert clean('a<img src="/t.gif" style="width:1px; height: 1px !important">') == "a"
    assert "<img" in clean('<img src="/t.gif" style="width:100%;max-width:1px00">')
    assert "<img" in clean('<img src="/rule.gif" style="width:1px;height:300px">')
    assert "<img" in clean('<img src="/t.gif" style="border-width:1px;width:40px">')


def test_footnotes_stay_linked_under_a_prefix_and_other_ids_go() -> None:
    text = (
        '<p>Fact<sup id="fnref:1"><a href="#fn:1">1</a></sup>, <a href="#elsewhere">e</a></p>'
        '<ol id="login"><li id="fn:1">Note <a href="#fnref:1">back</a></li></ol><p>written id="fn:1"</p>'
    )
    once = clean(text)
    assert once == (
        '<p>Fact<sup id="hw-fnref:1"><a href="#hw-fn:1">1</a></sup>, <a href="https://example.org/post/#elsewhere">e</a></p>'
        '<ol><li id="hw-fn:1">Note <a href="#hw-fnref:1">back</a></li></ol><p>written id="fn:1"</p>'
    )
    assert clean(once) == once


PIECES = st.sampled_from(
    [
        *(
            '<p id="a">',
            '<p id=a title=\'"> id="b"\'>',
            '<a href="#a">',
            '<a href="#b" id="c">',
            "</p>",
            "</a>",
            "<math id=a>",
        ),
        *(
            "<iframe src=//e.example/a>",
            '<iframe srcdoc="<p id=a>">',
            "</iframe>",
            "<noscript>",
            "</noscript>",
            "<noscript",
        ),
        *(
            '<img src="x" onerror=alert(1)>',
            "<img srcset='javascript:alert(1) 2x'>",
            "<img data-src='\" onerror=alert(1) x=\"'>",
        ),
        *(
            "<script>alert(1)</script>",
            "<svg><style>",
            "<iframe title='<img src=x onerror=alert(1)>' src=//a>",
            "<",
            ">",
            '"',
            "text",
        ),
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_no_script_and_no_foreign_id_survives(text: str) -> None:
    shown = clean_html(text, BASE)
    for element in html.fragment_fromstring(shown or "", create_parent=True).iter():
        attributes = dict(element.attrib) if isinstance(element.tag, str) else {}
        assert element.tag not in ("script", "iframe", "style", "svg", "noscript")
        assert not [name for name in attributes if name.startswith("on")]
        assert str(attributes.get("id", ID_PREFIX)).startswith(ID_PREFIX)
        assert not [value for value in attributes.values() if str(value).strip().lower().startswith("javascript:")]


def test_footnotes_stay_linked_where_links_name_the_whole_address_of_the_page() -> None:
    page = "https://e.org/post"
    text = f'<p>A<a href="{page}#fn:1" id="fnref:1">1</a></p><p id="fn:1">Note <a href="{page}#fnref:1">back</a></p>'
    cleaned = clean_html(text, "https://e.org/feed") or ""
    assert 'href="#hw-fn:1" id="hw-fnref:1"' in cleaned
    assert '<p id="hw-fn:1">Note <a href="#hw-fnref:1"' in cleaned


def test_a_link_to_another_page_is_not_taken_for_a_footnote() -> None:
    text = '<h2 id="intro">Intro</h2><a href="https://other.org/guide#intro">guide</a>'
    assert clean_html(text, "https://e.org/feed") == (
        '<h2>Intro</h2><a href="https://other.org/guide#intro" rel="noopener noreferrer">guide</a>'
    )


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("<amp-img src=/a.jpg width=300></amp-img> x", '<img src="/a.jpg" width="300"> x'),
        ("<lite-youtube videoid=k7></lite-youtube> x", 'href="https://www.youtube.com/watch?v=k7"'),
        ("<amp-youtube data-videoid=k7></amp-youtube> x", 'src="https://i.ytimg.com/vi/k7/hqdefault.jpg"'),
        ("<lite-vimeo videoid=7></lite-vimeo> x", 'href="https://vimeo.com/7"'),
        ("<amp-iframe src=https://e.org/map></amp-iframe> x", 'href="https://e.org/map"'),
        ("<amp-youtube data-live-channelid=c></amp-youtube> x", "x"),
    ],
)
def test_elements_that_scripts_turn_into_pictures_and_players_are_read(text: str, kept: str) -> None:
    assert kept in (clean_html(text, None) or "")
