"""NATS carries jobs and results: the controller's side and the terminal's side of both.

A terminal asks the leading controller for partitions by request and reply, because it holds no key to the database;
jobs come to it from the durable consumers of those partitions.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import orjson
import structlog
from sqlalchemy import Connection

from headwater.cluster import by_postgres
from headwater.cluster.acks import Message
from headwater.cluster.carried import packed
from headwater.cluster.errands import fitting
from headwater.cluster.hands import Taken, Then
from headwater.cluster.membership import CLUSTER
from headwater.cluster.messages import Grant, Hello, Job, Report, Result, encode, read_grant, read_hello, read_job
from headwater.cluster.seat import pause
from headwater.cluster.streams import Streams, consumer
from headwater.cluster.terminal import Terminal
from headwater.cluster.timing import awake
from headwater.errors import ClusterError
from headwater.fetch.errand import Hopped
from headwater.node.saying import Saying
from headwater.store import jobs, leases
from headwater.store.store import Store

AT_ONCE = 256  # publishes under way
PULL = 20.0  # seconds that a wish for jobs stands
REFUSED_TWICE = 2
TOGETHER = 0.1  # seconds that a result waits for others to go with, unless there are enough
MOST_TOGETHER, HEAVY = 64, 1 << 20  # results, and bytes that were fetched for them
SCAN = 0.25  # seconds between two looks at all wishes, whether some have run out unheard
LEAST_WISH = 8  # jobs that are asked for at once; the controller sees to it that no terminal gets too many

log = structlog.get_logger()


class NatsOutgoing:
    """The controller's side: publishes jobs; the broker refuses a second one for a feed."""

    def __init__(self, streams: Streams, store: Store, valid: Callable[[], bool]) -> None:
        self._streams = streams
        self._store = store
        self._valid = valid
        self._refused: dict[int, int] = {}

    async def offer(self, given: Sequence[Job]) -> set[int]:
        taken: set[int] = set()
        for start in range(0, len(given), AT_ONCE):
            if not self._valid():
                raise ClusterError("The controller's lease could not be renewed: no jobs are given out.")
            part = given[start : start + AT_ONCE]
            for job, done in zip(part, await offer_all(self._streams, part), strict=True):
                if done:
                    taken.add(job.feed_id)
                    self._refused.pop(job.feed_id, None)
                else:
                    await self._again(job)
        return taken

    async def _again(self, job: Job) -> None:
        """A job that is refused again and again has been given up by NATS: put it aside, so that it blocks nothing."""
        self._refused[job.feed_id] = self._refused.get(job.feed_id, 0) + 1
        if self._refused[job.feed_id] >= REFUSED_TWICE:
            del self._refused[job.feed_id]
            subject = self._streams.subject(f"jobs.{job.partition}.{job.feed_id}")
            await put_aside(self._streams, self._store, "JOBS", subject)

    async def unstored(self) -> int:
        return await self._streams.waiting("RESULTS")

    async def on_their_way(self) -> set[int]:
        subjects = await self._streams.subjects("JOBS", "jobs.*.*")
        return {int(subject.rpartition(".")[2]) for subject in subjects}

    async def newest(self) -> int:
        return await self._streams.newest("RESULTS")

    async def stored(self, number: int) -> bool:
        upto, waiting = await self._streams.stored()
        return upto >= number or waiting == 0


async def offer_all(streams: Streams, given: Sequence[Job]) -> list[bool]:
    """Publish jobs; False for one whose feed has a job on its way in that partition. ClusterError if that cannot be."""
    return await streams.patience.once("jobs", "JOBS", partial(_offer, streams, given))


async def _offer(streams: Streams, given: Sequence[Job]) -> list[bool]:
    return await streams.publish(
        [(streams.subject(f"jobs.{job.partition}.{job.feed_id}"), encode(job), None) for job in given]
    )


async def put_aside(streams: Streams, store: Store, stream: str, subject: str) -> None:
    """Keep the body of a message that nobody could deal with, and take it out of the stream."""
    from nats.js.errors import NotFoundError

    try:
        message = await streams.context.get_last_msg(streams.stream(stream), subject)
    except NotFoundError:
        return
    log.error("message_put_aside", subject=subject)
    why = "Nobody who took it came back."
    await store.write(jobs.put_aside, streams.strip(subject), message.data or b"", why)
    await streams.context.delete_msg(streams.stream(stream), message.seq)


STRANGER = "The controller is of another version and does not understand this terminal. Install the same version here."


class Desk:
    """Where terminals get their partitions: run by the leading controller, with its fenced store."""

    def __init__(self, streams: Streams, store: Store) -> None:
        self._streams = streams
        self._store = store
        self._saying = Saying()

    async def run(self, over: asyncio.Event) -> None:
        subject = self._streams.subject("terminals")
        given_up = f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{self._streams.stream('JOBS')}.>"
        greeting = await self._streams.link.subscribe(subject, cb=self._greeted)
        advising = await self._streams.link.subscribe(given_up, cb=self._given_up)
        try:
            await over.wait()
        finally:
            for subscription in (greeting, advising):
                if not self._streams.link.is_closed:
                    await subscription.unsubscribe()

    async def _greeted(self, message: Any) -> None:
        asyncio.get_running_loop().create_task(self._answer(message))

    async def _answer(self, message: Any) -> None:
        try:
            hello = read_hello(message.data)
            if hello.leaving:
                await self._store.write(by_postgres.leave, hello.report.name, hello.drained)
                await message.respond(b"")
                return
            timing = self._streams.timing
            grant = await self._store.write(by_postgres.tend, hello.report, hello.drained, timing)
            await message.respond(encode(grant))
        except msgspec.ValidationError as error:
            if self._saying.worth(str(error)):
                log.error("terminal_not_understood", error=str(error), message="Install this version there too.")
            await message.respond(encode(Grant({}, (), 0.0, 0, time.time(), STRANGER)))
        except Exception as error:  # a terminal that hears nothing asks again
            log.error("terminal_not_answered", error=repr(error))

    async def _given_up(self, message: Any) -> None:
        """NATS has delivered a job as often as it may and nobody has said that it is done."""
        try:
            sequence = int(orjson.loads(message.data)["stream_seq"])
            stream = self._streams.stream("JOBS")
            found = await self._streams.context.get_msg(stream, seq=sequence)
            why = "Nobody who took it came back."
            await self._store.write(jobs.put_aside, self._streams.strip(found.subject), found.data or b"", why)
            await self._streams.context.delete_msg(stream, sequence)
            log.error("message_put_aside", subject=found.subject)
        except Exception as error:
            log.error("advisory_not_followed", error=repr(error))


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
            await self._streams.patience.until_done("jobs", "JOBS", partial(_offer, self._streams, [job]))
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


async def carrier(streams: Streams, store: Store) -> str:
    """The identity of this cluster's streams: what they say themselves; where there are none yet, one process gives it.

    ClusterError where the database's cluster is alive but its streams are not here: they are on another NATS.
    """
    mine = f"{random.getrandbits(64):016x}"
    end = awake() + streams.timing.lease
    while True:
        there = await streams.identity()
        if there is not None:
            return there
        given = await store.write(_identity, mine, streams.timing.lease)
        if given is not None:
            return given
        if awake() > end:
            raise ClusterError(
                "Another cluster lives on this database, and this NATS has no streams of it. Give the address of its "
                "NATS, or a database of its own."
            )
        await asyncio.sleep(0.2)


def _identity(connection: Connection, mine: str, seconds: float) -> str | None:
    """The identity that new streams get; None while somebody else is making them, or has made them elsewhere."""
    held = leases.read(connection, CLUSTER)
    if held and held[0].until > leases.clock(connection):
        return None
    name = held[0].holder if held and held[0].holder not in ("", "postgresql") else mine
    return name if leases.take(connection, CLUSTER, name, seconds) is not None else None
