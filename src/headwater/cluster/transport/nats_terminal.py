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

from headwater.cluster.fetch_pool import FetchPool
from headwater.cluster.transport.codec import encode_results
from headwater.cluster.transport.nats_dispatch import publish_jobs_once
from headwater.cluster.transport.nats_publisher import OutgoingMessage
from headwater.cluster.transport.nats_streams import NatsStreams, consumer_name
from headwater.cluster.transport.proxied_requests import encode_reply
from headwater.cluster.transport.terminal_ports import OnSafe, ReceivedJob
from headwater.cluster.transport.wire_messages import (
    FetchResult,
    Grant,
    Hello,
    Job,
    MemberReport,
    encode,
    read_grant,
    read_job,
)
from headwater.errors import ClusterError
from headwater.fetch.http.remote_session import RemoteReply
from headwater.loops import boot_clock, pause

PULL_SECONDS = 20.0  # seconds that a wish for jobs stands
BATCH_SECONDS = 0.1  # seconds that a result waits for others to go with, unless there are enough
MAX_BATCH, MAX_BATCH_BYTES = 64, 1 << 20  # results, and bytes that were fetched for them
SCAN_SECONDS = 0.25  # seconds between two looks at all wishes, whether some have run out unheard
MIN_PULL = 8  # jobs that are asked for at once; the controller sees to it that no terminal gets too many

log = structlog.get_logger()


class NatsPartitionSource:
    """The terminal's side of the desk."""

    def __init__(self, streams: NatsStreams, report: Callable[[], MemberReport]) -> None:
        self._streams = streams
        self._report = report

    async def renew_partitions(self, drained: Mapping[int, int]) -> Grant:
        return read_grant(await self._send_hello(Hello(self._report(), dict(drained))))

    async def release_partitions(self, held: Mapping[int, int]) -> None:
        await self._send_hello(Hello(self._report(), dict(held), leaving=True))

    async def _send_hello(self, hello: Hello) -> bytes:
        from nats.errors import Error as NatsError

        subject = self._streams.full_subject("terminals")
        try:
            answer = await self._streams.link.request(
                subject, encode(hello), timeout=2 * self._streams.timing.heartbeat_seconds
            )
        except (NatsError, TimeoutError) as error:
            said = str(error) or type(error).__name__
            raise ClusterError(
                f"No controller answers ({said}). Start one, or wait until one leads; until then nothing is fetched."
            ) from error
        return bytes(answer.data)


@dataclass(slots=True)
class _PullRequest:
    left: int
    until: float

    def is_over(self, now: float) -> bool:
        return self.left <= 0 or self.until < now


class NatsJobReceiver:
    """Asks the consumers of the terminal's partitions for jobs; all of them answer to one inbox."""

    def __init__(self, streams: NatsStreams) -> None:
        self._streams = streams
        self._pulls: dict[int, _PullRequest] = {}
        self._spent_partitions: set[int] = set()  # partitions whose wishes have been fulfilled, or have run out

    async def receive_jobs(self, terminal: FetchPool, stop: asyncio.Event) -> None:
        link = self._streams.link
        api = f"$JS.API.CONSUMER.MSG.NEXT.{self._streams.stream_name('JOBS')}."
        inbox, subscription = await self._subscribe_inbox(terminal)
        connected, held, looked = link.stats["reconnects"], terminal.holdings.held, -SCAN_SECONDS
        try:
            while not stop.is_set():
                terminal.demand_changed.clear()
                mine, now = terminal.open_partitions, boot_clock()
                if connected != link.stats["reconnects"]:  # to a broker that may know nothing of what we wished for
                    connected, looked = link.stats["reconnects"], -SCAN_SECONDS
                    self._pulls.clear()
                if terminal.holdings.held is not held or now >= looked + SCAN_SECONDS:
                    held, looked = terminal.holdings.held, now
                    if self._has_stale_pulls(mine, now):
                        # Jobs go to who wished for them as long as he listens, so: not there any more.
                        with contextlib.suppress(Exception):
                            await subscription.drain()
                        self._pulls.clear()
                        inbox, subscription = await self._subscribe_inbox(terminal)
                    self._spent_partitions = {
                        p for p in mine if (wish := self._pulls.get(p)) is None or wish.is_over(now)
                    }
                if self._spent_partitions and terminal.room > 0:
                    each = max(terminal.concurrency // max(len(mine), 1), MIN_PULL)
                    asked = orjson.dumps({"batch": each, "expires": int(PULL_SECONDS * 1e9)})
                    wanted, self._spent_partitions = self._spent_partitions.intersection(mine), set()
                    for p in wanted:
                        self._pulls[p] = _PullRequest(each, now + PULL_SECONDS)
                        await link.publish(api + consumer_name(p), asked, reply=f"{inbox}.{p}")
                await pause(terminal.demand_changed, SCAN_SECONDS)
        finally:
            await subscription.unsubscribe()

    async def _subscribe_inbox(self, terminal: FetchPool) -> tuple[str, Any]:
        inbox = self._streams.link.new_inbox()

        async def come(message: Any) -> None:
            await self._receive_message(terminal, message)

        return inbox, await self._streams.link.subscribe(f"{inbox}.*", cb=come)

    def _has_stale_pulls(self, mine: Collection[int], now: float) -> bool:
        """Whether jobs of a partition are on their way to us that is ours no more."""
        held = set(mine)
        return any(p not in held and wish.left > 0 and wish.until > now for p, wish in self._pulls.items())

    async def _receive_message(self, terminal: FetchPool, message: Any) -> None:
        partition = int(message.subject.rpartition(".")[2]) if not message.reply else -1
        if partition >= 0:  # no job: a wish that has run out, or a consumer that is not there
            wish = self._pulls.get(partition)
            if wish is not None:
                wish.left, wish.until = 0, 0.0
                if message.headers and message.headers.get("Status") not in ("404", "408"):
                    wish.left, wish.until = 1, boot_clock() + random.uniform(0.5, 1.5)  # not again at once
                else:
                    self._spent_partitions.add(partition)
            terminal.demand_changed.set()
            return
        job = read_job(message.data)
        wish = self._pulls.get(job.partition)
        if wish is not None:
            wish.left -= 1
            if wish.left <= 0:
                self._spent_partitions.add(job.partition)
                terminal.demand_changed.set()

        async def give_back() -> None:
            await message.nak(delay=random.uniform(0.2, 1.0))

        async def hand_on(job: Job) -> None:
            await self._streams.retry.retry_until_done("jobs", "JOBS", partial(publish_jobs_once, self._streams, [job]))
            await message.ack()

        async def answer(hopped: RemoteReply) -> None:
            assert job.errand is not None
            body = encode_reply(hopped, self._streams.link.max_payload)
            await self._streams.link.publish(job.errand.reply, body)
            await message.ack()

        terminal.accept_job(ReceivedJob(job, message.ack, give_back, message.ack, hand_on, answer))


class NatsResultSender:
    """The terminal's side: a result is safe when the broker has said so. A full stream is waited for.

    Results that come while others are on their way, or within a moment, go together in one message.
    """

    def __init__(self, streams: NatsStreams) -> None:
        self._streams = streams
        self._waiting: list[tuple[FetchResult, OnSafe]] = []
        self._batch_full = asyncio.Event()
        self._sending: asyncio.Task[None] | None = None

    def send_result(self, result: FetchResult, then: OnSafe) -> None:
        self._waiting.append((result, then))
        if len(self._waiting) >= MAX_BATCH:
            self._batch_full.set()
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_waiting())

    def abandon(self) -> None:
        if self._sending is not None:
            self._sending.cancel()

    async def _send_waiting(self) -> None:
        """Until nothing waits."""
        while self._waiting:
            await pause(self._batch_full, BATCH_SECONDS)
            heavy = itertools.accumulate(result.outcome.bytes for result, _ in self._waiting)
            some = max(sum(total < MAX_BATCH_BYTES for total in itertools.islice(heavy, MAX_BATCH)), 1)
            batch, self._waiting = self._waiting[:some], self._waiting[some:]
            if len(self._waiting) < MAX_BATCH:
                self._batch_full.clear()
            problem = await self._publish_results([result for result, _ in batch])
            for _, then in batch:
                await then(problem)

    async def _publish_results(self, results: Sequence[FetchResult]) -> Exception | None:
        try:
            largest = max(self._streams.link.max_payload - 4096, 4096)
            messages: list[OutgoingMessage] = [
                (self._make_subject(some[0]), body, None) for some, body in encode_results(results, largest)
            ]
            # What was taken although we did not hear of it is published again; storers see that they have it already.
            await self._streams.retry.retry_until_done(
                "results", "RESULTS", partial(self._streams.publish_messages, messages)
            )
        except Exception as error:
            log.error("results_not_delivered", results=len(results), error=repr(error))
            return error
        return None

    def _make_subject(self, first: FetchResult) -> str:
        return self._streams.full_subject(f"res.{first.job.partition}")
