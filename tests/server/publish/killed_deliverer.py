"""Publishes, matches and delivers until it is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from multiprocessing.connection import Connection
from zoneinfo import ZoneInfo

from headwater.fetch.client import Fetcher
from headwater.model import Feed
from headwater.node.queries.processor import QueryProcessor
from headwater.publish.delivery.deliverer import Deliverer
from headwater.publish.delivery.delivery_planner import DeliveryPlanner
from headwater.publish.delivery.sinks import DeliveryMessage, MailSink, Sink, WebhookSink
from headwater.store.content.verdicts import save_refreshes
from headwater.store.opening import open_store
from headwater.store.store import Store
from support.store_samples import NOW, a_verdict, an_item

LEASE = 0.3


class Telling(Sink):
    """Reports once that a message is being sent, so that the kill hits the sending."""

    def __init__(self, sink: Sink, tell: Callable[[], None]) -> None:
        self._sink = sink
        self._tell = tell

    async def send(self, message: DeliveryMessage) -> None:
        self._tell()
        await self._sink.send(message)


def deliverer(store: Store, fetcher: Fetcher, smtp: str, tell: Callable[[], None] = lambda: None) -> Deliverer:
    known = {"email": MailSink(lambda: (smtp, "headwater@example.org")), "webhook": WebhookSink(fetcher, b"secret")}
    sinks = {name: Telling(sink, tell) for name, sink in known.items()}
    # Unbounded doubling would wait minutes for the one message in hundreds that is refused ten times in a row. A claim
    # that died with its process counts as an attempt too.
    return Deliverer(store, sinks, lease=LEASE, first_wait=0.01, longest_wait=0.1, most_attempts=1000)


async def go_for_ever(url: str, round: int, feed_id: int, smtp: str, told: Connection) -> None:
    async with await open_store(url) as store, Fetcher(allow_private=True, contact=None, per_host=8) as fetcher:
        processor = QueryProcessor(store, writers=[DeliveryPlanner(ZoneInfo("UTC"))], batch=5)
        await processor.load()
        began: list[bool] = []

        def tell() -> None:
            if not began:
                began.append(True)
                told.send("sending")

        sending = deliverer(store, fetcher, smtp, tell)
        await asyncio.gather(_publish(store, round, feed_id), _process(processor), sending.run(asyncio.Event()))


async def _publish(store: Store, round: int, feed_id: int) -> None:
    for number in range(15):  # with the failures, enough to send for longer than the process lives
        links = [f"https://example.org/{round}-{number}-{k}" for k in range(2)]
        items = [an_item(feed_id, link, link=link, title="lava") for link in links]
        await save_refreshes(
            store, [a_verdict(Feed(feed_id, "https://example.org/f"), *items, at=NOW + round * 1e6 + number)]
        )
        await asyncio.sleep(0.02)


async def _process(processor: QueryProcessor) -> None:
    while True:
        if not await processor.step():
            await asyncio.sleep(0.005)


def main(url: str, round: int, feed_id: int, smtp: str, told: Connection) -> None:
    asyncio.run(go_for_ever(url, round, feed_id, smtp, told))
