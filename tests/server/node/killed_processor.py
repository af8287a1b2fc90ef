"""Publishes, changes queries and processes them until it is killed."""

from __future__ import annotations

import asyncio
import random
from multiprocessing.connection import Connection

from headwater.model import Feed
from headwater.node.queries.processor import QueryProcessor
from headwater.store.content.verdicts import save_refreshes
from headwater.store.opening import open_store
from headwater.store.queries.query_scripts import run_script
from headwater.store.store import Store
from support.store_samples import NOW, a_verdict, an_item

WORDS = tuple(f"{sort}{number:02}" for sort in ("lava", "ash", "mud") for number in range(10))
QUERIES = 4  # per life; over hundreds of lives their hits grow with the square
LARGE, SELDOM = 60, 16  # one life in SELDOM creates LARGE queries at once; they are activated late


async def go_for_ever(url: str, round: int, feed_ids: list[int], told: Connection) -> None:
    chance = random.Random(round)
    async with await open_store(url) as store:
        processor = QueryProcessor(store, batch=7, clock=lambda: NOW)
        await processor.load()
        told.send("ready")
        await asyncio.gather(
            _publish(store, round, feed_ids, chance), _change(store, round, chance, told), _process(processor)
        )


async def _publish(store: Store, round: int, feed_ids: list[int], chance: random.Random) -> None:
    for number in range(100_000):
        feed_id = chance.choice(feed_ids)
        items = [
            an_item(feed_id, f"{round}-{number}-{k}", title=f"{chance.choice(WORDS)} {round}-{number}-{k}")
            for k in range(3)
        ]
        feed = Feed(feed_id, f"https://example.org/{feed_id}")
        await save_refreshes(store, [a_verdict(feed, *items, at=NOW + round * 1e6 + number)])


async def _change(store: Store, round: int, chance: random.Random, told: Connection) -> None:
    """Create one query feed per change, so that the expected hits of each follow from positions."""
    for number in range(QUERIES):
        await asyncio.sleep(chance.uniform(0.0, 0.05))
        large = round % SELDOM == 0 and number == 0
        script = [_query(chance.choice(WORDS), f"{round}_{number}_{k}") for k in range(LARGE if large else 1)]
        await store.write(run_script, ";".join(script), NOW)
        told.send("changed")


def _query(word: str, rest: str) -> str:
    return f'CREATE FEED {word}_{rest} AS RETURN ALL WHERE TITLE CONTAINS "{word}"'


async def _process(processor: QueryProcessor) -> None:
    saves = 0
    while True:
        if not await processor.step():
            await asyncio.sleep(0.001)
        saves += 1
        if saves % 20 == 0:
            await processor.save()


def main(url: str, round: int, feed_ids: list[int], told: Connection) -> None:
    asyncio.run(go_for_ever(url, round, feed_ids, told))
