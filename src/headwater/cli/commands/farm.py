"""`headwater farm`: run a farm of test feeds until it is stopped."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Annotated

import typer

from headwater.cli.console.command import command
from headwater.cli.console.options import wants_json
from headwater.cli.console.output import out
from headwater.errors import InputError
from headwater.farm.farm import Farm
from headwater.farm.faults import KINDS, parse_faults
from headwater.farm.timeline import RATES

EXAMPLES = """headwater farm --feeds 50 --speed 1000  ·
headwater farm --feeds 10000 --hosts 100 --port 8099 --faults "429:30@2%,slow:3@5%,410@7"
headwater farm --faults mixed --json

Faults, comma-separated: KIND, KIND:VALUE, KIND@FEED, KIND@FIRST-LAST, KIND@SHARE%, or the word mixed.
"""
EXAMPLES += "; ".join(f"{kind}: {meaning}" for kind, meaning in KINDS.items())


top = typer.Typer()


@command(top, "farm", example=EXAMPLES)
async def run_farm(
    feeds: Annotated[int, typer.Option(help="How many feeds.")] = 20,
    seed: Annotated[int, typer.Option(help="The same seed gives the same feeds.", min=0)] = 1,
    speed: Annotated[float, typer.Option(help="How much faster than real feeds they publish.")] = 1.0,
    port: Annotated[int, typer.Option(help="Where to listen; 0 picks a free port.", min=0, max=65535)] = 8099,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    hosts: Annotated[int, typer.Option(help="Spread the feeds over 127.0.0.1 and the addresses after it.")] = 1,
    window: Annotated[int, typer.Option(help="How many items a document shows.")] = 20,
    faults: Annotated[str, typer.Option(help="Which feeds misbehave, and how (see below).")] = "",
    rates: Annotated[str, typer.Option(help="LOW-HIGH: slowest and fastest feed, in items a day.")] = "",
    format: Annotated[str | None, typer.Option(help="Give all feeds one format: rss, atom, rdf or json.")] = None,
    hints: Annotated[bool, typer.Option(help="Send ttl, max-age, skipHours and sy:*.")] = True,
    latency: Annotated[float, typer.Option(help="Seconds before every response.", min=0)] = 0.0,
    prepare: Annotated[bool, typer.Option(help="Make all documents before listening.")] = False,
    started: Annotated[
        float | None, typer.Option(help="Continue a farm that started then (seconds since 1970).")
    ] = None,
) -> None:
    """Run a farm of test feeds. They publish by a seed, for trials, tests and benchmarks."""
    made = Farm(
        feeds, seed, speed, window, host=host, port=port, hosts=hosts, faults=parse_faults(faults, feeds, seed),
        rates=_parse_rates(rates), format=format, hints=hints, latency=latency, started=started,
    )  # fmt: skip
    await _serve_until_signal(made, prepare)


async def _serve_until_signal(farm: Farm, prepare: bool) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with farm:
        if prepare:
            farm.prepare_documents()
        if wants_json():
            sys.stdout.buffer.write(farm.start_event() + b"\n")
            sys.stdout.buffer.flush()
        else:
            out.print(
                f"{farm.feeds} feeds at {farm.base_url()}/ (all of them: {farm.base_url()}/opml); stop with Ctrl-C."
            )
        await stopped.wait()


def _parse_rates(text: str) -> tuple[float, float]:
    if not text:
        return RATES
    low, _, high = text.partition("-")
    try:
        return float(low), float(high or low)
    except ValueError as error:
        raise InputError(f"“{text}” is not a pair of rates. Write LOW-HIGH in items a day, such as 0.5-20.") from error
