"""A NATS with a full disk or at its limits is reported with advice, and nothing is lost."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from cluster_in_process import LEASE, all_matched, roles, settings, streams_at
from full_disks import fill, needs_root, small_disk
from structlog.testing import capture_logs

from headwater.assembly import ROLES
from headwater.cluster.cluster_status import read_cluster_status
from headwater.cluster.demo.audit import audit_run
from headwater.cluster.demo.servers import nats_server
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.membership import load_cluster_id
from headwater.cluster.transport import nats_publisher
from headwater.cluster.transport import nats_streams as cluster_streams
from headwater.cluster.transport.nats_connection import connect_nats
from headwater.cluster.transport.nats_errors import JetStreamRefusal, explain_refusal
from headwater.cluster.transport.nats_streams import NatsStreams
from headwater.errors import ClusterError
from headwater.store.content.feeds import NewFeed
from headwater.store.content.items import count_items
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store

MEGABYTE = 1 << 20


@pytest.mark.parametrize(
    ("refusal", "stream", "words"),
    [
        (
            JetStreamRefusal(10023, "insufficient resources"),
            "RESULTS",
            ("RESULTS", "max_file_store", "restart"),
        ),
        (JetStreamRefusal(10023, "insufficient resources"), "JOBS", ("JOBS", "max_memory_store", "restart")),
        (JetStreamRefusal(10002, "resource limits exceeded for account"), "RESULTS", ("our account", "Raise")),
        (
            JetStreamRefusal(10047, "insufficient storage resources available"),
            "RESULTS",
            ("no room", "max_file_store", "1.1 GB"),
        ),
        (
            JetStreamRefusal(10028, "insufficient memory resources available"),
            "JOBS",
            ("no room", "max_memory_store", "64 MB"),
        ),
        (JetStreamRefusal(10077, "maximum bytes exceeded"), "RESULTS", ("RESULTS", "full", "storers", "start more")),
        (JetStreamRefusal(10077, "maximum bytes exceeded"), "JOBS", ("JOBS", "full", "terminals")),
        (
            JetStreamRefusal(10077, "write 1.blk: no space left on device"),
            "RESULTS",
            ("disk", "store_dir", "Free", "restart"),
        ),
        (
            JetStreamRefusal(10039, "JetStream not enabled for account"),
            "RESULTS",
            ("out of service", "disk", "Free", "restart"),
        ),
        (JetStreamRefusal(10076, "JetStream not enabled"), "JOBS", ("out of service", "store_dir", "switch it on")),
        (JetStreamRefusal(10008, "JetStream system temporarily unavailable"), "JOBS", ("no leader", "try again")),
        (JetStreamRefusal(10059, "stream not found"), "JOBS", ("JOBS", "anew")),
        (JetStreamRefusal(10000, "something else"), "JOBS", ("JOBS", "something else (10000)")),
    ],
)
def test_every_refusal_says_what_is_full_where_and_what_to_do(
    refusal: JetStreamRefusal, stream: str, words: tuple[str, ...]
) -> None:
    said = explain_refusal(refusal, stream, "nats://broker:4222")
    assert "nats://broker:4222" in said
    assert [word for word in words if word not in said] == []


def test_only_a_second_message_for_a_subject_is_no_trouble() -> None:
    assert JetStreamRefusal(10077, "maximum messages per subject exceeded").is_duplicate
    assert not JetStreamRefusal(10077, "maximum bytes exceeded").is_duplicate


@needs_root
async def test_a_disk_that_is_really_full_is_reported_and_all_goes_on_when_there_is_space_and_nats_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_publisher, "ACK_SECONDS", 2.0)
    with small_disk(tmp_path / "disk", 16) as disk, nats_server(disk) as broker:
        async with streams_at(broker.url, "") as streams:
            await streams.ensure_streams("a cluster")
            message = ("res.7", bytes(100_000), None)
            assert await streams.publish_messages([message]) == [True]
            ballast = fill(disk)

            async def publish() -> list[bool]:
                return await streams.publish_messages([message] * 10)

            async def publish_on() -> None:
                for _ in range(20):
                    await streams.retry.run_once("results", "RESULTS", publish)

            with capture_logs() as said, pytest.raises(ClusterError) as caught:
                await publish_on()
            for words in ("RESULTS", "the disk under", "is full", "Free some space", "restart NATS", broker.url):
                assert words in str(caught.value)
            assert streams.retry.problem == str(caught.value)
            assert [one["error"] for one in said if one["event"] == "nats_unavailable"] == [str(caught.value)]
            waiting = asyncio.create_task(streams.retry.retry_until_done("results", "RESULTS", publish))
            ballast.unlink()
            await asyncio.sleep(2.5)
            assert not waiting.done()  # NATS does not resume by itself
            broker.kill()
            await asyncio.to_thread(broker.start)
            assert await asyncio.wait_for(waiting, 60) == [True] * 10
            assert streams.retry.problem is None


async def test_a_used_up_store_of_nats_is_reported_and_nothing_is_lost_when_there_is_room_again(
    farm, url: str, store: Store, tmp_path: Path, eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_streams, "RESULTS_BYTES", MEGABYTE)
    made = await farm(feeds=6, hosts=3, speed=100, rates=(5, 50), hints=False, window=400)
    await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(6)], time.time())
    await store.write(run_script, "CREATE FEED Everything AS RETURN ALL", time.time())
    with nats_server(tmp_path, file_store="4MB") as broker:
        given = settings(database=url, nats=broker.url)
        async with streams_at(broker.url, "") as streams:
            await streams.ensure_streams(await load_cluster_id(store))

            await streams.context.add_stream(name="BALLAST", subjects=["ballast.*"])  # another user's

            async def publish_on() -> None:
                for k in range(100):
                    await streams.publish_messages([(f"ballast.{k}", bytes(200_000), None)])

            with pytest.raises(ClusterError, match="refused"):
                await publish_on()
            async with roles(given, "controller", "storer", "terminal") as running:

                async def is_reported() -> bool:
                    problems = (await read_cluster_status(store)).problems
                    return any("terminal" in one and "max_file_store" in one for one in problems)

                await eventually(is_reported, "the status says so")
                assert not running.failures()
                assert await store.read(count_items) == 0
                await streams.context.purge_stream("BALLAST")
                running.start("processor", "processor")
                await eventually(lambda: all_matched(store), "everything stored has met the query")

                async def well() -> bool:
                    found = await read_cluster_status(store, streams)
                    return not [one for one in found.problems if "NATS" in one]

                await eventually(well, "and nobody complains")
                await running.stop_storing()
                await eventually(lambda: all_matched(store), "what came since, too")
    found = await audit_run(made, store, "Everything")
    assert found.is_clean, found


async def test_a_nats_with_too_little_room_for_the_streams_is_refused_with_a_sentence(
    url: str, store: Store, tmp_path: Path
) -> None:
    said = r"no room for our streams: its limit max_file_store .* 1\.1 GB"
    with nats_server(tmp_path, file_store="100MB") as broker, pytest.raises(ClusterError, match=said):
        await asyncio.wait_for(ROLES["storer"](settings(database=url, nats=broker.url), asyncio.Event()), 30)


async def test_a_nats_without_jetstream_is_reported(store: Store, tmp_path: Path) -> None:
    with nats_server(tmp_path, file_store=None) as broker:
        link = await connect_nats(broker.url, "test")
        found = await read_cluster_status(store, NatsStreams(link, "", LeaseTiming(LEASE)))
        await link.close()
    assert len([one for one in found.problems if "JetStream is out of service" in one]) == 1
