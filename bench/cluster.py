"""Measures a cluster: jobs per second, refreshes by rung and number of terminals, take-over, and a million feeds on
paper.

Everything is compared with rung 0 (one process, SQLite) on the same farm in the same run. CPU is counted for each role,
without its start but with its idle cost; PostgreSQL and NATS are counted separately. The rungs are measured in turn,
five times, and the ratios are those of the medians. Lines are printed as soon as they are known, progress on standard
error; the full size takes a quarter of an hour on an idle machine of two cores. Memory is counted after the refreshes.
Run: `python -m bench.cluster [--small] [--turns N]`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import Connection, func, select, text, update
from structlog.testing import capture_logs

from bench.refresh import farm
from headwater.cluster.cluster_status import read_cluster_status
from headwater.cluster.demo.servers import NatsServer, nats_server, postgres_server
from headwater.cluster.leader import Leader
from headwater.cluster.leases.lease_clock import LeaseTiming
from headwater.cluster.leases.partitions import PARTITIONS
from headwater.cluster.membership import load_cluster_id
from headwater.cluster.transport.nats_connection import connect_nats
from headwater.cluster.transport.nats_dispatch import NatsJobSender
from headwater.cluster.transport.nats_streams import NatsStreams, consumer_name
from headwater.cluster.transport.postgres_transport import PostgresJobSender
from headwater.node.crawl.transport import Job
from headwater.node.live_settings import LiveSettings
from headwater.settings import load_settings
from headwater.store import cluster_jobs, cluster_leases
from headwater.store.content.feeds import NewFeed, count_feeds
from headwater.store.content.items import count_items
from headwater.store.opening import open_store
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.saved_state import bump_revision
from headwater.store.schema.feed_tables import feed, feed_state, refresh
from headwater.store.schema.item_tables import checkpoint, index_queue, outbox
from headwater.store.store import Store

HOSTS = 64
IDLE, PAUSING = 5.0, 3.0  # seconds of idling that are measured, and until all processes know that feeds are paused
PATIENCE = 300.0  # seconds after which a run has failed
ITEMS_A_DAY, COLD = 3, 0.1  # assumed on paper: new items of a feed per day, and the share of refreshes that bring any
SERVERS = ("postgres", "nats")
PAPER = ((100_000, 28), (1_000_000, 1_000), (10_000_000, 5_000))  # feeds, refreshes in a second
ROLES = ("controller", "storer", "processor")
SETTINGS = {
    "ALLOW_PRIVATE": "1",
    "LEAST_INTERVAL": "5",
    "PER_HOST": "64",
    "BUDGET": "10000000",
    "STRATEGY": "uniform",
    "CONCURRENCY": "64",
}


# jobs


async def jobs_by_nats(store: Store, nats: str, number: int) -> dict[str, float]:
    link: Any = await connect_nats(nats, "bench")
    streams = NatsStreams(link, "bench-jobs", LeaseTiming(600.0))
    await streams.ensure_streams(await load_cluster_id(store))
    given = [Job(k, k % 256, 1, f"https://site{k}.example/feed", "a benchmark") for k in range(number)]
    began = time.perf_counter()
    await NatsJobSender(streams, store, lambda: True).send_jobs(given)
    offered = time.perf_counter() - began
    done = asyncio.Event()
    taken = 0

    async def come(message: Any) -> None:
        nonlocal taken
        if message.reply:
            taken += 1
            await message.ack()
            if taken >= number:
                done.set()

    inbox = link.new_inbox()
    await link.subscribe(inbox, cb=come)
    began = time.perf_counter()
    for p in range(256):
        asked = b'{"batch": %d, "expires": 60000000000}' % (number // 256 + 1)
        await link.publish(f"$JS.API.CONSUMER.MSG.NEXT.bench-jobs-JOBS.{consumer_name(p)}", asked, reply=inbox)
    await asyncio.wait_for(done.wait(), 120)
    took = time.perf_counter() - began
    await link.close()
    return {"offer": number / offered, "take": number / took}


async def jobs_by_postgres(store: Store, number: int) -> dict[str, float]:
    given = [Job(k, k % 256, 1, f"https://site{k}.example/feed", "a benchmark") for k in range(number)]
    outgoing = PostgresJobSender(store)
    began = time.perf_counter()
    for start in range(0, number, 500):
        await outgoing.send_jobs(given[start : start + 500])
    offered = time.perf_counter() - began
    began = time.perf_counter()
    left = number
    while left:
        rows = await store.write_one(cluster_jobs.claim_jobs, range(256), 500, 600.0)
        await store.write(cluster_jobs.delete_jobs, [row.feed_id for row in rows])
        left -= len(rows)
    return {"offer": number / offered, "take": number / (time.perf_counter() - began)}


# refreshes


Command = tuple[str, list[str], dict[str, str]]  # name, arguments, settings


@contextmanager
def processes(commands: Sequence[Command]) -> Iterator[dict[str, psutil.Process]]:
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, arguments, more in commands:
            env = {key: value for key, value in os.environ.items() if not key.startswith("HEADWATER_")}
            env |= {f"HEADWATER_{key}": value for key, value in {**SETTINGS, "MEMBER": name, **more}.items()}
            command = [sys.executable, "-m", "headwater", *arguments, "--log-level", "warning"]
            running[name] = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            if arguments[0] == "serve":  # it prints a line when it is ready
                running[name].stdout.readline()  # type: ignore[union-attr]
        yield {name: psutil.Process(process.pid) for name, process in running.items()}
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait(60)
            if process.stdout is not None:
                process.stdout.close()


def cpu(process: psutil.Process) -> float:
    """Return the CPU seconds of a process and its descendants."""
    total = 0.0
    for one in (process, *process.children(recursive=True)):
        try:
            used = one.cpu_times()
            total += used.user + used.system
        except psutil.NoSuchProcess:
            continue
    return total


def memory(process: psutil.Process) -> float:
    """Return the MiB of a process and its descendants; pages that they share are divided among them."""
    return float(sum(one.memory_full_info().pss for one in (process, *process.children(recursive=True)))) / 2**20


BEGAN = time.monotonic()


def now(doing: str) -> None:
    """Print the current step and the time so far to standard error."""
    print(f"{time.monotonic() - BEGAN:6.0f} s: {doing}", file=sys.stderr, flush=True)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    end = time.monotonic() + PATIENCE
    while not await holds():
        if time.monotonic() > end:
            raise TimeoutError(f"{holds} does not hold after {PATIENCE:.0f} s")
        await asyncio.sleep(0.05)


def _made(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(refresh)).scalar_one()


def _size(connection: Connection) -> int:
    """Return the bytes on disk of a PostgreSQL database, 0 for SQLite."""
    if connection.dialect.name != "postgresql":
        return 0
    return int(connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one())


def _due(connection: Connection) -> None:
    connection.execute(update(feed_state).values(next_refresh=0.0, not_before=None, fresh_until=None))
    bump_revision(connection)


def _pause(connection: Connection) -> None:
    """Pause all feeds, which would otherwise be polled again while the processes are to be idle."""
    connection.execute(update(feed).values(paused=True))
    bump_revision(connection)


async def refreshes(
    url: str,
    base: str,
    feeds: int,
    running: dict[str, psutil.Process],
    ready: int,
    servers: dict[str, psutil.Process],
    warm: int,
) -> dict[str, Any]:
    """Measure cold (200, stored) and warm (304, several rounds) refreshes, and idling.
    Returns refreshes per second, and milliseconds of CPU per refresh by process; for idling, milliseconds of CPU per
    second.
    """
    everybody = {**running, **servers}
    result: dict[str, Any] = {}
    async with await open_store(url) as store:
        if ready:

            async def there() -> bool:
                """Return whether all members have registered and the fetching ones have their shares; starting does not
                count.
                """
                found = await read_cluster_status(store)
                shares = [one.partitions for one in found.members if one.role in ("terminal", "node")]
                settled = shares and sum(shares) == PARTITIONS and max(shares) - min(shares) < 2 * len(shares)
                return len(found.members) >= ready and bool(settled)

            await until(there)
        await asyncio.sleep(2.0)
        size = await store.read(_size)
        addresses = [NewFeed(f"{host}/feeds/{k}") for k in range(feeds) for host in [_host(base, k)]]
        for name, rounds in (("cold", 1), ("warm", warm)):
            before = {one: cpu(process) for one, process in everybody.items()}
            done = first = await store.read(_made)
            wall = 0.0
            for _ in range(rounds):
                began = time.perf_counter()
                if name == "cold":
                    await store.write(add_and_subscribe, addresses, time.time())
                else:
                    await store.write(_due)
                done += feeds
                await until(partial(_has_made, store, done))
                wall += time.perf_counter() - began
                await until(partial(_has_learned, store, bool(ready)))
            if name == "cold":
                result["items"] = await store.read(count_items) / wall
                await until(partial(_all_followed, store))
                result["bytes"] = (await store.read(_size) - size) / max(await store.read(count_items), 1)
            # Feeds are polled again by themselves, also while the last items of a phase are matched and indexed.
            made = await store.read(_made) - first
            used = {one: 1000 * (cpu(process) - before[one]) / made for one, process in everybody.items()}
            result[name] = {"per_second": rounds * feeds / wall, "cpu": used}
        result["memory"] = {one: memory(process) for one, process in everybody.items()}
        await store.write(_pause)
        await asyncio.sleep(PAUSING)
        before = {one: cpu(process) for one, process in everybody.items()}
        await asyncio.sleep(IDLE)
        result["idle"] = {
            "cpu": {one: 1000 * (cpu(process) - before[one]) / IDLE for one, process in everybody.items()}
        }
    return result


async def _has_made(store: Store, goal: int) -> bool:
    return await store.read(_made) >= goal


async def _has_learned(store: Store, cluster: bool) -> bool:
    """Return whether the controller has read all results; a later one would undo the due times just set."""
    return not cluster or await store.read(cluster_jobs.count_lessons) == 0


async def _all_followed(store: Store) -> bool:
    """Return whether the query processor and the word index have caught up; their work counts as part of a refresh."""
    return await store.read(_behind) == 0


def _behind(connection: Connection) -> int:
    end = connection.execute(select(func.max(outbox.c.position))).scalar() or 0
    of_queries = checkpoint.c.consumer == "queries"  # others are records, written minutes later
    read = connection.execute(select(checkpoint.c.position).where(of_queries)).scalar() or 0
    to_index = connection.execute(select(func.count()).select_from(index_queue)).scalar_one()
    return int(end - read + to_index)


def _host(base: str, number: int) -> str:
    scheme, _, rest = base.partition("://")
    _, _, port = rest.partition(":")
    return f"{scheme}://127.0.0.{1 + number % HOSTS}:{port}"


def own(result: dict[str, Any], phase: str) -> float:
    """Return the milliseconds of our own CPU per refresh."""
    return float(sum(used for name, used in result[phase]["cpu"].items() if name not in SERVERS))


def mixed(result: dict[str, Any]) -> float:
    """Return the milliseconds of our own CPU per refresh if the share COLD of the refreshes brings news."""
    return COLD * own(result, "cold") + (1 - COLD) * own(result, "warm")


def middle(found: Sequence[Any]) -> Any:
    """Merge results of one shape: every number becomes the median of its place.

    >>> middle([{"cpu": {"serve": 1.0}}, {"cpu": {"serve": 9.0}}, {"cpu": {"serve": 2.0}}])
    {'cpu': {'serve': 2.0}}
    """
    if isinstance(found[0], dict):
        return {key: middle([one[key] for one in found]) for key in found[0]}
    return statistics.median(found)


def in_turn(base: str, feeds: int, terminals: Sequence[int], folder: Path, rounds: int, turns: int) -> dict[str, Any]:
    """Measure all rungs in turn, several times, so that a slow phase of the machine slows each of them."""
    print(f"{feeds:,} feeds on {HOSTS} hosts: refreshes/s, new items/s, milliseconds of CPU per refresh")
    print(f"{'':22}{'cold/s':>9}{'items/s':>9}{'warm/s':>9}{'cold ms':>9}{'warm ms':>9}{'servers':>9}", flush=True)
    found = []
    for turn in range(turns):
        place = folder / f"turn{turn}"
        place.mkdir()
        found.append(rungs(base, feeds, terminals, place, rounds))
        shutil.rmtree(place)
    return {name: middle([one[name] for one in found]) for name in found[0]}


def rungs(base: str, feeds: int, terminals: Sequence[int], folder: Path, rounds: int) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    now("rung 0")
    url = f"sqlite:///{folder / 'rung0.sqlite'}"
    with processes([("serve", ["serve", "--port", "0", "--json"], {"DATABASE": url})]) as running:
        found["rung 0"] = asyncio.run(refreshes(url, base, feeds, running, 0, {}, rounds))
    tell("rung 0", found["rung 0"])
    now("rung 1")
    with ExitStack() as stack:
        url = stack.enter_context(postgres_server(folder / "rung1"))
        servers = {"postgres": _postgres(folder / "rung1")}
        running = stack.enter_context(processes([("node", ["serve", "--port", "0", "--json"], {"DATABASE": url})]))
        found["rung 1"] = asyncio.run(refreshes(url, base, feeds, running, 1, servers, rounds))
    tell("rung 1", found["rung 1"])
    for number in terminals:
        now(f"rung 2, terminals: {number}")
        with ExitStack() as stack:
            place = folder / f"rung2-{number}"
            (place / "nats").mkdir(parents=True)
            url = stack.enter_context(postgres_server(place / "postgres"))
            broker = stack.enter_context(nats_server(place / "nats"))
            with_database = {"DATABASE": url, "NATS": broker.url}
            commands = [(role, [role], with_database) for role in ROLES]
            commands += [(f"terminal{k}", ["terminal"], {"NATS": broker.url}) for k in range(number)]
            running = stack.enter_context(processes(commands))
            servers = {"postgres": _postgres(place / "postgres"), "nats": _nats(broker)}
            ready = len(ROLES) + number
            name = f"rung 2, {number} terminal{'s' if number > 1 else ''}"
            found[name] = asyncio.run(refreshes(url, base, feeds, running, ready, servers, rounds))
        tell(name, found[name])
    return found


def _postgres(folder: Path) -> psutil.Process:
    return psutil.Process(int((folder / "postmaster.pid").read_text().splitlines()[0]))


def _nats(broker: NatsServer) -> psutil.Process:
    assert broker.pid is not None
    return psutil.Process(broker.pid)


# take-over


def _fill(connection: Connection, there: int, feeds: int) -> None:
    """Insert feeds with two statements, because adding a million one by one would take longer than the benchmark."""
    connection.execute(
        text(
            "INSERT INTO feed (id, url, url_key, weight, added, paused) SELECT k, address, address, 1, 0, false FROM "
            "(SELECT k, 'https://site' || k || '.example/feed' AS address "
            "FROM generate_series(CAST(:first AS bigint), CAST(:last AS bigint)) k) AS new"
        ),
        {"first": there + 1, "last": feeds},
    )
    connection.execute(
        text(
            'INSERT INTO feed_state (feed_id, "window", failures, moves, unstable) SELECT k, 0, 0, 0, 0 '
            "FROM generate_series(CAST(:first AS bigint), CAST(:last AS bigint)) k"
        ),
        {"first": there + 1, "last": feeds},
    )
    bump_revision(connection)


async def take_over(url: str, feeds: int) -> tuple[float, float, float]:
    """Return the seconds from winning the lease to the first choice, our CPU seconds and the MiB that the leader took,
    with `feeds` in the store.
    """
    async with await open_store(url) as store:
        await store.write(_fill, await store.read(count_feeds), feeds)
        given = load_settings(strategy="value")
        live_settings = LiveSettings(store, given)
        leader = Leader(store, live_settings, lambda fenced, held: PostgresJobSender(fenced), roles=["node"])
        held = await store.write(cluster_leases.acquire_lease, "controller", f"bench{feeds}", 600.0)
        assert held is not None
        over, began = asyncio.Event(), time.process_time()
        before = memory(psutil.Process())
        leading = asyncio.create_task(leader.run_term(held, over))

        async def leads() -> bool:
            return leader.dispatcher is not None

        await until(leads)
        took, used = leader.takeover_seconds, time.process_time() - began
        grown = memory(psutil.Process()) - before
        over.set()
        await leading
        await store.write(cluster_leases.release_lease, held)
    assert took is not None
    return took, used, grown


def main(small: bool, turns: int = 5) -> dict[str, float]:
    """Print the tables; return the CPU of a refresh at rungs 1 and 2 in multiples of rung 0."""
    feeds, number = (200, 1000) if small else (1000, 20_000)
    terminals = (1,) if small else (1, 2, 4)
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as place:
        folder = Path(place)
        (folder / "nats").mkdir()
        with farm(feeds, "--hosts", str(HOSTS)) as base:
            found = in_turn(base, feeds, terminals, folder, *((3, 1) if small else (6, turns)))
        ratios = report(found)
        with postgres_server(folder / "postgres") as url, nats_server(folder / "nats") as broker:
            now("jobs")
            asyncio.run(_jobs(url, broker.url, number))
            sizes = (1000,) if small else (100_000, 1_000_000)
            for size in sizes:
                now(f"take-over with {size:,} feeds")
                with capture_logs():  # keeps log lines out of the table
                    seconds, used, grown = asyncio.run(take_over(url, size))
                print(
                    f"take-over with {size:,} feeds: {seconds:.2f} s after the lease is won, {used:.2f} s of CPU, "
                    f"{grown:,.0f} MiB more",
                    flush=True,
                )
    on_paper(found["rung 2, 1 terminal"], seconds / size, grown / size)
    now("done")
    return ratios


def on_paper(result: dict[str, Any], to_take_over: float, memory_of_feed: float) -> None:
    """Print an estimate for many feeds: cores of each role, disk, and the time and memory a new leader takes to load.

    The idle cost of a process is subtracted from the cost of a refresh and added once.
    """
    names = ("terminal0", "storer", "controller", "processor", *SERVERS)
    print(
        f"on paper: {ITEMS_A_DAY} new items per feed and day, {COLD:.0%} of the refreshes bring some, "
        f"{result['bytes']:,.0f} bytes an item"
    )
    heads = ("terminals", "storers", "controller", "processor", "PostgreSQL", "NATS")
    print(
        f"{'feeds':>12}{'refreshes/s':>12}"
        + "".join(f"{head:>11}" for head in heads)
        + " cores   GB/day  take-over  its GiB"
    )
    for feeds, pace in PAPER:
        cores = [pace * cost(result, name) + result["idle"]["cpu"][name] / 1000 for name in names]
        disk = feeds * ITEMS_A_DAY * result["bytes"] / 1e9
        print(
            f"{feeds:12,}{pace:12,}"
            + "".join(f"{one:11.2f}" for one in cores)
            + f"{disk:15.2f}{feeds * to_take_over:9.0f} s{feeds * memory_of_feed / 1024:9.1f}"
        )
    alone = max(("controller", "processor"), key=lambda name: cost(result, name))  # one instance works at a time
    most = (1 - result["idle"]["cpu"][alone] / 1000) / cost(result, alone)
    print(f"first at its limit is the {alone}, of which one works at a time: {most:,.0f} refreshes a second on a core")


def cost(result: dict[str, Any], name: str) -> float:
    """Return the CPU seconds that one refresh adds to a process, at the assumed share of news."""
    idle = result["idle"]["cpu"][name]
    each = {phase: result[phase]["cpu"][name] - idle / result[phase]["per_second"] for phase in ("cold", "warm")}
    return float(max(COLD * each["cold"] + (1 - COLD) * each["warm"], 1e-6)) / 1000


async def _jobs(url: str, nats: str, number: int) -> None:
    async with await open_store(url) as store:
        by_postgres = await jobs_by_postgres(store, number)
        by_nats = await jobs_by_nats(store, nats, number)
    print(f"{number:,} jobs{'':12}{'offered/s':>12}{'taken + done/s':>16}")
    for name, rates in (("SKIP LOCKED", by_postgres), ("JetStream", by_nats)):
        print(f"{name:22}{rates['offer']:12,.0f}{rates['take']:16,.0f}")


def tell(name: str, result: dict[str, Any]) -> None:
    """Print the line of one rung."""
    servers = sum(result["cold"]["cpu"].get(one, 0.0) for one in SERVERS)
    print(
        f"{name:22}{result['cold']['per_second']:9.0f}{result['items']:9.0f}{result['warm']['per_second']:9.0f}"
        f"{own(result, 'cold'):9.2f}{own(result, 'warm'):9.2f}{servers:9.2f}",
        flush=True,
    )


def report(found: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Print and return the ratios of our own CPU per refresh to rung 0; database and broker are listed separately."""
    for phase in ("cold", "warm", "idle"):
        for name, result in found.items():
            parts = ", ".join(f"{one} {used:.2f}" for one, used in result[phase]["cpu"].items())
            print(f"{name}, {phase}, ms of CPU {'a second' if phase == 'idle' else 'a refresh'}, by process: {parts}")
    for name, result in found.items():
        print(f"{name}, MiB by process: {', '.join(f'{one} {used:.0f}' for one, used in result['memory'].items())}")
    peer = found["rung 0"]
    ratios = {
        f"{name} {phase}": each(result) / each(peer)
        for name, result in found.items()
        if name != "rung 0"
        for phase, each in (
            ("cold", partial(own, phase="cold")),
            ("warm", partial(own, phase="warm")),
            ("mixed", mixed),
        )
    }
    for name, ratio in ratios.items():
        print(f"{name}: {ratio:.2f} × the CPU of rung 0 per refresh")
    return ratios


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    main(given.small, given.turns)
