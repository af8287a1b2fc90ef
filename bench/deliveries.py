"""Measures how fast a backlog of web hook messages drains, for each receiver and in total.

A store is filled with items and query feeds that deliver to web hooks; then real processes send them: a server on
SQLite, or publishers of a cluster on PostgreSQL. Times are those of the receivers, from their first message to their
last, so the start of a process does not count. Receivers have hosts of their own (127.0.0.x), except where the line
says otherwise.

    python -m bench.deliveries [--small]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo

import orjson
import psutil
from structlog.testing import capture_logs

from bench.cluster import cpu, processes
from headwater.cluster.demo.servers import nats_server, postgres_server
from headwater.model import Ending, Item, Known, Refresh, SafeHtml, Verdict
from headwater.node.queries.processor import QueryProcessor
from headwater.publish.delivery.delivery_planner import DeliveryPlanner
from headwater.store.content.feeds import NewFeed, change_feed
from headwater.store.content.verdicts import save_refreshes
from headwater.store.opening import open_store
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe

BACKLOG, SMALL = 4_000, 60  # items; each goes to every hook
PATIENCE = 600.0
TEXT = SafeHtml("<p>" + "Something happened somewhere. " * 12 + "</p>")


@dataclass(eq=False)
class Hook:
    """The connections of one receiver; it answers at once, or never."""

    stalls: bool = False
    batch: int = 1
    items: int = 0
    messages: int = 0
    times: list[float] = field(default_factory=list)

    def connect(self) -> _Connection:
        return _Connection(self)

    def receive(self, body: bytes) -> bytes | None:
        self.messages += 1
        self.items += len(orjson.loads(body)["items"])
        self.times.append(time.monotonic())
        more = f"X-Headwater-Batch: {self.batch}\r\n" if self.batch > 1 else ""
        return None if self.stalls else f"HTTP/1.1 200 OK\r\n{more}Content-Length: 0\r\n\r\n".encode()

    @property
    def per_second(self) -> float:
        """Items a second after the first message."""
        return self.items * (1 - 1 / self.messages) / (self.times[-1] - self.times[0])


class _Connection(asyncio.Protocol):
    def __init__(self, hook: Hook) -> None:
        self._hook, self._buffer = hook, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split()[0]) if end else 0
        if end and len(body) >= length:
            self._buffer = b""  # one request at a time on a connection
            answer = self._hook.receive(body)
            if answer is not None:
                self._transport.write(answer)


@dataclass(frozen=True)
class Case:
    """A line of the table: how many receivers, how many that stall, and where they are."""

    name: str
    hooks: int = 1
    batch: int = 1
    stalled: int = 0
    one_host: bool = False
    publishers: int = 0  # of a cluster; 0: a server on SQLite


CASES = (
    Case("a server on SQLite"),
    Case("four receivers", hooks=4),
    Case("four receivers on one host", hooks=4, one_host=True),
    Case("beside three that stall", stalled=3),
    Case("beside three that stall, on one host", stalled=3, one_host=True),
    Case("batches of 100", batch=100),
    Case("one publisher", publishers=1),
    Case("two publishers", publishers=2),
    Case("two publishers, four receivers", hooks=4, publishers=2),
    Case("two publishers, beside three that stall", stalled=3, publishers=2),
    Case("two publishers, batches of 100", batch=100, publishers=2),
)


async def fill_backlog(url: str, addresses: list[str], number: int) -> None:
    """Store items with a delivery for each of the hooks."""
    async with await open_store(url) as store:
        (added,) = await store.write(add_and_subscribe, [NewFeed("https://news.example/rss", name="news")], time.time())
        feed = added.feed
        await store.write(change_feed, feed.id, paused=True)
        script = "\n".join(
            f'CREATE FEED hook{n} AS RETURN ALL DELIVER TO WEBHOOK "{address}";' for n, address in enumerate(addresses)
        )
        await store.write(run_script, script, time.time())
        processor = QueryProcessor(store, writers=[DeliveryPlanner(ZoneInfo("UTC"))])
        await processor.load()
        await processor.step()
        for begin in range(0, number, 200):
            now = time.time()
            names = [f"item {n}" for n in range(begin, min(begin + 200, number))]
            items = tuple(Item(feed.id, one, one, one, None, now, False, None, now, content=TEXT) for one in names)
            known = Known(feed.id, feed.url, last_refresh=now, last_success=now)
            refresh = Refresh(feed.id, now, Ending.CHANGED, status=200, bytes=1000, new=len(items), window=len(items))
            await save_refreshes(store, [Verdict(refresh, known, items)])
            while await processor.step():
                pass


@contextlib.contextmanager
def senders(case: Case, folder: Path, url: str, nats: str | None) -> Iterator[list[psutil.Process]]:
    if nats is None:
        command = ["serve", "--port", "0", "--data", str(folder), "--json"]
        with processes([("serve", command, {"DATABASE": url})]) as running:
            yield list(running.values())
    else:
        names = [f"publisher{n}" for n in range(case.publishers)]
        with processes([(one, ["publisher"], {"DATABASE": url, "NATS": nats}) for one in names]) as running:
            yield list(running.values())


async def drain(case: Case, folder: Path, number: int, url: str, nats: str | None) -> dict[str, float]:
    """Fill a store, let the processes send, and return what the receivers saw."""
    hooks = [Hook(stalls=True) for _ in range(case.stalled)] + [Hook(batch=case.batch) for _ in range(case.hooks)]
    async with contextlib.AsyncExitStack() as stack:
        addresses = []
        for n, hook in enumerate(hooks):
            host = "127.0.0.2" if case.one_host else f"127.0.0.{2 + n}"
            server = await asyncio.get_running_loop().create_server(hook.connect, host, 0, backlog=1000)
            stack.callback(server.close)
            addresses.append(f"http://{host}:{server.sockets[0].getsockname()[1]}/hook")
        with capture_logs():  # keeps log lines out of the table
            await fill_backlog(url, addresses, number)
        quick = [hook for hook in hooks if not hook.stalls]
        used = 0.0
        with senders(case, folder, url, nats) as running:
            end = time.monotonic() + PATIENCE
            before = None
            while any(hook.items < number for hook in quick):
                if time.monotonic() > end:
                    raise TimeoutError(f"{case.name}: {[hook.items for hook in quick]} of {number} items arrived")
                await asyncio.sleep(0.02)
                if before is None and all(hook.items for hook in quick):
                    before = sum(map(cpu, running))
            used = sum(map(cpu, running)) - (before or 0.0)
    begin, last = min(hook.times[0] for hook in quick), max(hook.times[-1] for hook in quick)
    return {
        "total": sum(hook.items for hook in quick) / (last - begin),
        "slowest": min(hook.per_second for hook in quick),
        "per_cpu": sum(hook.items for hook in quick) / max(used, 1e-3),
        "attempts": float(sum(hook.messages for hook in hooks if hook.stalls)),
    }


def main(small: bool = False) -> dict[str, dict[str, float]]:
    """Print the table; return its figures by line."""
    number, found = SMALL if small else BACKLOG, {}
    cases = CASES[:1] if small else CASES
    print(f"a backlog of {number:,} items for each web hook")
    print(f"{'':42}{'items/s':>10}{'slowest':>10}{'per CPU s':>11}{'to stalled':>12}")
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as place, ExitStack() as stack:
        folder = Path(place)
        broker = None
        for n, case in enumerate(cases):
            here = folder / f"case{n}"
            here.mkdir()
            url = f"sqlite:///{here / 'headwater.sqlite'}"
            if case.publishers:
                if broker is None:
                    (folder / "nats").mkdir()
                    broker = stack.enter_context(nats_server(folder / "nats"))
                with postgres_server(here / "postgres") as url:
                    found[case.name] = asyncio.run(drain(case, here, number, url, broker.url))
            else:
                found[case.name] = asyncio.run(drain(case, here, number, url, None))
            one = found[case.name]
            print(
                f"{case.name:42}{one['total']:10,.0f}{one['slowest']:10,.0f}{one['per_cpu']:11,.0f}"
                f"{one['attempts']:12,.0f}",
                flush=True,
            )
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    main(parser.parse_args().small)
