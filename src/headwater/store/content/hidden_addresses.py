"""Keeps the addresses of feeds out of items that somebody reads who does not subscribe to these feeds."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from headwater.formats.write.hidden_addresses import hide_fetch_address
from headwater.model import Item
from headwater.store.content.feeds import find_feeds


def hide_fetch_addresses(connection: Connection, items: Sequence[Item]) -> list[Item]:
    """Return the items without the addresses of their feeds that may hold a secret."""
    feeds = find_feeds(connection, {one.feed_id for one in items}) if items else {}
    return [
        one if (feed := feeds.get(one.feed_id)) is None else hide_fetch_address(one, feed.url, feed.link)
        for one in items
    ]
