"""Names the publisher of an item: the site it links to, or the origin that an aggregator states."""

from __future__ import annotations

import re
from collections.abc import Iterable

from headwater.formats.values.domains import registered_domain_of_url
from headwater.model import Item
from headwater.query.items.origin import Origin
from headwater.query.items.tokens import fold_value

_LAST_PART = re.compile(r"\s[-–—|•·]\s+([^-–—|•·]{2,60})$")


class Publishers:
    """The titles of the known feeds, by which a title like “Alaska reports a reaction - Reuters” names its origin."""

    def __init__(self, origins: Iterable[Origin] = ()) -> None:
        self._domains = {
            fold_value(title): find_domain(origin.url)
            for origin in origins
            for title in (origin.title, origin.name)
            if title
        }

    def find_publisher(self, item: Item, origin: Origin) -> str:
        """Return the registered domain of the publisher: of the stated origin, of the link, or of the feed.

        >>> guardian = Origin(None, "https://www.theguardian.com/world/rss", title="The Guardian")
        >>> item = Item(1, "1", "", "Alaska - The Guardian", "https://news.example/1", 0.0, True, None, 0.0)
        >>> Publishers([guardian]).find_publisher(item, Origin(None, "https://news.example/rss"))
        'theguardian.com'
        """
        if item.source is not None:
            return find_domain(item.source.url) or fold_value(item.source.title or "") or find_domain(origin.url)
        last = _LAST_PART.search(item.title) if item.title else None
        named = self._domains.get(fold_value(last[1])) if last is not None else None
        return named or (find_domain(item.link) if item.link else "") or find_domain(origin.url) or origin.url


def find_domain(url: str) -> str:
    """Return the registered domain of an address, "" if it has none."""
    try:
        return registered_domain_of_url(url) if "://" in url else ""
    except ValueError:  # a malformed address
        return ""
