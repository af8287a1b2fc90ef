"""Checks robots.txt (RFC 9309) before a page is fetched; each server's file is fetched once a day.

Feeds are made for programs and have politeness rules of their own; robots.txt applies to web pages only.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from headwater.errors import AddressError, Unreachable
from headwater.fetch.client import Fetcher
from headwater.model import Ending

AGENT = "Headwater"
DAY, RETRY_SECONDS = 86_400.0, 600.0
MAX_BYTES = 1 << 20
MAX_SERVERS = 5_000
MAX_CRAWL_DELAY = 600.0  # seconds


class Robots:
    """The robots.txt rules of servers. Needs protego (`headwater[articles]`)."""

    def __init__(self, fetcher: Fetcher, *, clock: Callable[[], float] = time.time) -> None:
        self._fetcher = fetcher
        self._clock = clock
        # origin → (valid until, rules); the rules may also be True (all allowed) or False
        self._rules_by_origin: OrderedDict[str, tuple[float, Any]] = OrderedDict()
        self._next_turns: dict[str, float] = {}

    def has_rules(self, url: str) -> bool:
        """Return whether the server's rules are cached."""
        kept = self._rules_by_origin.get(_origin_of(url))
        return kept is not None and kept[0] > self._clock()

    async def allows(self, url: str) -> bool:
        """Return whether the page may be fetched. An unreachable robots.txt forbids it for now (§2.3.1.4)."""
        rules = await self._load_rules(_origin_of(url))
        return rules if isinstance(rules, bool) else bool(rules.can_fetch(url, AGENT))

    async def reserve_turn(self, url: str) -> float:
        """Return the seconds that Crawl-delay still demands; if 0, the turn is taken and the next caller waits."""
        origin = _origin_of(url)
        rules = await self._load_rules(origin)
        delay = None if isinstance(rules, bool) else rules.crawl_delay(AGENT)
        now = self._clock()
        wait = self._next_turns.get(origin, now) - now
        if wait > 0:
            return wait
        if delay:
            self._next_turns[origin] = now + min(float(delay), MAX_CRAWL_DELAY)
            if len(self._next_turns) > MAX_SERVERS:
                self._next_turns = {name: at for name, at in self._next_turns.items() if at > now}
        return 0.0

    async def _load_rules(self, origin: str) -> Any:
        now = self._clock()
        kept = self._rules_by_origin.get(origin)
        if kept is None or kept[0] <= now:
            kept = self._rules_by_origin[origin] = await self._fetch_rules(origin, now)
            while len(self._rules_by_origin) > MAX_SERVERS:
                self._rules_by_origin.popitem(last=False)
        return kept[1]

    async def _fetch_rules(self, origin: str, now: float) -> tuple[float, Any]:
        from protego import Protego

        try:
            page = await self._fetcher.get(f"{origin}/robots.txt", accept="text/plain", max_bytes=MAX_BYTES)
        except AddressError:
            return now + DAY, False
        except Unreachable as error:
            return now + (DAY if error.ending is Ending.TOO_LARGE else RETRY_SECONDS), False
        if page.ok:
            return now + DAY, Protego.parse(page.body.decode("utf-8", "replace"))
        if 400 <= page.status < 500 and page.status != 429:
            return now + DAY, True  # §2.3.1.3: nothing is forbidden
        return now + RETRY_SECONDS, False


def _origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
