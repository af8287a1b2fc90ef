"""The servers that `bench.publish` measures, each a process that reports its port and waits to be stopped."""

from __future__ import annotations

import asyncio
import logging
import resource
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
import structlog
import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.support.idle_node import make_idle_node

from headwater.assembly import build
from headwater.model import Document, Ending, Entry, Item, Known, Markup, Refresh, SafeHtml, Verdict
from headwater.node.crawl.local_crawl import LocalCrawl
from headwater.node.node import Node
from headwater.node.queries.processor import QueryProcessor
from headwater.node.websub import PushService
from headwater.settings import load_settings
from headwater.store.content.feeds import NewFeed
from headwater.store.content.verdicts import save_refreshes
from headwater.store.content.websub_leases import WebSubLease, add_leases
from headwater.store.opening import open_store
from headwater.store.publishing.private_feeds import set_private
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from headwater.web.app import create_app

ITEMS, TEXT = 20, SafeHtml("<p>" + "Something happened somewhere. " * 12 + "</p>")
KEY, SECRET = "of-the-callback", "between-us"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


def raise_limit() -> int:
    """Raise the limit of open files as far as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def _quietly() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))


async def _answer(app: Any, told: Connection) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    config = uvicorn.Config(app, log_config=None, lifespan="off", server_header=False, backlog=2048)
    told.send(listener.getsockname()[1])
    await uvicorn.Server(config).serve(sockets=[listener])


def starlette(told: Connection, body: bytes, headers: dict[str, str], unchanged: dict[str, str]) -> None:
    """Run bare Starlette: one route that returns prepared bytes and the same headers, or 304."""
    etag = headers["etag"]

    async def feed(request: Request) -> Response:
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=unchanged)
        return Response(body, headers=headers)

    uvloop.run(_answer(Starlette(routes=[Route("/feeds/everything.atom", feed)]), told))


def ours(told: Connection, folder: str) -> None:
    """Run Headwater's pages over a store with one query feed."""
    raise_limit()
    _quietly()

    async def main() -> None:
        async with await open_store(f"sqlite:///{folder}/bench.sqlite") as store:
            await _fill(store)
            await _answer(create_app(make_idle_node(store)), told)

    uvloop.run(main())


async def _fill(store: Store) -> None:
    now = time.time()
    (added,) = await store.write(add_and_subscribe, [NewFeed("https://example.org/feed")], now)
    await store.write(run_script, f"CREATE FEED everything AS RETURN ALL KEEP LAST {ITEMS} ITEMS", now)
    await store.write(set_private, "/feeds/everything", False)
    processor = QueryProcessor(store)
    await processor.load()
    await processor.step()
    dates: dict[str, Any] = {"published": now, "dated": True, "updated": None, "first_seen": now}
    items = [
        Item(added.feed.id, f"urn:x:{n}", str(n), f"Item {n}", f"https://example.org/{n}", **dates, content=TEXT)
        for n in range(ITEMS)
    ]
    known = Known(added.feed.id, added.feed.url, last_refresh=now, last_success=now)
    refresh = Refresh(added.feed.id, now, Ending.CHANGED, new=ITEMS, window=ITEMS)
    await save_refreshes(store, [Verdict(refresh, known, tuple(items))])
    while await processor.step():
        pass


@contextmanager
def nginx(folder: Path, body: bytes) -> Iterator[tuple[int, int]]:
    """Run nginx, one process, serving the same bytes as a file; yield its pid and port."""
    assert NGINX is not None
    (folder / "feeds").mkdir(parents=True)
    (folder / "feeds" / "everything.atom").write_bytes(body)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;\n"
        "events { worker_connections 1024; }\n"
        f"http {{ access_log off; types {{ application/atom+xml atom; }} keepalive_requests 10000000;\n"
        f"client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;\n"
        f"uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;\n"
        f"server {{ listen 127.0.0.1:{port}; root {folder}; }} }}\n"
    )
    with subprocess.Popen([NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf")]) as process:
        try:
            yield process.pid, port
        finally:
            process.terminate()


def busy_node(told: Connection, folder: str, hook: str, per_second: int, seconds: float) -> None:
    """Run a node that receives `per_second` items a second; a query feed matches every hundredth of them, a probe."""
    _quietly()

    async def main() -> None:
        given = load_settings(
            data=Path(folder), allow_private=True, per_host=64, budget=1.0, public_url="http://127.0.0.1"
        )
        async with build("node", given) as node:
            now = time.time()
            fetched, pushed = await node.store.write(
                add_and_subscribe, [NewFeed(f"http://127.0.0.1:1/{k}") for k in range(2)], now
            )
            at_hub = WebSubLease(
                pushed.feed.id, KEY, "http://127.0.0.1:1/hub", "http://127.0.0.1:1/1", SECRET, now + 3600
            )
            await node.store.write(add_leases, [replace(at_hub, state="active", since=now, until=now + 7200)])
            text = f'CREATE FEED probes AS RETURN ALL WHERE TITLE CONTAINS "probe" DELIVER TO WEBHOOK "{hook}"'
            await node.store.write(run_script, text, now)
            await node.store.write(set_private, "/feeds/probes", False)
            assert node.processor is not None
            assert isinstance(node.crawl, LocalCrawl)
            feed_table = node.crawl.scheduler.feed_table
            async with asyncio.timeout(60):
                while True:
                    if node.processor.definitions and feed_table.find_row(pushed.feed.id) is not None:
                        break
                    await asyncio.sleep(0.05)
            pushing = PushService(node, "http://127.0.0.1")
            app = create_app(node, push_service=pushing)
            async with pushing:
                answering = asyncio.create_task(_answer(app, told))
                await _publish(node, fetched.feed.id, told, per_second, seconds)
                await answering

    uvloop.run(main())


async def _publish(node: Node, feed_id: int, told: Connection, per_second: int, seconds: float) -> None:
    """Deliver documents as fetches would, ten a second; the title of a probe is its time."""
    while not await asyncio.to_thread(told.poll, 0.1):
        pass
    told.recv()
    batch, begin, worked = per_second // 10, time.monotonic(), time.process_time()
    under_way: list[asyncio.Task[Any]] = []
    blank = Entry(content=Markup(TEXT))
    number = 0
    for turn in range(int(10 * seconds)):
        await asyncio.sleep(max(begin + turn / 10 - time.monotonic(), 0))
        entries = []
        for k in range(batch):
            number += 1
            title = f"probe {time.time():.6f}" if k % 100 == 0 else f"item {number}"
            entries.append(
                msgspec.structs.replace(blank, id=f"urn:x:{number}", link=f"https://example.org/{number}", title=title)
            )
        document = Document("rss 2.0", items=tuple(entries))
        under_way.append(asyncio.create_task(node.crawl.accept_push(feed_id, document, 1000)))
    await asyncio.gather(*under_way)
    told.send((number / (time.monotonic() - begin), 1000 * (time.process_time() - worked) / number))
