"""Rules for well-known sites: pages and the feeds derived from them."""

from __future__ import annotations

import pytest

from headwater.fetch.site_feeds import SITE_RULES, derive_lookup, derive_page_feeds, derive_site_feeds, read_lookup

CHANNEL = "UCBR8-60-B28hp2BmDPdntcQ"
VIDEOS = "https://www.youtube.com/feeds/videos.xml"
EXAMPLES = {
    f"https://www.youtube.com/channel/{CHANNEL}": f"{VIDEOS}?channel_id={CHANNEL}",
    f"m.youtube.com/channel/{CHANNEL}/videos?view=0": f"{VIDEOS}?channel_id={CHANNEL}",
    "https://www.youtube.com/playlist?list=PLbpi6ZahtOH6Blw": f"{VIDEOS}?playlist_id=PLbpi6ZahtOH6Blw",
    "https://www.youtube.com/watch?v=abc&list=PLbpi6ZahtOH6Blw&index=2": f"{VIDEOS}?playlist_id=PLbpi6ZahtOH6Blw",
    "https://music.youtube.com/playlist?list=PLbpi6ZahtOH6Blw": f"{VIDEOS}?playlist_id=PLbpi6ZahtOH6Blw",
    "https://www.youtube.com/user/youtube": f"{VIDEOS}?user=youtube",
    "https://www.reddit.com/r/rss/": "https://www.reddit.com/r/rss/.rss",
    "old.reddit.com/r/rss/new/?sort=x": "https://www.reddit.com/r/rss/new/.rss",
    "https://www.reddit.com/r/rss+opml": "https://www.reddit.com/r/rss+opml/.rss",
    "https://www.reddit.com/r/rss/top/?sort=top&t=week": "https://www.reddit.com/r/rss/top/.rss?t=week",
    "https://www.reddit.com/user/someone/m/news": "https://www.reddit.com/user/someone/m/news/.rss",
    "https://www.reddit.com/domain/example.org/": "https://www.reddit.com/domain/example.org/.rss",
    "https://reddit.com/u/spez": "https://www.reddit.com/user/spez/.rss",
    "https://www.reddit.com/r/rss/comments/1abc/a_title/": "https://www.reddit.com/r/rss/comments/1abc/.rss",
    "https://bsky.app/profile/bsky.app": "https://bsky.app/profile/bsky.app/rss",
    "https://bsky.app/profile/did:plc:z72i7/post/3k": "https://bsky.app/profile/did:plc:z72i7/rss",
    "https://github.com/python/cpython": "https://github.com/python/cpython/releases.atom",
    "https://github.com/python/cpython.git": "https://github.com/python/cpython/releases.atom",
    "https://github.com/python/cpython/tags": "https://github.com/python/cpython/tags.atom",
    "https://github.com/python/cpython/releases/tag/v3.11": "https://github.com/python/cpython/releases.atom",
    "https://github.com/nodejs/node/discussions/7": "https://github.com/nodejs/node/discussions.atom",
    "https://github.com/python/cpython/commits/3.12/": "https://github.com/python/cpython/commits/3.12.atom",
    "https://github.com/python": "https://github.com/python.atom",
    "https://gitlab.com/gitlab-org/gitlab/-/tags": "https://gitlab.com/gitlab-org/gitlab/-/tags?format=atom",
    "https://gitlab.gnome.org/GNOME/gtk": "https://gitlab.gnome.org/GNOME/gtk/-/releases.atom",
    "https://gitlab.com/gitlab-org": "https://gitlab.com/gitlab-org.atom",
    "gitlab.com/a/b/c/-/commits/main": "https://gitlab.com/a/b/c/-/commits/main?format=atom",
    "https://astralcodexten.substack.com/p/open-thread": "https://astralcodexten.substack.com/feed",
    "https://open.substack.com/pub/someone/p/a-title?r=1": "https://someone.substack.com/feed",
    "https://substack.com/@someone": "https://someone.substack.com/feed",
    "https://medium.com/@someone/a-title-123": "https://medium.com/feed/@someone",
    "https://medium.com/better-programming": "https://medium.com/feed/better-programming",
    "https://medium.com/search-engines/a-title": "https://medium.com/feed/search-engines",
    "https://medium.com/netflix-techblog/tagged/python": "https://medium.com/feed/netflix-techblog/tagged/python",
    "https://medium.com/tag/rss/latest": "https://medium.com/feed/tag/rss",
    "https://someone.medium.com/": "https://someone.medium.com/feed",
    "https://podcasts.google.com/feed/aHR0cHM6Ly9leGFtcGxlLm9yZy9mZWVk": "https://example.org/feed",
}
PLAIN = (
    "https://example.org/",
    "https://youtube.com/",
    "https://www.youtube.com/watch?v=abc",
    "https://www.youtube.com/playlist?list=WL",
    f"{VIDEOS}?channel_id={CHANNEL}",
    "https://www.reddit.com/r/rss/.rss",
    "https://github.com/features",
    "https://github.com/settings/profile",
    "https://github.com/python/cpython/releases.atom",
    "https://github.com/python.atom",
    "https://evilgithub.com/a/b",
    "https://github.com.evil.example/a/b",
    "https://medium.com/feed/@someone",
    "https://medium.com/search?q=rss",
    "https://gitlab.com/explore",
    "https://podcasts.google.com/feed/bm90IGFuIGFkZHJlc3M",
    "http://[broken",
    "",
)


@pytest.mark.parametrize(("page", "feed"), EXAMPLES.items())
def test_the_feed_of_a_page_is_derived(page: str, feed: str) -> None:
    found = derive_site_feeds(page)
    assert (found[0].url, found[0].how) == (feed, "rule")
    assert derive_lookup(page) is None


@pytest.mark.parametrize("page", PLAIN)
def test_nothing_is_derived_from_other_addresses(page: str) -> None:
    assert derive_site_feeds(page) == []
    assert derive_lookup(page) is None


def test_every_rule_has_an_example() -> None:
    pages = [*EXAMPLES, "https://podcasts.apple.com/us/podcast/x/id1200361736", "https://overcast.fm/itunes617416468/x"]
    plain = [page.partition("://")[2] if "://" in page else page for page in pages]
    places = [page.removeprefix("www.").rstrip("/") for page in plain]
    places += [place.partition("?")[0].rstrip("/") for place in places]
    unused = [rule.site for rule in SITE_RULES if not any(rule.page.fullmatch(place) for place in places)]
    assert unused == []


def test_directories_of_podcasts_are_looked_up() -> None:
    wanted = ("https://itunes.apple.com/lookup?id=617416468&entity=podcast", "feedUrl")
    assert derive_lookup("https://podcasts.apple.com/us/podcast/atp/id617416468?mt=2") == wanted
    for place in (
        "overcast.fm/itunes617416468/accidental-tech-podcast",
        "pca.st/itunes/617416468",
        "castro.fm/itunes/617416468",
    ):
        assert derive_lookup(f"https://{place}") == wanted
    answer = b'{"resultCount": 2, "results": [{"feedUrl": "https://a.example/f"}, {"feedUrl": "file:///etc/passwd"}]}'
    assert [one.url for one in read_lookup(answer, "feedUrl")] == ["https://a.example/f"]
    assert read_lookup(b"<html>", "feedUrl") == []


def test_pages_of_channels_and_of_the_fediverse_name_their_feed() -> None:
    body = b'<meta itemprop="identifier" content="%s">' % CHANNEL.encode()
    assert derive_page_feeds("https://www.youtube.com/@someone", body)[0].url == f"{VIDEOS}?channel_id={CHANNEL}"
    body = b'{"externalChannelId":"%s"}' % CHANNEL.encode()  # of a video
    assert derive_page_feeds("https://www.youtube.com/watch?v=abc", body)[0].url == f"{VIDEOS}?channel_id={CHANNEL}"
    assert derive_page_feeds("https://www.youtube.com/@someone", b"nothing") == []
    for page, feeds in {
        "https://mastodon.social/@Gargron": ["https://mastodon.social/@Gargron.rss"],
        "https://a.example/@b/tagged/c": ["https://a.example/@b/tagged/c.rss", "https://a.example/@b.rss"],
        "https://a.example/@b/media": ["https://a.example/@b/media.rss", "https://a.example/@b.rss"],
        "https://a.example/@b@other.example": ["https://other.example/@b.rss"],
        "https://a.example/@b@other": [],
    }.items():
        assert [found.url for found in derive_page_feeds(page, b"")] == feeds
    (found,) = derive_page_feeds("http://127.0.0.1:8080/tags/rss", b"")
    assert found.url == "http://127.0.0.1:8080/tags/rss.rss"
