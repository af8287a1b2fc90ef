"""Clusters and settings that contradict each other are refused with advice; a missing server is retried."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest
from cluster_in_process import LEASE, roles, settings, streams_at

from headwater.assembly import ROLES, build
from headwater.cluster import membership
from headwater.cluster.cluster_status import read_cluster_status
from headwater.cluster.demo.servers import NatsServer, nats_server
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.membership import LocalMember, Membership, load_cluster_id
from headwater.cluster.transport.nats_connection import connect_nats, redact_address
from headwater.errors import ClusterError, SettingsError, StoreError
from headwater.store.store import Store


async def test_a_nats_that_is_not_there_is_waited_for_and_then_reported_to_be_unreachable() -> None:
    began = time.monotonic()
    with pytest.raises(ClusterError, match="cannot be reached") as caught:
        await connect_nats("nats://somebody:secret@127.0.0.1:1", "test", patience=1.5)
    assert time.monotonic() - began > 0.5
    assert "secret" not in str(caught.value)


async def test_a_nats_that_comes_later_is_found(tmp_path: Path) -> None:
    server = NatsServer(tmp_path)
    connecting = asyncio.create_task(connect_nats(server.url, "test", patience=30.0))
    await asyncio.sleep(0.5)
    await asyncio.to_thread(server.start)
    try:
        link = await connecting
        await link.close()
    finally:
        server.kill()


async def test_an_old_nats_is_refused_by_its_version() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        info = {"server_id": "old", "version": "2.9.25", "max_payload": 1048576, "proto": 1, "headers": True}
        writer.write(b"INFO " + orjson.dumps(info) + b"\r\n")
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(ClusterError, match=r"is version 2\.9; Headwater needs 2\.10"):
        await connect_nats(f"nats://127.0.0.1:{port}", "test", patience=2.0)
    server.close()


async def test_wrong_credentials_are_reported_at_once(tmp_path: Path) -> None:
    with nats_server(tmp_path, more='authorization { user: "a", password: "right" }\n') as server:
        began = time.monotonic()
        with pytest.raises(ClusterError, match="refused our credentials") as caught:
            await connect_nats(server.url.replace("//", "//a:wrong@"), "test")
        assert time.monotonic() - began < 30
        assert "wrong" not in str(caught.value)
        link = await connect_nats(server.url.replace("//", "//a:right@"), "test")
        await link.close()


def test_addresses_are_shown_without_what_is_secret() -> None:
    assert redact_address("nats://u:p@one:4222, tls://u:p@two:4222") == "nats://one:4222,tls://two:4222"


@pytest.mark.parametrize("role", sorted(ROLES))
async def test_a_role_says_what_it_lacks(role: str) -> None:
    with pytest.raises(SettingsError, match="--nats" if role == "terminal" else "needs PostgreSQL"):
        await ROLES[role](settings(), asyncio.Event())
    with pytest.raises(SettingsError, match="--nats"):
        await ROLES[role](settings(database="postgresql://nobody@nowhere/x"), asyncio.Event())


async def test_a_database_that_refuses_us_is_not_waited_for(postgres, nats: NatsServer, prefix: str) -> None:
    postgres.guarded_url("right")
    given = settings(database=postgres.guarded_url("wrong"), nats=nats.url, nats_prefix=prefix)
    with pytest.raises(StoreError, match="refused the password"):
        await asyncio.wait_for(ROLES["storer"](given, asyncio.Event()), 30)


async def test_two_clusters_on_one_database_are_refused_while_the_first_lives(
    url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    given = settings(database=url, nats=nats.url, nats_prefix=prefix, cluster_lease=3.0)
    async with roles(given, "storer"):

        async def joined() -> bool:
            return bool((await read_cluster_status(store)).members)

        await eventually(joined, "the first cluster is there")
        with pytest.raises(ClusterError, match="Another cluster lives on this database"):
            async with build("node", settings(database=url, cluster_lease=3.0)):
                pytest.fail("a node must not join")
        with pytest.raises(ClusterError, match="this NATS has no streams of it"):
            await ROLES["controller"](given.with_changes({"nats_prefix": f"{prefix}b"}), asyncio.Event())
    await asyncio.sleep(given.cluster_lease + 1)
    async with build("node", settings(database=url, cluster_lease=3.0)):  # the first has stopped: now it may
        with pytest.raises(ClusterError, match="its jobs go by PostgreSQL alone, ours would go by NATS"):
            await ROLES["storer"](given, asyncio.Event())


async def test_of_two_kinds_that_start_at_once_one_is_refused(store: Store) -> None:
    timing = LeaseTiming(LEASE)
    for attempt in range(5):
        kinds = {"node": False, "storer": True}
        joining = [
            Membership(store, LocalMember(settings(member=f"{role}{attempt}"), role), timing, uses_nats=uses_nats)
            for role, uses_nats in kinds.items()
        ]
        ended = await asyncio.gather(*(one.join() for one in joining), return_exceptions=True)
        assert sorted(type(one).__name__ for one in ended) == ["ClusterError", "NoneType"]
        for one in joining:
            await one.leave()


async def test_a_member_that_hung_while_another_kind_took_the_database_says_so(store: Store) -> None:
    node = Membership(store, LocalMember(settings(member="n"), "node"), LeaseTiming(LEASE), uses_nats=False)
    await node.check()
    assert node.problem is None
    await Membership(store, LocalMember(settings(member="s"), "storer"), LeaseTiming(LEASE), uses_nats=True).join()
    await node.check()
    assert node.problem is not None
    assert "Another cluster lives on this database" in node.problem


async def test_streams_of_another_database_are_refused(url: str, nats: NatsServer, prefix: str) -> None:
    async with streams_at(nats.url, prefix) as streams:
        await streams.ensure_streams("another database's id")
    given = settings(database=url, nats=nats.url, nats_prefix=prefix)
    with pytest.raises(ClusterError, match="belong to another cluster"):
        await ROLES["storer"](given, asyncio.Event())


async def test_the_id_of_a_cluster_is_made_once(store: Store) -> None:
    ids = await asyncio.gather(*(load_cluster_id(store) for _ in range(8)))
    assert len(set(ids)) == 1
    assert len(ids[0]) == 16


async def test_a_clock_that_is_wrong_is_reported_and_leases_do_not_mind(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = Membership(store, LocalMember(settings(member="m"), "node"), LeaseTiming(LEASE), uses_nats=False)
    await member.join()
    await member.heartbeat()
    assert member.problem is None
    monkeypatch.setattr(membership, "time", SimpleNamespace(time=lambda: time.time() + 90.0))
    await member.heartbeat()
    assert member.problem is not None
    assert "90 seconds ahead of the database's" in member.problem
