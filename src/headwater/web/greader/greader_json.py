"""Shapes subscriptions, items and counts as the JSON of the Google Reader API.

Clients are strict about types: counts and publication times are numbers, ids and arrival times are strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from headwater.model import Enclosure
from headwater.store.readers.reader_items import ReaderItem
from headwater.store.readers.stream_positions import HIT_ID_OFFSET
from headwater.store.readers.subscriptions import Subscription
from headwater.store.readers.unread_counts import UnreadCount, UnreadCounts
from headwater.web.greader.stream_ids import LABEL_PREFIX, LONG_PREFIX, READ, READING_LIST, STARRED, feed_stream_id

_NO_LABELS: Mapping[int, Sequence[str]] = {}
# Liferea (up to 1.16 at least) looks for the state in the first category, and for a backslash before each slash.
_READ_FOR_LIFEREA = READ.replace("/", "\\/")
_BITS = (1 << 64) - 1
_PLAIN = re.compile(r"https?://[a-zA-Z0-9.:-]+(?=[/?#]|\Z)")


def shape_subscription(one: Subscription, base: str) -> dict[str, Any]:
    url = one.url if one.feed_id is not None else f"{base}{one.url}.atom"
    site = one.link or (url if one.feed_id is not None else f"{base}{one.url}.html")
    return {
        "id": feed_stream_id(one.feed_id, one.query_id),
        "title": one.title,
        "categories": [{"id": LABEL_PREFIX + tag, "label": tag, "type": "folder"} for tag in one.tags],
        "url": url,
        "htmlUrl": site,
        "iconUrl": icon_url(site),
        "sortid": f"{_source_number(one.feed_id, one.query_id) & 0xFFFFFFFF:08X}",
        "firstitemmsec": str(int(one.added * 1000)),
    }


def _source_number(feed_id: int | None, query_id: int | None) -> int:
    """Return a number that is different for every feed and query feed."""
    return HIT_ID_OFFSET + query_id if query_id is not None else feed_id or 0


def icon_url(site: str) -> str:
    """Return the conventional address of a site's icon, or "" for other addresses. Nothing is fetched here.

    >>> icon_url("https://a.example/blog?x"), icon_url("nothing")
    ('https://a.example/favicon.ico', '')
    """
    if (plain := _PLAIN.match(site)) is not None:  # three times as fast as urlsplit, and enough for nearly all sites
        return f"{plain[0]}/favicon.ico"
    try:
        parts = urlsplit(site)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}/favicon.ico" if parts.scheme in ("http", "https") else ""


class ItemShaper:
    """Shapes items; the fields that all items of a feed share are built once.

    `labels` are those of items, by id. `for_liferea` marks read items as Liferea looks for it.
    """

    def __init__(
        self,
        subscriptions: Iterable[Subscription],
        base: str,
        labels: Mapping[int, Sequence[str]] = _NO_LABELS,
        *,
        for_liferea: bool = False,
    ) -> None:
        self._labels = labels
        self._for_liferea = for_liferea
        self._subscriptions = {_source_number(one.feed_id, one.query_id): one for one in subscriptions}
        self._base = base
        self._feed_fields: dict[int, tuple[dict[str, str], list[str], str]] = {}

    def __call__(self, one: ReaderItem) -> dict[str, Any]:
        item = one.item
        source = _source_number(item.feed_id, one.query_id)
        origin, categories, site = self._feed_fields.get(source) or self._shape_feed_fields(source)
        if one.read or one.starred:
            categories = [*categories, *([READ] if one.read else ()), *([STARRED] if one.starred else ())]
        if labels := self._labels.get(item.id or 0):
            categories = list(dict.fromkeys([*categories, *(LABEL_PREFIX + label for label in labels)]))
        if self._for_liferea and one.read:
            categories = [_READ_FOR_LIFEREA, *categories]
        href = item.link or site
        shown: dict[str, Any] = {
            "id": f"{LONG_PREFIX}{one.id & _BITS:016x}",
            "crawlTimeMsec": str(int(one.arrived * 1000)),
            "timestampUsec": str(int(one.arrived * 1e6)),
            "published": int(item.published),
            "updated": int(item.updated or item.published),
            "title": item.title or "",
            "canonical": [{"href": href}],
            "alternate": [{"href": href, "type": "text/html"}],
            "summary": {"direction": "ltr", "content": item.content or item.summary or ""},
            "author": ", ".join(item.authors),
            "categories": categories,
            "origin": origin,
        }
        if item.enclosures:
            shown["enclosure"] = [_shape_enclosure(each) for each in item.enclosures]
        return shown

    def _shape_feed_fields(self, source: int) -> tuple[dict[str, str], list[str], str]:
        one = self._subscriptions.get(source)
        if one is None:  # a starred item of a feed that the reader has unsubscribed from
            made = ({"streamId": f"feed/{source}", "title": "", "htmlUrl": ""}, [READING_LIST], self._base)
        else:
            shaped = shape_subscription(one, self._base)
            origin = {"streamId": shaped["id"], "title": one.title, "htmlUrl": shaped["htmlUrl"]}
            made = (origin, [READING_LIST, *(LABEL_PREFIX + tag for tag in one.tags)], shaped["htmlUrl"])
        self._feed_fields[source] = made
        return made


def _shape_enclosure(one: Enclosure) -> dict[str, Any]:
    shaped: dict[str, Any] = {"href": one.url, "type": one.type or "application/octet-stream"}
    return shaped if one.length is None else shaped | {"length": one.length}


def shape_tags(folders: Iterable[str], labels: Iterable[str]) -> list[dict[str, Any]]:
    """Return the tags of subscriptions and the labels of items; a name of both is a folder."""
    types = dict.fromkeys(labels, "tag") | dict.fromkeys(folders, "folder")
    return [{"id": STARRED}, *({"id": LABEL_PREFIX + name, "type": type} for name, type in sorted(types.items()))]


def shape_unread_counts(found: UnreadCounts, labels: Mapping[str, UnreadCount]) -> dict[str, Any]:
    """Return unread counts by stream, and their total as the count of the reading list.

    `labels` counts the items with a label of their own; a folder of the same name is counted instead.

    The total counts an item once for its feed and once for each query feed that shows it.
    """
    shown = [
        *((feed_stream_id(id, None), each) for id, each in found.feeds.items()),
        *((feed_stream_id(None, id), each) for id, each in found.queries.items()),
        *((LABEL_PREFIX + tag, each) for tag, each in {**labels, **found.tags}.items()),
    ]
    every = [*found.feeds.values(), *found.queries.values()]
    total = sum(each.count for each in every)
    newest = max((each.newest for each in every), default=0.0)
    rows = [{"id": id, "count": one.count, "newestItemTimestampUsec": str(int(one.newest * 1e6))} for id, one in shown]
    rows.append({"id": READING_LIST, "count": total, "newestItemTimestampUsec": str(int(newest * 1e6))})
    return {"max": total, "unreadcounts": rows}
