"""Feeds that hubs push: whoever decides, or says when a feed may be asked again, learns of them from the store.

The subscriber that talks with hubs runs beside the pages, in another process.
"""

from __future__ import annotations

import time

from headwater.node.courtesy import Courtesy
from headwater.store.store import Store

LOOK = 10.0  # seconds between two looks


async def follow(store: Store, courtesy: Courtesy) -> set[int]:
    """Only a slow safety poll remains for feeds that are pushed; those that no longer are."""
    active = set(await store.subscriptions.active(time.time()))
    ended = courtesy.pushed - active
    courtesy.pushed = active
    return ended
