"""Pacing allows about one connection at a time to a registered domain, with a pause between two, fairly for all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_server import RawServer, Request, feed, read_titles, redirect

from headwater.fetch.client import Fetcher
from headwater.fetch.http.host_gate import HostGate, HostSlots
from headwater.formats.values.domains import registered_domain


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("example.org", "example.org"),
        ("Feeds.News.Example.ORG.", "example.org"),
        ("a.b.example.co.uk", "example.co.uk"),
        ("one.blogspot.com", "one.blogspot.com"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("localhost", "localhost"),
        ("co.uk", "co.uk"),
        ("a.blog.github.io", "blog.github.io"),
        ("www.city.kobe.jp", "city.kobe.jp"),
        ("a.b.c.kobe.jp", "b.c.kobe.jp"),
        ("a.www.ck", "www.ck"),
        ("a.b.ck", "a.b.ck"),
        ("a.b.xn--fiqs8s", "b.xn--fiqs8s"),
        ("a.b.中国", "b.中国"),
        ("a.unknown-ending", "a.unknown-ending"),
        ("a..org", "a..org"),
        ("", ""),
    ],
)
def test_a_host_belongs_to_the_domain_somebody_registered(host: str, domain: str):
    assert registered_domain(host) == domain


@given(
    st.integers(1, 3),
    st.floats(0, 5),
    st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.floats(0, 3)), max_size=60),
)
def test_never_more_at_once_and_never_sooner_than_the_gap(
    per_host: int, gap: float, steps: list[tuple[str, bool, float]]
):
    """Enters and leaves in any order, on a virtual clock."""
    pace, now = HostSlots(per_host, gap), 100.0
    active = dict.fromkeys("abc", 0)
    starts: dict[str, list[float]] = {letter: [] for letter in "abc"}
    for letter, entering, pause in steps:
        now += pause
        domain = f"{letter}.example"
        if entering:
            answer = pace.enter(domain, now)
            if answer == 0.0:
                active[letter] += 1
                starts[letter].append(now)
            elif answer is None:
                assert active[letter] == per_host
            else:
                assert 0 < answer <= gap + 1e-9
        elif active[letter]:
            pace.leave(domain, now)
            active[letter] -= 1
        assert active[letter] <= per_host
    for times in starts.values():
        assert all(later >= earlier + gap for earlier, later in pairwise(times))


def test_hosts_nobody_visits_any_more_are_forgotten():
    pace, now = HostSlots(gap=1.0), 0.0
    for number in range(5000):
        pace.enter(f"{number}.example", now)
        pace.leave(f"{number}.example", now + 0.1)
        now += 0.5
    assert len(pace) < 10


def test_a_local_host_needs_no_gap():
    pace = HostSlots(per_host=2, gap=60.0)
    assert [pace.enter("127.0.0.1", 0.0) for _ in range(3)] == [0.0, 0.0, None]
    assert [pace.enter("localhost", 0.0), pace.enter("localhost", 0.0)] == [0.0, 0.0]


@asynccontextmanager
async def _slot(gate: HostGate, domain: str) -> AsyncIterator[None]:
    await gate.enter(domain)
    try:
        yield
    finally:
        gate.leave(domain)


async def _most_at_once(per_host: int, fetches: int) -> int:
    now = most = 0

    async def count(_: Request, writer: asyncio.StreamWriter) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.02)
        now -= 1
        writer.write(feed({"Connection": "close"}))
        await writer.drain()
        writer.close()

    async with RawServer() as server:
        server.routes["/feed"] = count
        async with Fetcher(allow_private=True, contact=None, read=read_titles, per_host=per_host) as fetcher:
            outcomes = await asyncio.gather(*(fetcher.fetch(server.url("/feed")) for _ in range(fetches)))
    assert all(outcome.ending.ok for outcome in outcomes)
    return most


@pytest.mark.parametrize("per_host", [1, 3])
async def test_a_host_sees_exactly_as_many_connections_at_once_as_allowed(per_host: int):
    assert await _most_at_once(per_host, 3 * per_host + 1) == per_host


async def test_first_come_first_served():
    gate, order = HostGate(per_host=1, gap=0.0), []

    async def visit(number: int) -> None:
        async with _slot(gate, "example.org"):
            order.append(number)
            await asyncio.sleep(0)

    await asyncio.gather(*(visit(number) for number in range(50)))
    assert order == list(range(50))
    assert gate.try_enter("example.org")


async def test_starts_are_a_gap_apart_and_other_hosts_do_not_wait():
    gate = HostGate(per_host=5, gap=0.05)
    clock = asyncio.get_running_loop().time
    starts: list[float] = []

    async def visit() -> None:
        async with _slot(gate, "example.org"):
            starts.append(clock())

    visits = [asyncio.create_task(visit()) for _ in range(4)]
    await asyncio.sleep(0.01)
    assert not gate.try_enter("example.org")
    assert gate.try_enter("other.example")
    await asyncio.gather(*visits)
    assert all(later - earlier > 0.045 for earlier, later in pairwise(starts))


async def test_one_who_gives_up_waiting_does_not_hold_up_the_queue():
    gate = HostGate(per_host=1, gap=0.0)
    await gate.enter("example.org")
    waiting = [asyncio.create_task(gate.enter("example.org")) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    waiting[1].cancel()
    await asyncio.sleep(0)
    gate.leave("example.org")
    await asyncio.wait_for(waiting[2], 60)


async def test_a_redirect_waits_for_its_own_host_and_two_that_cross_do_not_lock_each_other():
    async with RawServer() as server:
        there = server.url("/feed", host="localhost")
        server.routes |= {"/a": redirect(302, there), "/b": redirect(302, server.url("/feed")), "/feed": feed()}
        async with Fetcher(allow_private=True, contact=None, read=read_titles, per_host=1) as fetcher:
            outcomes = await asyncio.wait_for(
                asyncio.gather(fetcher.fetch(server.url("/a")), fetcher.fetch(server.url("/b", host="localhost"))),
                60,
            )
    assert all(outcome.ending.ok for outcome in outcomes)


async def test_the_cost_of_a_turn_does_not_grow_with_those_who_wait():
    async def cost(waiting: int) -> float:
        gate = HostGate(per_host=1, gap=0.0)

        async def visit() -> None:
            async with _slot(gate, "127.0.0.1"):
                pass

        begin = time.process_time()
        await asyncio.gather(*(visit() for _ in range(waiting)))
        return (time.process_time() - begin) / waiting

    many, few = [await cost(20_000) for _ in range(2)], [await cost(500) for _ in range(5)]
    assert min(many) < 10 * min(few)


async def test_waiting_for_a_turn_does_not_count_against_the_deadline(server: RawServer):
    async def slow(_: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.2)
        writer.write(feed({"Connection": "close"}))

    server.routes["/feed"] = slow
    async with Fetcher(allow_private=True, contact=None, read=read_titles, deadline=2.0, per_host=1) as fetcher:
        outcomes = await asyncio.gather(*(fetcher.fetch(server.url("/feed")) for _ in range(12)))
    assert all(outcome.ending.ok for outcome in outcomes)
