"""NATS carries jobs and results: the side of those who decide (`hands_by_nats` is the terminal's).

They publish jobs, and at the desk of whoever leads terminals ask for partitions.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import orjson
import structlog
from sqlalchemy import Connection

from headwater.cluster import by_postgres
from headwater.cluster.membership import CLUSTER
from headwater.cluster.messages import Grant, Job, encode, read_hello
from headwater.cluster.streams import Streams
from headwater.cluster.timing import awake
from headwater.errors import ClusterError
from headwater.node.saying import Saying
from headwater.store import jobs, leases
from headwater.store.store import Store

AT_ONCE = 256  # publishes under way
REFUSED_TWICE = 2

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
    return await streams.patience.once("jobs", "JOBS", partial(offer_once, streams, given))


async def offer_once(streams: Streams, given: Sequence[Job]) -> list[bool]:
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
    await _move_aside(streams, store, stream, message)


async def _move_aside(streams: Streams, store: Store, stream: str, message: Any) -> None:
    log.error("message_put_aside", subject=message.subject)
    await store.write(jobs.put_aside, streams.strip(message.subject), message.data or b"", by_postgres.GIVEN_UP)
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
            found = await self._streams.context.get_msg(self._streams.stream("JOBS"), seq=sequence)
            await _move_aside(self._streams, self._store, "JOBS", found)
        except Exception as error:
            log.error("advisory_not_followed", error=repr(error))


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
