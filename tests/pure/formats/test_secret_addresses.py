"""An address that may hold a key or a person's name is told by its site only."""

from __future__ import annotations

import pytest

from headwater.formats.write.addresses import build_published_identity, may_hold_secret, public_address
from headwater.formats.write.hidden_addresses import hide_fetch_address
from headwater.model import Enclosure, Item, Person, SafeHtml


@pytest.mark.parametrize(
    "rest",
    [
        "feed?key=1",
        "feed#s3cret",
        "feed;jsessionid=1",
        "key=1/feed",
        "users/ada/feed",
        "~ada/feed",
        "@ada.rss",
        "ical/ada%40mail.example/basic",
        "f/1f0a9c7be24d11ef/rss",
        "f/f47ac10b-58cc-4372-a567-0e02b2c3d479.xml",
        "f/1234567890123456/rss",
    ],
)
def test_an_address_with_signs_of_a_secret_is_told_by_its_site(rest: str) -> None:
    assert may_hold_secret(f"https://a.example/{rest}")
    assert public_address(f"https://a.example/{rest}", None) == "https://a.example/"


def test_a_user_name_before_the_host_is_a_secret() -> None:
    assert public_address("https://ada:key@a.example/feed", None) == "https://a.example/"


@pytest.mark.parametrize("rest", ["feed.xml", "2026/11/18/feed", "news-of-the-world-2026.rss", "p/12345.rss", ""])
def test_an_ordinary_address_is_told_whole(rest: str) -> None:
    assert public_address(f"https://a.example/{rest}", "https://b.example/") == f"https://a.example/{rest}"


SITE = "https://a.example/blog"
KEY = "1f0a9c7be24d11ef"


@pytest.mark.parametrize(
    ("feed", "hidden", "shown"),
    [
        ("https://a.example/feed?key=1&u=2", "https://a.example/feed?key=1&u=2#7", "https://a.example/feed?p=7"),
        ("https://a.example/feed?key=1", "http://A.example/feed?key=1&p=7", "https://a.example/feed?key=12"),
        ("https://a.example/feed?a=1&key=2", "https://b.example/7.mp3?b=3&key=2", "https://b.example/7.mp3?mykey=2"),
        ("https://a.example/feed?auth=u-2", "https://b.example/to?u=https%3A%2F%2Fa.example%2F%3Fauth%3Du-2", ""),
        (
            "https://a.example/f?f=rss&k=1",
            "https://b.example/?u=https%3A%2F%2Fa.example%2Ff%3Ff%3Drss%26k%3D1",
            "",
        ),
        (f"https://a.example/feed?list={KEY}", f"https://a.example/l/{KEY}/7", f"https://a.example/l/{KEY}0/7"),
        (f"https://a.example/f/{KEY}/rss", f"https://b.example/{KEY}/7", f"https://b.example/0{KEY}/7"),
        (f"https://a.example/f/{KEY}.rss", f"https://a.example/f/{KEY}/7", f"https://a.example/f/{KEY}0"),
        (f"https://a.example/f/{KEY}/rss", f"https://a.example/f/{KEY}.", f"https://a.example/f/{KEY}0."),
        (f"https://a.example/f/{KEY}", f"https://a.example/f/{KEY}?p=7", f"https://a.example/f/{KEY}0"),
        ("https://a.example/users/ada", "https://a.example/users/ada?p=7", "https://a.example/users/ada/7"),
        ("https://a.example/c/ada@b.example/rss", "https://a.example/c/ada@b.example/7", "https://a.example/c/7"),
        ("https://ada:key@a.example/feed", "https://ada:key@a.example/feed#7", "https://a.example/feed.html"),
        ("https://a.example/feed.xml", "", "https://a.example/feed.xml#7"),
    ],
)
def test_items_of_a_secret_address_do_not_tell_it(feed: str, hidden: str, shown: str) -> None:
    for address in filter(None, (hidden, shown)):
        markup = SafeHtml(f'<p><a href="{address.replace("&", "&amp;")}">“more”</a> \\ <b>{address}</b></p>')
        files = (Enclosure(f"{address}/1.mp3" if "?" not in address else address), Enclosure("https://b.example/2.mp3"))
        made = Item(
            *(1, f"link:{address}", "", address, address, 1.0, True, None, 1.0),
            summary=markup,
            enclosures=files,
            image=address,
            people=(Person("Ada", url=address),),
        )
        found = hide_fetch_address(made, feed, SITE)
        identity = build_published_identity(made.identity, feed)
        if address == shown:
            assert (found, identity) == (made, address)
            continue
        assert identity.startswith("urn:uuid:")
        assert identity == build_published_identity(made.identity.removeprefix("link:"), feed)
        assert found.summary == f'<p><a href="{SITE}">“more”</a> \\ <b>{SITE}</b></p>'
        assert (found.title, found.link, found.people[0].url, found.image) == (SITE, SITE, SITE, None)
        assert found.enclosures == files[1:]
