"""Roles are replaced one by one by a version with newer tables, under load, and nothing is lost."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path

import pytest
import structlog
from cluster_in_process import all_matched, roles, settings, streams_at
from cluster_processes import processes
from sqlalchemy import text

from headwater.cluster.demo.audit import audit_run
from headwater.cluster.demo.servers import NatsServer
from headwater.cluster.transport.wire_messages import encode, read_grant
from headwater.store.content.feeds import NewFeed, change_feed, list_feeds
from headwater.store.database.migrate import HEAD
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from support import ROOT

SOURCE = ROOT / "src"
NEXT = "v9999"
STEP = f'''

def add_moods(connection):
    """Add what a version may bring: two columns and a table."""
    connection.execute(text("ALTER TABLE item ADD COLUMN mood TEXT"))
    connection.execute(text("ALTER TABLE refresh ADD COLUMN mood TEXT DEFAULT 'calm'"))
    connection.execute(text("CREATE TABLE moods (name TEXT PRIMARY KEY)"))


STEPS["{NEXT}"] = add_moods
'''
FEEDS = 24
# The order of docs/operation.md: standbys, then leaders, terminals last.
ORDER = ("controller2", "storer2", "processor2", "controller1", "storer1", "processor1", "terminal1", "terminal2")

log = structlog.get_logger()


def next_version(folder: Path) -> Path:
    """Return a copy of this version with newer tables."""
    made = folder / "src"
    shutil.copytree(SOURCE, made, ignore=shutil.ignore_patterns("__pycache__"))
    store = made / "headwater" / "store"
    with (store / "database" / "migrations.py").open("a") as steps:
        steps.write(STEP)
    migrate = store / "database" / "migrate.py"
    migrate.write_text(migrate.read_text().replace(f'HEAD = "{HEAD}"', f'HEAD = "{NEXT}"'))
    return made


async def test_a_terminal_that_the_controller_does_not_understand_is_told(
    url: str, store: Store, nats: NatsServer, prefix: str, eventually
) -> None:
    given = settings(database=url, nats=nats.url, nats_prefix=prefix)
    async with streams_at(nats.url, prefix) as streams, roles(given, "controller"):
        await eventually(streams.are_present, "the streams are made")
        hello = encode({"report": {"name": "t", "role": "terminal"}, "drained": [1, 2, 3]})  # the earlier form
        answers = []

        async def answered() -> bool:
            try:
                answers.append(await streams.link.request(streams.full_subject("terminals"), hello, timeout=1.0))
            except Exception:
                return False
            return True

        await eventually(answered, "it is answered")
    grant = read_grant(answers[0].data)
    assert not grant.partitions
    assert grant.problem is not None
    assert "another version" in grant.problem


@pytest.mark.soak
@pytest.mark.timeout(0)
async def test_every_role_is_replaced_under_load_by_a_version_with_newer_tables(
    farm,
    url: str,
    store: Store,
    nats: NatsServer,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    eventually,
) -> None:
    made = await farm(feeds=FEEDS, hosts=12, speed=300, rates=(5, 50), hints=False, window=200)
    await store.write(run_script, "CREATE FEED Everything AS RETURN ALL", time.time())
    await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(FEEDS)], time.time())
    newer = next_version(tmp_path)
    with processes(NATS=nats.url, NATS_PREFIX=prefix, MIN_INTERVAL="2") as running:

        def start(name: str) -> None:
            more = {} if name.startswith("terminal") else {"DATABASE": url}
            running.start(name, name.rstrip("12"), **more)

        async def tables() -> str:
            found: str = await store.read(
                lambda connection: connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
            )
            return found

        async def is_migrated() -> bool:
            return await tables() == NEXT

        async def works(since: int) -> None:
            await eventually(lambda: len(made.log) > since + FEEDS, "hosts are asked")

        for name in ORDER:
            start(name)
        await works(0)
        monkeypatch.setenv("PYTHONPATH", str(newer))
        for name in ORDER:
            asked, began = len(made.log), time.monotonic()
            assert running.stop(name) == 0
            start(name)
            await works(asked)
            log.info("replaced", member=name, seconds=round(time.monotonic() - began, 1))
            if name == ORDER[0]:
                await eventually(is_migrated, "the tables are migrated")
                monkeypatch.setenv("PYTHONPATH", str(SOURCE))
                late = running.start("late", "storer", DATABASE=url)
                assert await asyncio.to_thread(late.wait, 60) == 1
                assert f"written by a newer Headwater (tables {NEXT}" in running.read_log("late")
                monkeypatch.setenv("PYTHONPATH", str(newer))
        for feed in await store.read(list_feeds):
            await store.write(change_feed, feed.id, paused=True)
        await asyncio.sleep(8.0)  # results in flight arrive
        await eventually(lambda: all_matched(store), "everything stored has met the query")
        for name in ORDER:
            assert running.stop(name) == 0
            assert "Traceback" not in running.read_log(name)
    found = await audit_run(made, store, "Everything")
    log.info("found", reckoning=found)
    assert found.is_clean, found
    assert found.at_once == 1
