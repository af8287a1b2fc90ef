"""Derives the feeds of well-known sites from the addresses of their pages: one table of rules.

YouTube, Reddit, Mastodon, Bluesky, GitHub, GitLab, Substack, Medium and directories of podcasts have feeds, but do not
always say where. A rule is a guess: discovery asks for the address like for any other and offers it if it is a feed.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from headwater.fetch.page_links import FeedCandidate

# Paths of GitHub and Medium that are not names of people or publications.
_GITHUB_PAGES = (
    "about|apps|collections|customer-stories|enterprise|events|explore|features|issues|join|login|marketplace|new"
    "|notifications|orgs|pricing|pulls|search|security|settings|site|sponsors|stars|team|topics|trending"
)
_MEDIUM_PAGES = "about|creators|feed|jobs-at-medium|m|me|membership|policy|search|tag"
_NAME = r"[\w.-]+"


@dataclass(frozen=True, slots=True)
class SiteRule:
    """Pages of a site, and the addresses of their feeds with the groups of `page` filled in.

    `page` is matched with host, path and query, without “www.” and a slash at the end. With `key` the address is not a
    feed but JSON, whose values under that key are the feeds.
    """

    site: str
    page: re.Pattern[str]
    feeds: tuple[str, ...]
    key: str | None = None


def _rule(site: str, page: str, *feeds: str, key: str | None = None) -> SiteRule:
    return SiteRule(site, re.compile(page, re.IGNORECASE), feeds, key)


_YOUTUBE = r"(?:m\.|music\.)?youtube\.com"
_REDDIT = r"(?:old\.|new\.|np\.)?reddit\.com"
_REDDIT_LISTS = r"r/[\w+]+|user/[\w-]+/m/\w+|domain/[\w.-]+"
_GITLAB_PAGES = "admin|dashboard|explore|groups|help|projects|search|users|-"
_GITLAB = rf"(?P<host>gitlab\.[\w.-]+)/(?P<project>(?!(?:{_GITLAB_PAGES})/)[\w.-]+(?:/(?!-/)[\w.-]+)+)"

SITE_RULES: tuple[SiteRule, ...] = (
    _rule(
        "YouTube channel",
        rf"{_YOUTUBE}/channel/(?P<id>UC[\w-]{{22}})(?:/.*)?(?:\?.*)?",
        "https://www.youtube.com/feeds/videos.xml?channel_id={id}",
    ),
    _rule(
        "YouTube playlist",
        rf"{_YOUTUBE}/(?:playlist|watch|embed/videoseries)\?(?:.*&)?list=(?P<id>(?!WL|LL)[\w-]{{10,}})(?:&.*)?",
        "https://www.youtube.com/feeds/videos.xml?playlist_id={id}",
    ),
    _rule(
        "YouTube user",
        rf"{_YOUTUBE}/user/(?P<id>{_NAME})(?:/.*)?",
        "https://www.youtube.com/feeds/videos.xml?user={id}",
    ),
    _rule("Reddit", rf"{_REDDIT}/(?P<place>{_REDDIT_LISTS})", "https://www.reddit.com/{place}/.rss"),
    _rule(
        "Reddit",
        rf"{_REDDIT}/(?P<place>{_REDDIT_LISTS})/(?P<order>top|controversial)/?\?(?:.*&)?t=(?P<span>[a-z]+)(?:&.*)?",
        "https://www.reddit.com/{place}/{order}/.rss?t={span}",
    ),
    _rule(
        "Reddit",
        rf"{_REDDIT}/(?P<place>{_REDDIT_LISTS})/(?P<order>new|top|hot|rising|controversial)/?(?:\?.*)?",
        "https://www.reddit.com/{place}/{order}/.rss",
    ),
    _rule("Reddit user", rf"{_REDDIT}/u(?:ser)?/(?P<name>[\w-]+)", "https://www.reddit.com/user/{name}/.rss"),
    _rule(
        "Reddit thread",
        rf"{_REDDIT}/r/(?P<name>\w+)/comments/(?P<id>\w+)(?:/[^?]*)?(?:\?.*)?",
        "https://www.reddit.com/r/{name}/comments/{id}/.rss",
    ),
    _rule("Bluesky", r"bsky\.app/profile/(?P<id>[\w.:-]+)(?:/.*)?", "https://bsky.app/profile/{id}/rss"),
    _rule(
        "GitHub",
        rf"github\.com/(?P<owner>(?!(?:{_GITHUB_PAGES})/){_NAME})/(?P<name>{_NAME}?)(?:\.git)?",
        "https://github.com/{owner}/{name}/releases.atom",
        "https://github.com/{owner}/{name}/commits.atom",
    ),
    _rule(
        "GitHub",
        rf"github\.com/(?P<owner>{_NAME})/(?P<name>{_NAME})/(?P<what>releases|tags|wiki|discussions)(?:/.*)?",
        "https://github.com/{owner}/{name}/{what}.atom",
    ),
    _rule(
        "GitHub commits",
        rf"github\.com/(?P<owner>{_NAME})/(?P<name>{_NAME})/(?:commits|tree)/(?P<branch>[\w./-]+?)",
        "https://github.com/{owner}/{name}/commits/{branch}.atom",
    ),
    _rule("GitHub", rf"github\.com/(?P<owner>(?!(?:{_GITHUB_PAGES})$)[\w-]+)", "https://github.com/{owner}.atom"),
    _rule("GitLab", rf"{_GITLAB}/-/(?P<what>releases|tags)", "https://{host}/{project}/-/{what}?format=atom"),
    _rule(
        "GitLab commits",
        rf"{_GITLAB}/-/(?:commits|tree)/(?P<branch>[\w./-]+?)(?:\?.*)?",
        "https://{host}/{project}/-/commits/{branch}?format=atom",
    ),
    _rule(
        "GitLab",
        rf"{_GITLAB}",
        "https://{host}/{project}/-/releases.atom",
        "https://{host}/{project}/-/commits/HEAD?format=atom",
        "https://{host}/{project}.atom",
    ),
    _rule(
        "GitLab",
        rf"(?P<host>gitlab\.[\w.-]+)/(?P<name>(?!(?:{_GITLAB_PAGES})$)[\w-]+)",
        "https://{host}/{name}.atom",
    ),
    _rule("Substack", r"(?P<name>(?!open\b)[\w-]+)\.substack\.com(?:/.*)?", "https://{name}.substack.com/feed"),
    _rule("Substack", r"open\.substack\.com/pub/(?P<name>[\w-]+)(?:/.*)?", "https://{name}.substack.com/feed"),
    _rule("Substack", r"substack\.com/@(?P<name>[\w-]+)(?:/.*)?", "https://{name}.substack.com/feed"),
    _rule("Medium", r"medium\.com/(?P<name>@[\w.-]+)(?:/.*)?", "https://medium.com/feed/{name}"),
    _rule("Medium tag", r"medium\.com/tag/(?P<name>[\w-]+)(?:/.*)?", "https://medium.com/feed/tag/{name}"),
    _rule(
        "Medium",
        rf"medium\.com/(?P<name>(?!(?:{_MEDIUM_PAGES})(?:/|$))[\w-]+)/tagged/(?P<tag>[\w-]+)",
        "https://medium.com/feed/{name}/tagged/{tag}",
    ),
    _rule(
        "Medium",
        rf"medium\.com/(?P<name>(?!(?:{_MEDIUM_PAGES})(?:/|$))[\w-]+)(?:/.*)?",
        "https://medium.com/feed/{name}",
    ),
    _rule("Medium", r"(?P<name>[\w-]+)\.medium\.com(?:/.*)?", "https://{name}.medium.com/feed"),
    _rule(
        "Apple Podcasts",
        r"(?:podcasts|itunes)\.apple\.com/(?:.*/)?id(?P<id>\d{3,15})(?:\?.*)?",
        "https://itunes.apple.com/lookup?id={id}&entity=podcast",
        key="feedUrl",
    ),
    _rule(
        "Overcast, Pocket Casts, Castro",
        r"(?:overcast\.fm/itunes|pca\.st/itunes/|castro\.fm/itunes/)(?P<id>\d{3,15})(?:/.*)?",
        "https://itunes.apple.com/lookup?id={id}&entity=podcast",
        key="feedUrl",
    ),
)

# Rules for any host, tried when the page itself names no feed.
FEDIVERSE_RULES: tuple[SiteRule, ...] = (
    _rule("Mastodon", r"(?P<host>[\w.-]+(?::\d+)?)/@(?P<name>\w+)", "{host}/@{name}.rss"),
    _rule(
        "Mastodon",
        r"(?P<host>[\w.-]+(?::\d+)?)/@(?P<name>\w+)/(?P<part>with_replies|media|tagged/\w+)",
        "{host}/@{name}/{part}.rss",
        "{host}/@{name}.rss",
    ),
    _rule(
        "Mastodon, seen from another server", r".*/@(?P<name>\w+)@(?P<home>[\w-]+(?:\.[\w-]+)+)", "{home}/@{name}.rss"
    ),
    _rule("Mastodon", r"(?P<host>[\w.-]+(?::\d+)?)/tags/(?P<name>\w+)", "{host}/tags/{name}.rss"),
)

_CHANNEL = re.compile(rb'(?:channel_id=|"external(?:Channel)?Id":"|itemprop="identifier" content=")(UC[\w-]{22})')


def derive_site_feeds(address: str) -> list[FeedCandidate]:
    """Return the feeds that the first rule for an address derives; none for most addresses.

    >>> [one.url for one in derive_site_feeds("github.com/python/cpython")][0]
    'https://github.com/python/cpython/releases.atom'
    >>> derive_site_feeds("https://example.org/")
    []
    """
    if feed := _decode_google_podcast(address):
        return [FeedCandidate(feed, how="rule")]
    rule, groups = _match_rule(address, SITE_RULES)
    return [] if rule is None or rule.key else _fill_in(rule, groups)


def derive_lookup(address: str) -> tuple[str, str] | None:
    """Return the address of a directory's JSON and the key of the feeds in it, where a page is found by a number only.

    >>> derive_lookup("https://podcasts.apple.com/us/podcast/the-daily/id1200361736")
    ('https://itunes.apple.com/lookup?id=1200361736&entity=podcast', 'feedUrl')
    """
    rule, groups = _match_rule(address, SITE_RULES)
    return None if rule is None or rule.key is None else (_fill_in(rule, groups)[0].url, rule.key)


def read_lookup(body: bytes, key: str) -> list[FeedCandidate]:
    """Return the feeds under a key in a directory's answer, however deep; none if it is not JSON.

    >>> read_lookup(b'{"results": [{"feedUrl": "https://example.org/feed"}]}', "feedUrl")[0].url
    'https://example.org/feed'
    """
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return []
    return [FeedCandidate(url, how="rule") for url in dict.fromkeys(_find_values(found, key, 5)) if _is_web(url)][:10]


def derive_page_feeds(url: str, body: bytes) -> list[FeedCandidate]:
    """Return the feeds that rules derive from a page: a YouTube channel's number, an account of the fediverse."""
    parts = urlsplit(url)
    if (parts.hostname or "").removeprefix("www.").removeprefix("m.") == "youtube.com":
        ids = [match[1].decode() for match in _CHANNEL.finditer(body[:2_000_000])][:1]
        return [FeedCandidate(f"https://www.youtube.com/feeds/videos.xml?channel_id={id}", how="rule") for id in ids]
    rule, groups = _match_rule(url, FEDIVERSE_RULES)
    return (
        []
        if rule is None
        else [FeedCandidate(f"{parts.scheme}://{one.url}", how="rule") for one in _fill_in(rule, groups)]
    )


def _match_rule(address: str, rules: tuple[SiteRule, ...]) -> tuple[SiteRule | None, dict[str, str]]:
    try:
        parts = urlsplit(address if "://" in address else f"https://{address.strip().lstrip('/')}")
        host = (parts.hostname or "").removeprefix("www.") + (f":{parts.port}" if parts.port else "")
    except ValueError:
        return None, {}
    place = host + parts.path.rstrip("/") + (f"?{parts.query}" if parts.query else "")
    for rule in rules:
        for text in (place, place.partition("?")[0]):
            if len(text) < 500 and (found := rule.page.fullmatch(text)):
                return rule, found.groupdict()
    return None, {}


def _fill_in(rule: SiteRule, groups: dict[str, str]) -> list[FeedCandidate]:
    return [FeedCandidate(feed.format(**groups), how="rule") for feed in rule.feeds]


def _find_values(found: object, key: str, depth: int) -> Iterator[str]:
    if isinstance(found, dict) and isinstance(value := found.get(key), str):
        yield value
    inner = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    for one in inner if depth else ():
        yield from _find_values(one, key, depth - 1)


def _decode_google_podcast(address: str) -> str | None:
    """Return the feed in the address of a page of Google Podcasts, which is gone but still linked."""
    parts = urlsplit(address) if "podcasts.google.com/" in address else None
    if parts is None or parts.hostname != "podcasts.google.com":
        return None
    coded = parts.path.partition("/feed/")[2].partition("/")[0] or parse_qs(parts.query).get("feed", [""])[0]
    try:
        url = base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode()
    except (binascii.Error, ValueError):
        return None
    return url if _is_web(url) else None


def _is_web(url: str) -> bool:
    return url.startswith(("http://", "https://")) and len(url) <= 2000
