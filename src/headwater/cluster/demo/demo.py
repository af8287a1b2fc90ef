"""Runs a whole cluster on this machine: real servers, a feed farm, every role as a process, with random kills."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headwater.cluster.cluster_status import ClusterStatus, read_cluster_status
from headwater.cluster.demo.audit import RunAudit, audit_run
from headwater.cluster.demo.servers import NatsServer, nats_server, postgres_server
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.transport.nats_connection import connect_nats
from headwater.cluster.transport.nats_streams import NatsStreams, StreamBacklog, list_backlog
from headwater.errors import ClusterError, HeadwaterError
from headwater.farm.farm import Farm
from headwater.store.content.feeds import NewFeed, change_feed, list_feeds
from headwater.store.content.items import count_items
from headwater.store.opening import open_store
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store

LEASE = 9.0
PAUSE = 1.0  # seconds between two requests to a host; a busy machine delays their arrival
MAX_WAIT = 120.0  # seconds until the cluster must be idle at the end
FIXED_ROLES = ("controller", "controller", "storer", "storer", "processor", "processor", "publisher")


@dataclass(frozen=True, slots=True)
class DemoPlan:
    terminals: int
    chaos: bool
    seconds: float
    feeds: int
    seed: int
    logs: Path | None = None  # the folder for the logs of all processes


@dataclass(frozen=True, slots=True)
class DemoVerdict:
    """The verdict on a run. `left` lists the work that was not finished."""

    ok: bool
    sentence: str
    kills: int
    seconds: float
    reckoning: RunAudit
    left: tuple[StreamBacklog, ...] = ()
    logs: str | None = None


@dataclass(frozen=True, slots=True)
class DemoProgress:
    """A running demo: `kills` are sentences, `at_once` is the most that a host saw at a time."""

    status: ClusterStatus
    kills: list[str]
    items: int
    requests: int
    at_once: int


OnProgress = Callable[[DemoProgress], None]


class DemoProcesses:
    """The demo's processes. A killed process is restarted after a short pause."""

    def __init__(self, folder: Path, environment: dict[str, str], database: str, level: str) -> None:
        self._folder = folder
        self._level = level
        self._environment = environment
        self._database = database
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.roles: dict[str, str] = {}

    def start(self, name: str, role: str) -> None:
        given = {**self._environment, "HEADWATER_MEMBER": name}
        if role != "terminal":
            given["HEADWATER_DATABASE"] = self._database
        with (self._folder / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-m", "headwater", role, "--log-level", self._level]
            self._running[name] = subprocess.Popen(command, stdout=log, stderr=log, env=given, start_new_session=True)
        self.roles[name] = role

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        signal_group(process, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                signal_group(process, signal.SIGKILL)
                process.wait()
        self._running.clear()

    @property
    def names(self) -> list[str]:
        return list(self._running)


def signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    if process.poll() is None:
        os.killpg(process.pid, number)


async def run_demo(plan: DemoPlan, on_progress: OnProgress | None = None) -> DemoVerdict:
    """Run a cluster, report once a second, and compare stored with published items."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="headwater-cluster-") as place:
        folder = Path(place)
        for name in ("postgres", "nats"):
            (folder / name).mkdir()
        with (
            postgres_server(folder / "postgres") as database,
            nats_server(folder / "nats") as broker,
            _keep_logs(plan, folder) as logs,
        ):
            hosts = max(plan.feeds // 2, 1)
            farm = Farm(plan.feeds, plan.seed, 1000.0, 60, hosts=hosts, rates=(5, 50), hints=False, latency=0.03)
            async with farm, await open_store(database) as store:
                await store.write(run_script, "CREATE FEED Everything AS RETURN ALL", time.time())
                await store.write(add_and_subscribe, [NewFeed(farm.url(k)) for k in range(plan.feeds)], time.time())
                with _start_processes(logs, plan, database, broker) as processes:
                    await _wait_until_ready(store, plan)
                    kills = await _run_for_a_while(plan, processes, store, broker, farm, on_progress)
                    unfinished = await _wait_until_idle(store, broker)
                found = await audit_run(farm, store, "Everything")
    return _make_verdict(found, unfinished, kills, time.monotonic() - began, plan.logs)


@contextmanager
def _keep_logs(plan: DemoPlan, folder: Path) -> Iterator[Path]:
    """Yield the folder for logs of processes; at the end copy the logs of the servers there too."""
    if plan.logs is None:
        yield folder
        return
    try:
        plan.logs.mkdir(parents=True, exist_ok=True)
        (plan.logs / "mishaps.log").write_text("")
    except OSError as error:
        raise ClusterError(f"The logs cannot be kept in {plan.logs}: {error.strerror or error}.") from error
    try:
        yield plan.logs
    finally:
        for source, name in (("nats/nats.log", "nats.log"), ("postgres/log", "postgres.log")):
            with suppress(OSError):  # a server that did not start has no log
                shutil.copyfile(folder / source, plan.logs / name)


@contextmanager
def _start_processes(logs: Path, plan: DemoPlan, database: str, broker: NatsServer) -> Iterator[DemoProcesses]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HEADWATER_")}
    environment |= {
        "HEADWATER_NATS": broker.url,
        "HEADWATER_ALLOW_PRIVATE": "1",
        "HEADWATER_CLUSTER_LEASE": str(LEASE),
        "HEADWATER_LEAST_INTERVAL": "2",
        "HEADWATER_BUDGET": "100000",
        "HEADWATER_STRATEGY": "top_utility",
        "HEADWATER_CONCURRENCY": "16",
        "HEADWATER_HOST_PAUSE": str(PAUSE),
    }
    processes = DemoProcesses(logs, environment, database, "warning" if plan.logs is None else "info")
    try:
        for number, role in enumerate(FIXED_ROLES):
            processes.start(f"{role}{number}", role)
        for number in range(plan.terminals):
            processes.start(f"terminal{number}", "terminal")
        yield processes
    finally:
        processes.stop()


async def _wait_until_ready(store: Store, plan: DemoPlan) -> None:
    """Wait until all processes have joined and hold their partitions."""
    end = time.monotonic() + MAX_WAIT
    while time.monotonic() < end:
        await asyncio.sleep(0.5)
        found = await read_cluster_status(store)
        if len(found.members) >= len(FIXED_ROLES) + plan.terminals and found.leader and not found.unheld:
            return
    problems = " ".join(found.problems) or f"only {len(found.members)} processes have joined."
    raise ClusterError(f"The cluster did not come up within {MAX_WAIT:.0f} seconds: {problems}")


async def _run_for_a_while(
    plan: DemoPlan,
    processes: DemoProcesses,
    store: Store,
    broker: NatsServer,
    farm: Farm,
    on_progress: OnProgress | None,
) -> int:
    """Let the cluster work, kill processes if planned, and return how many were killed."""
    chance = random.Random(plan.seed)
    end, next_kill = time.monotonic() + plan.seconds, time.monotonic() + 3.0
    kills: list[str] = []
    async with _open_streams(broker) as streams:
        while time.monotonic() < end:
            await asyncio.sleep(1.0)
            if plan.chaos and next_kill < time.monotonic() < end - 10:
                kills.append(await _kill_something(processes, broker, chance))
                if plan.logs is not None:
                    with (plan.logs / "mishaps.log").open("a") as told:
                        told.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ} {kills[-1]}\n")
                next_kill = time.monotonic() + chance.uniform(2.0, 6.0)
            if on_progress is not None:
                status, items = await read_cluster_status(store, streams), await store.read(count_items)
                at_once = max(farm.log.most_at_once.values(), default=0)
                on_progress(DemoProgress(status, kills, items, len(farm.log), at_once))
    return len(kills)


async def _kill_something(processes: DemoProcesses, broker: NatsServer, chance: random.Random) -> str:
    """Kill a random process with kill −9 and restart it; one time in eight it is NATS."""
    if chance.random() < 0.125:
        broker.kill()
        await asyncio.sleep(chance.uniform(0.2, 1.0))
        await asyncio.to_thread(broker.start)
        return "NATS was killed and started again"
    name = chance.choice(processes.names)
    processes.kill(name)
    await asyncio.sleep(chance.uniform(0.2, 2.0))
    processes.start(name, processes.roles[name])
    return f"{name} was killed and started again"


@asynccontextmanager
async def _open_streams(broker: NatsServer) -> AsyncIterator[NatsStreams]:
    link: Any = await connect_nats(broker.url, "demo")
    try:
        yield NatsStreams(link, "", LeaseTiming(LEASE))
    finally:
        await link.close()


async def _wait_until_idle(store: Store, broker: NatsServer) -> tuple[StreamBacklog, ...]:
    """Pause all feeds and wait until the cluster is idle; returns the work that is not finished in time."""
    for feed in await store.read(list_feeds):
        await store.write(change_feed, feed.id, paused=True)
    end = time.monotonic() + MAX_WAIT
    here = ("JOBS", "RESULTS", "to_learn", "queries_behind")
    async with _open_streams(broker) as streams:
        quiet, waiting = 0, dict[str, int]()
        while time.monotonic() < end:
            await asyncio.sleep(1.0)
            try:
                waiting = (await read_cluster_status(store, streams)).buffers
            except HeadwaterError:
                continue
            quiet = quiet + 1 if all(waiting.get(name, 1) == 0 for name in here) else 0
            if quiet == 4:
                return ()
        rows = [StreamBacklog(name, None, waiting[name]) for name in here[2:] if waiting.get(name)]
        try:
            return (*await list_backlog(streams), *rows)
        except Exception as error:
            raise ClusterError(
                f"The cluster did not come to rest within {MAX_WAIT:.0f} seconds, and NATS does not list its backlog "
                f"({error!r}): {waiting}."
            ) from error


def _make_verdict(
    found: RunAudit, unfinished: tuple[StreamBacklog, ...], kills: int, seconds: float, logs: Path | None
) -> DemoVerdict:
    hurried = found.closest is not None and found.closest < PAUSE / 4  # requests need some time to arrive
    ok = found.is_clean and found.at_once <= 1 and not hurried and found.stored > 0 and not unfinished
    apart = "" if found.closest is None else f" and never two within {found.closest:.2f} s (the pause is {PAUSE:g} s)"
    story = (
        f"{found.published:,} items were published and due, {found.stored:,} are stored (with the items that feeds "
        f"showed at the beginning), {found.processed:,} went through the query processor; "
        f"{found.requests:,} requests, never more "
        f"than {found.at_once} at once to a host{apart}; {kills} processes were killed."
    )
    faults = {
        "missing": found.missing,
        "lost unnoticed": found.unnoticed,
        "stored twice": found.doubled,
        "not announced once": found.unannounced,
        "not matched once": found.unmatched,
    }
    wrong = [f"{count} {name}" for name, count in faults.items() if count]
    if found.at_once > 1:
        wrong.append("a host saw two at once")
    if hurried:
        wrong.append("a host was not left alone for as long as it should be")
    if unfinished:
        left_over = "; ".join(map(str, unfinished))
        wrong.append(f"it did not come to rest within {MAX_WAIT:.0f} seconds ({left_over})")
    end = "Nothing was lost." if ok else f"WRONG: {', '.join(wrong) or 'nothing was fetched'}."
    kept = None if logs is None else str(logs)
    sentence = f"{story} {end}" if kept is None else f"{story} {end} Logs: {kept}."
    return DemoVerdict(ok, sentence, kills, seconds, found, unfinished, kept)
