"""Commands beside a cluster fetch through its terminals, so that no host sees two of us at once."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from click.testing import Result
from cluster_in_process import roles, settings, terminal_of
from typer.testing import CliRunner

from headwater.assembly import build
from headwater.cli.main import build_app
from headwater.cluster import fetcher_setup
from headwater.cluster.demo.servers import NatsServer
from headwater.cluster.fetcher_setup import open_cluster_fetch
from headwater.errors import ClusterError
from headwater.fetch.http.remote_session import RemoteRequest
from headwater.node.request_grants import RemoteGrant, RemoteGrants
from headwater.store import cluster_leases
from headwater.store.content.feeds import NewFeed, list_feeds
from headwater.store.content.refreshes import list_refreshes
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store


async def command(*arguments: str, **more: Any) -> Result:
    """Run a command as a user would, in a thread with its own event loop."""
    env = {f"HEADWATER_{key}": str(value) for key, value in more.items()} | {"HEADWATER_ALLOW_PRIVATE": "1"}
    return await asyncio.to_thread(CliRunner().invoke, build_app(arguments), list(arguments), env=env)


class GenerousGrants(RemoteGrants):
    """Grants without a leader."""

    async def ask(self) -> RemoteGrant:
        return RemoteGrant(0, time.time() + 60.0)


async def test_feeds_are_added_and_refreshed_by_the_terminals(
    farm, url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    made = await farm(feeds=2, hosts=1, speed=100, latency=1.0, hints=False)
    [known] = await store.write(add_and_subscribe, [NewFeed(made.url(0))], time.time())
    given = settings(database=url, nats=nats.url, nats_prefix=prefix)
    common = {"DATABASE": url, "CLUSTER_LEASE": given.cluster_lease, "NATS_PREFIX": prefix}
    async with roles(given, "controller", "terminal", "storer"):

        async def refreshed() -> bool:
            return bool(await store.read(list_refreshes, known.feed.id))

        await eventually(refreshed, "the feed is refreshed")
        refused = await command("feeds", "add", made.url(1), **common)
        added = await command("feeds", "add", made.url(1), "--nats", nats.url, **common)
        asked = await command("feeds", "refresh", "--all", NATS=nats.url, **common)
    assert isinstance(refused.exception, ClusterError)
    assert "Give the address of its NATS by --nats" in str(refused.exception)
    assert (added.exit_code, asked.exit_code) == (0, 0), (added, asked)
    assert {one.url for one in await store.read(list_feeds)} == {made.url(0), made.url(1)}
    reasons = {one.reason for one in await store.read(list_refreshes, known.feed.id, limit=100) if one.ending.ok}
    assert "asked for by a person" in reasons
    assert set(made.log.most_at_once.values()) == {1}
    assert len({line.peer for line in made.log}) <= 2  # connections: none from the commands


async def test_beside_nodes_on_one_database_their_terminals_ask(farm, url: str, store: Store, eventually) -> None:
    made = await farm(feeds=1, hosts=1, speed=100, hints=False)
    async with build("node", settings(database=url, member="a")) as node:
        await eventually(lambda: len(terminal_of(node).holdings.held) == 256, "it holds all hosts")
        added = await command("feeds", "add", made.url(0), DATABASE=url)
        assert added.exit_code == 0, added
        assert terminal_of(node).counts["errands"] >= 1
    assert len(made.log) >= 1


async def test_where_there_is_no_terminal_a_command_asks_itself(url: str, store: Store) -> None:
    given = settings(database=url)
    async with open_cluster_fetch(given, store) as proxy:
        assert proxy is None
    await store.write(cluster_leases.record_heartbeat, "c", "controller", '{"name": "c", "role": "controller"}')
    async with open_cluster_fetch(given, store) as proxy:
        assert proxy is None


async def test_a_terminal_that_does_not_answer_and_a_nats_of_others_are_told_in_sentences(
    url: str, store: Store, nats: NatsServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.cluster.transport.proxied_requests.REPLY_SECONDS", 0.3)
    monkeypatch.setattr(fetcher_setup, "RemoteGrants", GenerousGrants)
    await store.write(cluster_leases.record_heartbeat, "n", "node", '{"name": "n", "role": "node"}')
    async with open_cluster_fetch(settings(database=url), store) as proxy:
        assert proxy is not None
        with pytest.raises(ClusterError, match=r"No terminal has asked one\.example"):
            await proxy(RemoteRequest("https://one.example/", {}))
    await store.write(cluster_leases.remove_member, "n")
    await store.write(cluster_leases.record_heartbeat, "t", "terminal", '{"name": "t", "role": "terminal"}')
    monkeypatch.setattr(fetcher_setup, "CONNECT_SECONDS", 0.1)
    for address, said in ((nats.url, "has no streams of the cluster"), ("nats://127.0.0.1:9", "cannot be reached")):
        with pytest.raises(ClusterError, match=said):
            async with open_cluster_fetch(settings(database=url, nats=address, nats_prefix=prefix), store):
                pass
