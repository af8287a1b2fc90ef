"""`headwater demo`: a server and the test feeds that it watches, without the internet."""

from __future__ import annotations

import contextlib
import tempfile
import time
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from headwater.assembly import build
from headwater.cli.commands.serve import serve_node_pages
from headwater.cli.console import logs
from headwater.cli.console.command import command
from headwater.cli.console.output import err, show_progress
from headwater.cli.console.resources import make_data_folder, open_store
from headwater.farm.demo_world import BUDGET, TAG, make_demo_farm, make_demo_history, replay_demo
from headwater.farm.farm_history import LAST, LATE, LATE_STEP, STEP, VirtualClock
from headwater.settings import Settings, load_settings
from headwater.store.content.feeds import list_feeds
from headwater.store.database.sqlite import lock_database_file
from headwater.times import DAY, format_duration
from headwater.web.server import open_listener

top = typer.Typer()


@command(top, "demo", settings_options=("port",), example="headwater demo --feeds 50")
async def serve_demo(
    settings: Settings,
    feeds: Annotated[int, typer.Option(min=1, help="How many feeds the farm has.")] = 30,
    port: Annotated[int | None, typer.Option(help="The port of the pages (8040; 0 picks a free one).")] = None,
    speed: Annotated[float, typer.Option(min=1, help="How much faster than real feeds they publish.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives other feeds.")] = 1,
    days: Annotated[float, typer.Option(min=0, help="Days of the past to replay first.")] = 14.0,
) -> None:
    """Start test feeds and a server that watches them, without the internet.

    Two weeks of the feeds' past are replayed first, by the server's own code. Data goes to a temporary folder, unless
    --data names one.
    """
    logs.configure_logs("error")
    with contextlib.ExitStack() as stack:
        data = settings.data
        if settings.database is None and "data" not in settings.given_fields:
            data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headwater-demo-")))
        # What is live has the pace of the replay's last days, so that past and present can be compared.
        least = max(LATE_STEP / speed, 5.0)
        usual = {"budget": BUDGET * speed, "per_host": 16, "host_pause": 0.0, "least_interval": least}
        lively = load_settings(**{**usual, **settings.given_values(), "data": data, "allow_private": True})
        make_data_folder(lively)
        stack.enter_context(lock_database_file(lively.database_url))
        await _run_demo(lively, feeds, seed, speed, days)


async def _run_demo(settings: Settings, feeds: int, seed: int, speed: float, days: float) -> None:
    clock = VirtualClock()
    started, port = time.time() - days * DAY / speed, 0
    async with open_store(settings) as store:
        before = await store.read(list_feeds, tag=TAG, limit=1)
    if before:  # the feeds of an earlier demo in this folder publish again
        started, port = before[0].added, urlsplit(before[0].url).port or 0
    async with make_demo_farm(feeds, seed, speed, clock, started, port) as farm:
        with open_listener(settings.host, settings.port) as listener:
            if not before:
                if days:
                    err.print(
                        f"{days:g} days in the life of {feeds} feeds are replayed by the server's own code. A feed is "
                        f"polled at most every {format_duration(STEP)}, in the last {format_duration(LATE)} and from "
                        f"then on every {format_duration(settings.least_interval)}."
                    )
                async with open_store(settings) as store:
                    with show_progress("replaying", unit="hours") as on_progress:
                        history = make_demo_history(store, settings, farm, clock, time.time())
                        await replay_demo(history, started, on_progress)
                    if history.hurried:
                        err.print(
                            f"This machine is busy, so feeds were polled at most every {format_duration(STEP)} until "
                            f"{format_duration(LAST)} ago."
                        )
            async with build("node", settings) as node:
                err.print(f"{farm.feeds} feeds publish at {farm.base_url()}/ and are being refreshed.")
                await serve_node_pages(node, listener)
