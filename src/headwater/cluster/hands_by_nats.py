"""A terminal's partners by NATS: who lets it partitions, who brings it jobs, and who takes its results.

It asks the leading controller for partitions by request and reply, because it holds no key to the database; jobs come
from the durable consumers of those partitions, results go into a stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
import structlog

from headwater.cluster.acks import Message
from headwater.cluster.by_nats import offer_once
from headwater.cluster.carried import packed
from headwater.cluster.errands import fitting
from headwater.cluster.hands import Taken, Then
from headwater.cluster.messages import Grant, Hello, Job, Report, Result, encode, read_grant, read_job
from headwater.cluster.seat import pause
from headwater.cluster.streams import Streams, consumer
from headwater.cluster.terminal import Terminal
from headwater.cluster.timing import awake
from headwater.errors import ClusterError
from headwater.fetch.errand import Hopped

PULL = 20.0  # seconds that a wish for jobs stands
TOGETHER = 0.1  # seconds that a result waits for others to go with, unless there are enough
MOST_TOGETHER, HEAVY = 64, 1 << 20  # results, and bytes that were fetched for them
SCAN = 0.25  # seconds between two looks at all wishes, whether some have run out unheard
LEAST_WISH = 8  # jobs that are asked for at once; the controller sees to it that no terminal gets too many

log = structlog.get_logger()


class NatsLandlord:
    """The terminal's side of the desk."""

    def __init__(self, streams: Streams, report: Callable[[], Report]) -> None:
        self._streams = streams
        self._report = report

    async def tend(self, drained: Mapping[int, int]) -> Grant:
        return read_grant(await self._ask(Hello(self._report(), dict(drained))))

    async def leave(self, held: Mapping[int, int]) -> None:
        await self._ask(Hello(self._report(), dict(held), leaving=True))

    async def _ask(self, hello: Hello) -> bytes:
        from nats.errors import Error as NatsError

        subject = self._streams.subject("terminals")
        try:
            answer = await self._streams.link.request(subject, encode(hello), timeout=2 * self._streams.timing.beat)
        except (NatsError, TimeoutError) as error:
            said = str(error) or type(error).__name__
            raise ClusterError(
                f"No controller answers ({said}). Start one, or wait until one leads; until then nothing is fetched."
            ) from error
        return bytes(answer.data)


@dataclass(slots=True)
class _Wish:
    left: int
    until: float

    def over(self, now: float) -> bool:
        return self.left <= 0 or self.until < now


class NatsJobs:
    """Asks the consumers of the terminal's partitions for jobs; all of them answer to one inbox."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._wishes: dict[int, _Wish] = {}
        self._spent: set[int] = set()  # partitions whose wishes have been fulfilled, or have run out

    async def follow(self, terminal: Terminal, stop: asyncio.Event) -> None:
        link = self._streams.link
        api = f"$JS.API.CONSUMER.MSG.NEXT.{self._streams.stream('JOBS')}."
        inbox, subscription = await self._listen(terminal)
        connected, held, looked = link.stats["reconnects"], terminal.tenancy.held, -SCAN
        try:
            while not stop.is_set():
                terminal.changed.clear()
                mine, now = terminal.mine, awake()
                if connected != link.stats["reconnects"]:  # to a broker that may know nothing of what we wished for
                    connected, looked = link.stats["reconnects"], -SCAN
                    self._wishes.clear()
                if terminal.tenancy.held is not held or now >= looked + SCAN:
                    held, looked = terminal.tenancy.held, now
                    if self._stale(mine, now):
                        # Jobs go to who wished for them as long as he listens, so: not there any more.
                        with contextlib.suppress(Exception):
                            await subscription.drain()
                        self._wishes.clear()
                        inbox, subscription = await self._listen(terminal)
                    self._spent = {p for p in mine if (wish := self._wishes.get(p)) is None or wish.over(now)}
                if self._spent and terminal.room > 0:
                    each = max(terminal.concurrency // max(len(mine), 1), LEAST_WISH)
                    asked = orjson.dumps({"batch": each, "expires": int(PULL * 1e9)})
                    wanted, self._spent = self._spent.intersection(mine), set()
                    for p in wanted:
                        self._wishes[p] = _Wish(each, now + PULL)
                        await link.publish(api + consumer(p), asked, reply=f"{inbox}.{p}")
                await pause(terminal.changed, SCAN)
        finally:
            await subscription.unsubscribe()

    async def _listen(self, terminal: Terminal) -> tuple[str, Any]:
        inbox = self._streams.link.new_inbox()

        async def come(message: Any) -> None:
            await self._come(terminal, message)

        return inbox, await self._streams.link.subscribe(f"{inbox}.*", cb=come)

    def _stale(self, mine: Collection[int], now: float) -> bool:
        """Whether jobs of a partition are on their way to us that is ours no more."""
        held = set(mine)
        return any(p not in held and wish.left > 0 and wish.until > now for p, wish in self._wishes.items())

    async def _come(self, terminal: Terminal, message: Any) -> None:
        partition = int(message.subject.rpartition(".")[2]) if not message.reply else -1
        if partition >= 0:  # no job: a wish that has run out, or a consumer that is not there
            wish = self._wishes.get(partition)
            if wish is not None:
                wish.left, wish.until = 0, 0.0
                if message.headers and message.headers.get("Status") not in ("404", "408"):
                    wish.left, wish.until = 1, awake() + random.uniform(0.5, 1.5)  # not again at once
                else:
                    self._spent.add(partition)
            terminal.changed.set()
            return
        job = read_job(message.data)
        wish = self._wishes.get(job.partition)
        if wish is not None:
            wish.left -= 1
            if wish.left <= 0:
                self._spent.add(job.partition)
                terminal.changed.set()

        async def give_back() -> None:
            await message.nak(delay=random.uniform(0.2, 1.0))

        async def hand_on(job: Job) -> None:
            await self._streams.patience.until_done("jobs", "JOBS", partial(offer_once, self._streams, [job]))
            await message.ack()

        async def answer(hopped: Hopped) -> None:
            assert job.errand is not None
            body = fitting(hopped, self._streams.link.max_payload)
            await self._streams.link.publish(job.errand.reply, body)
            await message.ack()

        terminal.take(Taken(job, message.ack, give_back, message.ack, hand_on, answer))


class NatsResults:
    """The terminal's side: a result is safe when the broker has said so. A full stream is waited for.

    Results that come while others are on their way, or within a moment, go together in one message.
    """

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._waiting: list[tuple[Result, Then]] = []
        self._enough = asyncio.Event()
        self._carrying: asyncio.Task[None] | None = None

    def put(self, result: Result, then: Then) -> None:
        self._waiting.append((result, then))
        if len(self._waiting) >= MOST_TOGETHER:
            self._enough.set()
        if self._carrying is None or self._carrying.done():
            self._carrying = asyncio.create_task(self._carry())

    def abandon(self) -> None:
        if self._carrying is not None:
            self._carrying.cancel()

    async def _carry(self) -> None:
        """Until nothing waits."""
        while self._waiting:
            await pause(self._enough, TOGETHER)
            heavy = itertools.accumulate(result.outcome.bytes for result, _ in self._waiting)
            some = max(sum(total < HEAVY for total in itertools.islice(heavy, MOST_TOGETHER)), 1)
            batch, self._waiting = self._waiting[:some], self._waiting[some:]
            if len(self._waiting) < MOST_TOGETHER:
                self._enough.clear()
            problem = await self._delivered([result for result, _ in batch])
            for _, then in batch:
                await then(problem)

    async def _delivered(self, results: Sequence[Result]) -> Exception | None:
        try:
            largest = max(self._streams.link.max_payload - 4096, 4096)
            messages: list[Message] = [(self._subject(some[0]), body, None) for some, body in packed(results, largest)]
            # What was taken although we did not hear of it is published again; storers see that they have it already.
            await self._streams.patience.until_done("results", "RESULTS", partial(self._streams.publish, messages))
        except Exception as error:
            log.error("results_not_delivered", results=len(results), error=repr(error))
            return error
        return None

    def _subject(self, first: Result) -> str:
        return self._streams.subject(f"res.{first.job.partition}")
