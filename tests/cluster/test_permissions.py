"""The permissions in docs/cluster.md suffice for each role, and a terminal has only those it needs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import nats.errors
import pytest
from cluster_in_process import all_matched, roles, settings
from structlog.testing import capture_logs

from headwater.assembly import build
from headwater.cluster.demo.servers import NatsServer, nats_server
from headwater.cluster.transport.nats_connection import connect_nats
from headwater.fetch.discovery import discover_candidates
from headwater.store.content.feeds import NewFeed
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from support import ROOT

DOCUMENT = ROOT / "docs" / "cluster.md"
ROLES = ("controller", "terminal", "storer", "processor", "publisher")


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[NatsServer]:
    """Run NATS with the users of the document; each user's password is its name."""
    [block] = re.findall(r"```\n(authorization \{.*?)```", DOCUMENT.read_text(), re.S)
    with nats_server(
        tmp_path, more=re.sub(r"(?<=password: )\$[A-Z]+", lambda word: word[0][1:].lower(), block)
    ) as server:
        yield server


def address(server: NatsServer, role: str) -> str:
    return f"nats://{role}:{role}@127.0.0.1:{server.port}"


async def test_every_role_works_with_its_own_user_and_is_refused_nothing(
    farm, url: str, store: Store, guarded: NatsServer, eventually
) -> None:
    made = await farm(feeds=2, hosts=2, speed=1000, hints=False)
    await store.write(add_and_subscribe, [NewFeed(made.url(0))], time.time())
    await store.write(run_script, "CREATE FEED Everything AS RETURN ALL", time.time())
    given = settings(database=url)
    with capture_logs() as said:
        async with roles(given) as running:
            for role in ROLES:
                running.start(role, role, nats=address(guarded, role))
            web = given.with_changes({"member": "web", "nats": address(guarded, "web")})
            async with build("web", web) as node:
                await eventually(lambda: all_matched(store), "items go all the way")
                assert [one.url for one in await discover_candidates(node.fetcher, made.url(1))] == [made.url(1)]
    assert not [one for one in said if "ermission" in str(one)]


async def test_a_terminal_can_neither_read_results_nor_make_streams(guarded: NatsServer, eventually) -> None:
    def is_refused(what: str) -> bool:
        return any(what in str(one["error"]).lower() for one in said if one["event"] == "nats_error")

    with capture_logs() as said:
        link = await connect_nats(address(guarded, "terminal"), "test")
        with pytest.raises((nats.errors.Error, TimeoutError)):
            await link.jetstream(timeout=0.5).stream_info("RESULTS")
        await link.subscribe("res.>")
        await link.flush()
        await eventually(lambda: is_refused("stream.info.results") and is_refused("res.>"), "both are refused")
        await link.close()
