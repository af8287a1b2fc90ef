"""Carries jobs and results by NATS streams between the roles of a cluster.

A terminal has no database: it asks the leader for partitions by request and reply, pulls jobs from the durable
consumers of those partitions, and publishes results to a stream from which storers pull them.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import orjson
import structlog

from headwater.cluster.transport.nats_dispatch import parse_job_subject
from headwater.cluster.transport.nats_publisher import OutgoingMessage
from headwater.cluster.transport.nats_streams import MAX_DELIVERIES, STORER_CONSUMER, NatsStreams, consumer_name
from headwater.cluster.transport.proxied_requests import encode_reply
from headwater.cluster.transport.wire_messages import (
    Grant,
    Hello,
    MemberReport,
    decode_results,
    describe_unreadable,
    encode,
    encode_results,
    read_addressed_job,
    read_grant,
)
from headwater.errors import ClusterError, HeadwaterError
from headwater.fetch.http.remote_session import RemoteReply
from headwater.loops import boot_clock, pause
from headwater.node.crawl.transport import FetchResult, Intake, OnSafe, ReceivedJob, ResultBatch
from headwater.store import cluster_jobs
from headwater.store.store import Store

PULL_SECONDS = 20.0  # that a pull request is open
SCAN_SECONDS = 0.25  # between two looks for pull requests that ended without notice
MIN_PULL = 8  # jobs in a pull request; the leader limits how many a terminal can get
BATCH_SECONDS = 0.1  # that a result waits for others, unless there are enough
MAX_BATCH, MAX_BATCH_BYTES = 64, 1 << 20  # results in a message, and bytes that were fetched for them
MAX_MESSAGES, MAX_RESULTS = 64, 256  # fetched at once by a storer, and stored in one transaction, or a few more
STORE_SECONDS, MIN_STORE_SECONDS = 0.2, 0.01  # that stored results wait for others, unless there are enough
FIRST_FETCH_SECONDS = 1.0
MIN_FETCH = 3  # messages in a request
SUBJECT_HEADER, PROBLEM_HEADER = "Headwater-Subject", "Headwater-Problem"  # of a job that a terminal could not read

_Decoded = tuple[Any, list[FetchResult] | Exception]  # a message with its results, or why it cannot be read

log = structlog.get_logger()


@dataclass(slots=True)
class _PullRequest:
    left: int
    until: float

    def is_over(self, now: float) -> bool:
        return self.left <= 0 or self.until < now


class NatsJobReceiver:
    """A terminal's side of the transport."""

    def __init__(self, streams: NatsStreams, report: Callable[[], MemberReport]) -> None:
        self._streams = streams
        self._report = report
        self._pulls: dict[int, _PullRequest] = {}
        self._spent_partitions: set[int] = set()  # whose pull requests have been fulfilled, or have run out
        self._received: list[ReceivedJob] = []
        self._results: list[tuple[FetchResult, OnSafe]] = []
        self._batch_full = asyncio.Event()
        self._sending: asyncio.Task[None] | None = None
        self._sending_aside: set[asyncio.Task[None]] = set()

    # partitions

    async def renew_partitions(self, drained: Mapping[int, int]) -> Grant:
        return read_grant(await self._send_hello(Hello(self._report(), dict(drained))))

    async def release_partitions(self, held: Mapping[int, int]) -> None:
        await self._send_hello(Hello(self._report(), dict(held), leaving=True))

    async def _send_hello(self, hello: Hello) -> bytes:
        from nats.errors import Error as NatsError

        subject, seconds = self._streams.full_subject("terminals"), 2 * self._streams.timing.heartbeat_seconds
        try:
            answer = await self._streams.link.request(subject, encode(hello), timeout=seconds)
        except (NatsError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            raise ClusterError(
                f"No controller answers ({reason}). Start one, or wait until one leads; until then nothing is fetched."
            ) from error
        return bytes(answer.data)

    # jobs

    async def receive_jobs(self, intake: Intake) -> AsyncIterator[Sequence[ReceivedJob]]:
        """Pull jobs of the open partitions; all consumers answer to one inbox."""
        link = self._streams.link
        api = f"$JS.API.CONSUMER.MSG.NEXT.{self._streams.stream_name('JOBS')}."
        inbox, subscription = await self._subscribe_inbox(intake)
        connected, held, looked = link.stats["reconnects"], set[int](), -SCAN_SECONDS
        try:
            while True:
                intake.demand_changed.clear()
                if self._received:
                    received, self._received = self._received, []
                    yield received
                mine, now = intake.open_partitions, boot_clock()
                if connected != link.stats["reconnects"]:  # perhaps to a broker without our pull requests
                    connected, looked = link.stats["reconnects"], -SCAN_SECONDS
                    self._pulls.clear()
                if held != set(mine) or now >= looked + SCAN_SECONDS:
                    held, looked = set(mine), now
                    if self._has_stale_pulls(held, now):
                        # An open pull request brings jobs as long as its inbox is subscribed: use another inbox.
                        with contextlib.suppress(Exception):
                            await subscription.drain()
                        self._pulls.clear()
                        inbox, subscription = await self._subscribe_inbox(intake)
                    self._spent_partitions = {
                        p for p in mine if (pull := self._pulls.get(p)) is None or pull.is_over(now)
                    }
                if self._spent_partitions and intake.room > 0:
                    each = max(intake.concurrency // max(len(mine), 1), MIN_PULL)
                    asked = orjson.dumps({"batch": each, "expires": int(PULL_SECONDS * 1e9)})
                    wanted, self._spent_partitions = self._spent_partitions.intersection(mine), set()
                    for p in wanted:
                        self._pulls[p] = _PullRequest(each, now + PULL_SECONDS)
                        await link.publish(api + consumer_name(p), asked, reply=f"{inbox}.{p}")
                await pause(intake.demand_changed, SCAN_SECONDS)
        finally:
            await subscription.unsubscribe()

    async def _subscribe_inbox(self, intake: Intake) -> tuple[str, Any]:
        inbox = self._streams.link.new_inbox()

        async def receive(message: Any) -> None:
            self._receive_message(intake, message)

        return inbox, await self._streams.link.subscribe(f"{inbox}.*", cb=receive)

    def _has_stale_pulls(self, held: Collection[int], now: float) -> bool:
        """Whether a pull request is open for a partition that we no longer hold."""
        return any(p not in held and pull.left > 0 and pull.until > now for p, pull in self._pulls.items())

    def _receive_message(self, intake: Intake, message: Any) -> None:
        partition = int(message.subject.rpartition(".")[2]) if not message.reply else -1
        if partition >= 0:  # not a job: a pull request ended, or the consumer is missing
            pull = self._pulls.get(partition)
            if pull is not None:
                pull.left, pull.until = 0, 0.0
                if message.headers and message.headers.get("Status") not in ("404", "408"):
                    pull.left, pull.until = 1, boot_clock() + random.uniform(0.5, 1.5)  # not again at once
                else:
                    self._spent_partitions.add(partition)
            intake.demand_changed.set()
            return
        address = parse_job_subject(message.subject)
        try:
            self._received.append(ReceivedJob(read_addressed_job(message.data, address), message))
        except msgspec.DecodeError as error:
            self._put_aside(message, describe_unreadable(error))
        pull = None if address is None else self._pulls.get(address[0])
        if pull is not None:
            pull.left -= 1
            if pull.left <= 0:
                self._spent_partitions.add(partition)
        intake.demand_changed.set()

    def _put_aside(self, message: Any, problem: str) -> None:
        """Send a job that cannot be read to the storers, which put it aside: a terminal has no database."""
        subject = self._streams.strip_prefix(message.subject)
        log.error("job_unreadable", subject=subject, problem=problem)
        headers = {SUBJECT_HEADER: subject, PROBLEM_HEADER: ascii(problem)[1:-1]}
        outgoing = (self._streams.full_subject("res.unreadable"), message.data, headers)

        async def send() -> None:
            publish = partial(self._streams.publish_messages, [outgoing])
            await self._streams.retry.retry_until_done("results", "RESULTS", publish)
            await message.ack()

        task = asyncio.create_task(send())
        self._sending_aside.add(task)
        task.add_done_callback(self._sending_aside.discard)

    async def ack_job(self, received: ReceivedJob) -> None:
        await received.token.ack()

    async def give_back(self, received: ReceivedJob) -> None:
        await received.token.nak(delay=random.uniform(0.2, 1.0))

    async def drop_job(self, received: ReceivedJob) -> None:
        await received.token.ack()

    async def reply(self, received: ReceivedJob, reply: RemoteReply) -> None:
        request = received.job.errand
        if request is not None:
            await self._streams.link.publish(request.reply, encode_reply(reply, self._streams.link.max_payload))
        await received.token.ack()

    # results: safe when the broker has acknowledged them; a full stream is retried

    async def send_result(self, result: FetchResult, on_safe: OnSafe) -> None:
        """Queue a result; those that come within a moment go together in one message."""
        self._results.append((result, on_safe))
        if len(self._results) >= MAX_BATCH:
            self._batch_full.set()
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_results())

    def abandon_results(self) -> None:
        for task in (*self._sending_aside, *filter(None, [self._sending])):
            task.cancel()

    async def _send_results(self) -> None:
        while self._results:
            await pause(self._batch_full, BATCH_SECONDS)
            heavy = itertools.accumulate(result.outcome.bytes for result, _ in self._results)
            some = max(sum(total < MAX_BATCH_BYTES for total in itertools.islice(heavy, MAX_BATCH)), 1)
            batch, self._results = self._results[:some], self._results[some:]
            if len(self._results) < MAX_BATCH:
                self._batch_full.clear()
            problem = await self._publish_results([result for result, _ in batch])
            for _, on_safe in batch:
                await on_safe(problem)

    async def _publish_results(self, results: Sequence[FetchResult]) -> Exception | None:
        try:
            largest = max(self._streams.link.max_payload - 4096, 4096)
            messages: list[OutgoingMessage] = [
                (self._streams.full_subject(f"res.{some[0].job.partition}"), body, None)
                for some, body in encode_results(results, largest)
            ]
            # A message whose acknowledgement was lost is published again; storers recognise it.
            publish = partial(self._streams.publish_messages, messages)
            await self._streams.retry.retry_until_done("results", "RESULTS", publish)
        except Exception as error:
            log.error("results_not_delivered", results=len(results), error=repr(error))
            return error
        return None


class NatsResultReceiver:
    """A storer's side of the transport: batches of RESULTS, acknowledged when they are stored.

    A message that cannot be read, or whose results cannot be stored, is quarantined with its body after three tries.
    """

    def __init__(self, streams: NatsStreams, store: Store) -> None:
        self._streams = streams
        self._store = store
        self.quarantined = 0

    async def receive_results(self, stop: asyncio.Event) -> AsyncIterator[ResultBatch]:
        async for messages in self._pull_messages(stop):
            batch: list[tuple[Any, list[FetchResult]]] = []
            for message, results in messages:
                if isinstance(results, _UnreadableJob):
                    await self._quarantine(message, results.subject, message.data, str(results))
                elif isinstance(results, Exception):
                    await self._reject_message(message, message.data, describe_unreadable(results))
                elif message.metadata.num_delivered > MAX_DELIVERIES:  # its storers failed or died
                    yield _make_batch([(message, results)])
                else:
                    batch.append((message, results))
                    if _count_results(batch) >= MAX_RESULTS:
                        yield _make_batch(batch)
                        batch = []
            if batch:
                yield _make_batch(batch)

    async def _pull_messages(self, stop: asyncio.Event) -> AsyncIterator[list[_Decoded]]:
        """Yield messages in batches until `stop` is set; wait while the stream or NATS is gone."""
        retry, what, subscription = self._streams.retry, "messages of RESULTS", None
        while not stop.is_set():
            try:
                if subscription is None:
                    name = self._streams.stream_name("RESULTS")
                    subscription = await self._streams.context.pull_subscribe_bind(STORER_CONSUMER, name)
                messages = await self._fetch_messages(subscription)
            except TimeoutError:  # there are none
                retry.record_success(what)
                continue
            except Exception as error:
                await retry.record_failure(what, "RESULTS", error)
                if subscription is not None:
                    with contextlib.suppress(Exception):
                        await subscription.unsubscribe()
                subscription = None
                await pause(stop, random.uniform(0.5, 1.5))
                continue
            retry.record_success(what)
            yield messages

    async def _fetch_messages(self, subscription: Any) -> list[_Decoded]:
        """Fetch the first message, and those that come within a moment, until there is enough for a transaction."""
        found = [_decode_message(one) for one in await subscription.fetch(1, timeout=FIRST_FETCH_SECONDS)]
        end = boot_clock() + STORE_SECONDS
        with contextlib.suppress(Exception):  # a problem shows at the next fetch; these are to be stored
            while (
                _count_results(found) < MAX_RESULTS
                and len(found) < MAX_MESSAGES
                and (left := end - boot_clock()) > MIN_STORE_SECONDS
            ):
                waiting, room = found[-1][0].metadata.num_pending, MAX_MESSAGES - len(found)
                more = await subscription.fetch(min(max(waiting, MIN_FETCH), room), timeout=left)
                found += [_decode_message(one) for one in more]
        return found

    async def ack_results(self, batch: ResultBatch) -> None:
        for message, _ in batch.token:
            await message.ack()

    async def keep_results(self, batch: ResultBatch) -> None:
        for message, _ in batch.token:
            await message.in_progress()

    async def reject_results(self, batch: ResultBatch, failed: Sequence[tuple[FetchResult, Exception]]) -> None:
        problems = {id(result): error for result, error in failed}
        for message, results in batch.token:
            bad = [one for one in results if id(one) in problems]
            if bad:
                why = f"Feed {bad[0].job.feed_id}: {problems[id(bad[0])]!r}"
                await self._reject_message(message, encode(bad), why)
            else:
                await message.ack()

    async def _reject_message(self, message: Any, body: bytes, problem: str) -> None:
        if message.metadata.num_delivered < MAX_DELIVERIES:
            await message.nak(delay=random.uniform(0.2, 1.0))
            return
        await self._quarantine(message, self._streams.strip_prefix(message.subject), body, problem)

    async def _quarantine(self, message: Any, subject: str, body: bytes, problem: str) -> None:
        try:
            await self._store.write(cluster_jobs.quarantine_message, subject, body, problem)
        except HeadwaterError as error:
            log.warning("message_not_quarantined", error=str(error))
            await message.nak(delay=5.0)
            return
        self.quarantined += 1
        log.error("message_quarantined", subject=subject, problem=problem)
        await message.ack()


class _UnreadableJob(Exception):
    """A job that a terminal could not read, with its subject."""

    def __init__(self, subject: str, problem: str) -> None:
        super().__init__(problem)
        self.subject = subject


def _decode_message(message: Any) -> _Decoded:
    if message.headers and PROBLEM_HEADER in message.headers:
        return message, _UnreadableJob(message.headers.get(SUBJECT_HEADER, ""), message.headers[PROBLEM_HEADER])
    try:
        return message, decode_results(message.data)
    except Exception as error:
        return message, error


def _count_results(found: Sequence[tuple[Any, list[FetchResult] | Exception]]) -> int:
    return sum(len(results) for _, results in found if not isinstance(results, Exception))


def _make_batch(messages: Sequence[tuple[Any, list[FetchResult]]]) -> ResultBatch:
    return ResultBatch([one for _, results in messages for one in results], messages)
