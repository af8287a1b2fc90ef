"""Saves verdicts until it is killed, and reports each acknowledged batch."""

from __future__ import annotations

import asyncio
import random
from multiprocessing.connection import Connection

from headwater.model import Feed
from headwater.store.content.outbox import advance_checkpoint, list_outbox_entries, read_checkpoint
from headwater.store.content.search import index_queued
from headwater.store.content.verdicts import save_refreshes
from headwater.store.opening import open_store
from support.store_samples import NOW, a_verdict, an_item


async def write_for_ever(url: str, round: int, feed_ids: list[int], told: Connection) -> None:
    chance = random.Random(round)
    async with await open_store(url) as store:
        told.send([])
        number = 0
        while True:
            batch = []
            for feed_id in chance.sample(feed_ids, 3):
                feed = Feed(feed_id, f"https://example.org/{feed_id}")
                # Some identities repeat, within this round and from earlier ones.
                identities = {f"{round}-{number}-{k}" for k in range(3)} | {f"often-{chance.randrange(50)}"}
                items = [an_item(feed_id, one) for one in sorted(identities)]
                again = an_item(feed_id, f"often-{chance.randrange(50)}", content_hash=f"{round}-{number}")
                batch.append(a_verdict(feed, *items, at=NOW + round * 1e6 + number, updated=(again,)))
                number += 1
            saved = await save_refreshes(store, batch)
            told.send([(one.feed_id, item.identity) for one in saved for item in one.new])
            if chance.random() < 0.3:
                await store.write(index_queued, 10)
            if chance.random() < 0.2:
                entries = await store.read(list_outbox_entries, await store.read(read_checkpoint, "reader"), 20)
                if entries:
                    await store.write(advance_checkpoint, "reader", entries[-1].position)


def main(url: str, round: int, feed_ids: list[int], told: Connection) -> None:
    asyncio.run(write_for_ever(url, round, feed_ids, told))
