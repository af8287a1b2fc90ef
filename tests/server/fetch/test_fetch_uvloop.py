"""The tests of the fetcher also pass on uvloop, which the server uses."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from types import ModuleType

import pytest
import test_fetch_conditional
import test_fetch_hosts
import test_fetch_servers
import uvloop
from raw_server import RawServer, read_titles

from headwater.fetch.client import Fetcher
from headwater.fetch.reading.document_reader import DocumentReader
from headwater.formats import read

Scenario = Callable[..., Awaitable[None]]


def scenarios(module: ModuleType) -> list[Scenario]:
    """List the module's tests that need only a server and a fetcher."""
    return [
        function
        for name, function in vars(module).items()
        if name.startswith("test_")
        and inspect.iscoroutinefunction(function)
        and set(inspect.signature(function).parameters) <= {"server", "fetcher"}
    ]


ALL = [each for module in (test_fetch_conditional, test_fetch_servers, test_fetch_hosts) for each in scenarios(module)]


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.__name__)
def test_on_uvloop(scenario: Scenario):
    async def run() -> None:
        async with (
            RawServer() as server,
            Fetcher(
                allow_private=True, contact="https://example.org/contact", deadline=1.0, per_host=8, read=read_titles
            ) as fetcher,
        ):
            given = {"server": server, "fetcher": fetcher}
            await scenario(**{name: given[name] for name in inspect.signature(scenario).parameters})

    uvloop.run(run())


def test_workers_live_and_die_on_uvloop():
    async def run() -> None:
        reader = DocumentReader(read)
        body = b"<rss><channel><title>t</title>" + b"<!--" + b"x" * (100 << 10) + b"--></channel></rss>"
        try:
            assert (await reader.read(body, "http://example.org/", {})).title == "t"
        finally:
            await reader.close()

    uvloop.run(run())
