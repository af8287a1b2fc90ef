"""What the Google Reader API answers, as clients parse it: numbers are numbers, times of arrival are strings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson

from headwater.store.people import HIT, Counts, Subscription
from headwater.store.shown import Shown
from headwater.store.subscribing import number
from headwater.web.greader.ids import LABEL, LONG, READ, READING_LIST, STARRED, feed_stream

_BITS = (1 << 64) - 1
_PLAIN = re.compile(r"https?://[a-zA-Z0-9.:-]+(?=[/?#]|\Z)")
Subscriptions = Mapping[int, Subscription]  # by the number of the feed, or HIT + that of the query feed


def subscription(one: Subscription, base: str) -> dict[str, Any]:
    url = one.url if one.feed_id is not None else f"{base}{one.url}.atom"
    site = one.link or (url if one.feed_id is not None else f"{base}{one.url}.html")
    return {
        "id": feed_stream(one.feed_id, one.query_id),
        "title": one.title,
        "categories": [{"id": LABEL + tag, "label": tag, "type": "folder"} for tag in one.tags],
        "url": url,
        "htmlUrl": site,
        "iconUrl": icon(site),
        "sortid": f"{number(one) & 0xFFFFFFFF:08X}",
        "firstitemmsec": str(int(one.added * 1000)),
    }


def icon(site: str) -> str:
    """Where a site has its icon by custom; clients fetch it or not.

    >>> icon("https://a.example/blog?x"), icon("nothing")
    ('https://a.example/favicon.ico', '')
    """
    if (plain := _PLAIN.match(site)) is not None:  # nearly all: three times as fast
        return f"{plain[0]}/favicon.ico"
    try:
        parts = urlsplit(site)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}/favicon.ico" if parts.scheme in ("http", "https") else ""


class Items:
    """Items as a client wants them; what all items of a feed have in common is made once."""

    def __init__(self, subscriptions: Subscriptions, base: str) -> None:
        self._subscriptions = subscriptions
        self._base = base
        self._of_feed: dict[int, tuple[dict[str, str], list[str], str]] = {}

    def __call__(self, one: Shown) -> dict[str, Any]:
        of = HIT + one.query_id if one.query_id is not None else one.feed_id
        origin, categories, site = self._of_feed.get(of) or self._common(of)
        if one.read or one.starred:
            categories = [*categories, *([READ] if one.read else ()), *([STARRED] if one.starred else ())]
        href = one.link or site
        shown: dict[str, Any] = {
            "id": f"{LONG}{one.id & _BITS:016x}",
            "crawlTimeMsec": str(int(one.arrived * 1000)),
            "timestampUsec": str(int(one.arrived * 1e6)),
            "published": int(one.published),
            "updated": int(one.updated or one.published),
            "title": one.title or "",
            "canonical": [{"href": href}],
            "alternate": [{"href": href, "type": "text/html"}],
            "summary": {"direction": "ltr", "content": one.text or ""},
            "author": ", ".join(orjson.loads(one.authors)) if one.authors else "",
            "categories": categories,
            "origin": origin,
        }
        if one.enclosures:
            shown["enclosure"] = [_enclosure(*each) for each in orjson.loads(one.enclosures)]
        return shown

    def _common(self, of: int) -> tuple[dict[str, str], list[str], str]:
        one = self._subscriptions.get(of)
        if one is None:  # starred, and no longer subscribed
            made = ({"streamId": f"feed/{of}", "title": "", "htmlUrl": ""}, [READING_LIST], self._base)
        else:
            shaped = subscription(one, self._base)
            origin = {"streamId": shaped["id"], "title": one.title, "htmlUrl": shaped["htmlUrl"]}
            made = (origin, [READING_LIST, *(LABEL + tag for tag in one.tags)], shaped["htmlUrl"])
        self._of_feed[of] = made
        return made


def _enclosure(url: str, type: str | None, length: int | None) -> dict[str, Any]:
    return {"href": url, "type": type or "application/octet-stream", **({} if length is None else {"length": length})}


def tags(labels: Iterable[str]) -> list[dict[str, Any]]:
    return [{"id": STARRED}, *({"id": LABEL + tag, "type": "folder"} for tag in sorted(labels))]


def counts(found: Counts) -> dict[str, Any]:
    """The reading list counts what all the streams show: an item of a feed also for each query feed that shows it."""
    shown = [
        *((feed_stream(id, None), each) for id, each in found.feeds.items()),
        *((feed_stream(None, id), each) for id, each in found.queries.items()),
        *((LABEL + tag, each) for tag, each in found.tags.items()),
    ]
    every = [*found.feeds.values(), *found.queries.values()]
    total = sum(each.count for each in every)
    newest = max((each.newest for each in every), default=0.0)
    rows = [{"id": id, "count": one.count, "newestItemTimestampUsec": str(int(one.newest * 1e6))} for id, one in shown]
    rows.append({"id": READING_LIST, "count": total, "newestItemTimestampUsec": str(int(newest * 1e6))})
    return {"max": total, "unreadcounts": rows}
