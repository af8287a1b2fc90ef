"""A plain HTTP client sees every fault of the farm."""

from __future__ import annotations

import asyncio
import itertools
import time
import zlib
from collections.abc import Awaitable, Callable
from xml.etree import ElementTree

import aiohttp
import brotli
import pytest
import zstandard

from headwater.errors import InputError
from headwater.farm.farm import Farm
from headwater.farm.faults import KINDS, MIXED, Fault, parse_faults
from support import ROOT

Start = Callable[..., Awaitable[Farm]]
LIMIT = 8 << 20


async def raw(farm: Farm, path: str = "/feeds/0", patience: float = 60.0) -> bytes:
    """Return all bytes from the server, up to a limit; give up on an open connection after `patience`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", farm.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{farm.port}\r\nConnection: close\r\n\r\n".encode())
    received = bytearray()
    try:
        async with asyncio.timeout(patience):
            while len(received) < LIMIT and (chunk := await reader.read(1 << 20)):
                received += chunk
    except TimeoutError:
        pass
    finally:
        writer.close()
    return bytes(received)


def parts(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    return int(first.split()[1]), dict(line.split(": ", 1) for line in lines), body


async def test_statuses_come_with_the_headers_that_belong_to_them(farm: Start) -> None:
    wanted = {"429": ("Retry-After", "60"), "503": ("Retry-After", None), "410": ("Retry-After", None)}
    for kind, (name, value) in wanted.items():
        status, headers, _ = parts(await raw(await farm(faults={0: Fault(kind)})))
        assert status == int(kind)
        assert headers.get(name) == value
    _, headers, _ = parts(await raw(await farm(faults={0: Fault("503", "Thu, 01 Jan 1970 00:00:00 GMT")})))
    assert headers["Retry-After"] == "Thu, 01 Jan 1970 00:00:00 GMT"


async def test_redirects_lead_to_the_feed_to_themselves_or_anywhere(farm: Start) -> None:
    one = await farm(
        feeds=5,
        faults={
            0: Fault("301"), 1: Fault("308"), 2: Fault("hops", "3"), 3: Fault("loop"), 4: Fault("302", "file:///etc/passwd"),
        },
    )  # fmt: skip
    async with aiohttp.ClientSession() as session:
        for feed, hops in ((0, 1), (1, 1), (2, 4)):
            async with session.get(one.url(feed)) as answer:
                assert answer.status == 200
                assert len(answer.history) == hops
                assert str(answer.url) == f"{one.base_url()}/moved/{feed}"
        with pytest.raises(aiohttp.TooManyRedirects):
            await session.get(one.url(3))
    assert parts(await raw(one, "/feeds/4"))[1]["Location"] == "file:///etc/passwd"


async def test_a_fault_can_begin_late_and_end_again(farm: Start) -> None:
    one = await farm(faults={0: Fault("503", after=1, times=2)})
    assert [parts(await raw(one))[0] for _ in range(5)] == [200, 503, 503, 200, 200]
    one.faults[0] = Fault("410")
    assert parts(await raw(one))[0] == 410
    del one.faults[0]
    assert parts(await raw(one))[0] == 200


async def test_slow_answers_come_late_and_dripping_ones_byte_by_byte(farm: Start) -> None:
    one = await farm(feeds=2, faults={0: Fault("slow", "0.2"), 1: Fault("drip", "0.1")})
    begun = time.monotonic()
    assert parts(await raw(one))[0] == 200
    assert time.monotonic() - begun >= 0.2
    dripped = await raw(one, "/feeds/1", patience=1.2)
    assert b"HTTP/1.1 200 OK".startswith(dripped)
    assert len(dripped) >= 2


async def test_silent_feeds_never_answer_and_are_logged_when_the_reader_gives_up(farm: Start) -> None:
    one = await farm(faults={0: Fault("silent")})
    assert await raw(one, patience=0.2) == b""
    for _ in range(100):
        if len(one.log):
            break
        await asyncio.sleep(0.01)
    assert [(line.feed, line.status) for line in one.log] == [(0, 0)]
    assert not one.log.under_way["127.0.0.1"]


async def test_bodies_break_off_by_reset_or_by_closing(farm: Start) -> None:
    one = await farm(feeds=2, faults={0: Fault("reset"), 1: Fault("cut")})
    with pytest.raises(ConnectionResetError):
        await raw(one)
    _, headers, body = parts(await raw(one, "/feeds/1"))
    assert 0 < len(body) < int(headers["Content-Length"])


async def test_endless_and_huge_bodies_do_not_end(farm: Start) -> None:
    one = await farm(feeds=2, faults={0: Fault("endless"), 1: Fault("huge")})
    assert len(await raw(one)) >= LIMIT
    _, headers, body = parts(await raw(one, "/feeds/1", patience=0.3))
    assert int(headers["Content-Length"]) == 10_000_000_000 > len(body) > 0


@pytest.mark.parametrize("packing", ["gzip", "br", "zstd"])
async def test_bombs_are_small_on_the_wire_and_large_inside(farm: Start, packing: str) -> None:
    one = await farm(faults={0: Fault("bomb", packing)})
    _, headers, body = parts(await raw(one))
    assert headers["Content-Encoding"] == packing
    assert len(body) < 4 << 20
    assert inflated(packing, body) > 100 << 20  # counting stops there


def inflated(packing: str, body: bytes) -> int:
    """Count the decompressed bytes, up to a little more than 100 MiB."""
    if packing == "zstd":
        chunks = zstandard.ZstdDecompressor().read_to_iter(body)
        return next((total for total in itertools.accumulate(map(len, chunks)) if total > 100 << 20), 0)
    if packing == "br":
        return len(brotli.Decompressor().process(body, output_buffer_limit=101 << 20))
    return len(zlib.decompressobj(31).decompress(body, 101 << 20))


@pytest.mark.parametrize("format", ["rss", "atom", "rdf"])
@pytest.mark.parametrize("kind", ["damaged", "truncated", "empty", "html", "login"])
async def test_damaged_documents_are_not_well_formed(farm: Start, kind: str, format: str) -> None:
    one = await farm(format=format, faults={0: Fault(kind)})
    status, _, body = parts(await raw(one))
    assert status == 200
    with pytest.raises(ElementTree.ParseError):
        ElementTree.fromstring(body)


async def test_identities_change_at_every_fetch_but_titles_stay(farm: Start) -> None:
    one = await farm(format="rss", faults={0: Fault("identities")})
    first, second = [ElementTree.fromstring(parts(await raw(one))[2]) for _ in range(2)]
    for name, same in (("title", True), ("guid", False), ("item/link", False)):
        texts = [[found.text for found in root.findall(f"channel//{name}")] for root in (first, second)]
        assert len(texts[0]) == len(texts[1]) > 0
        assert (texts[0] == texts[1]) is same, name
    assert not {guid.text for guid in first.iter("guid")} & {guid.text for guid in second.iter("guid")}


async def test_validators_can_be_absent_constant_or_absurd(farm: Start) -> None:
    kinds = ("no-validators", "same-etag", "304-body", "future", "undated", "headers", "laughs")
    one = await farm(feeds=7, format="rss", faults={feed: Fault(kind) for feed, kind in enumerate(kinds)})
    answers = {kind: parts(await raw(one, f"/feeds/{feed}")) for feed, kind in enumerate(kinds)}
    assert not {"ETag", "Last-Modified"} & answers["no-validators"][1].keys()
    assert answers["same-etag"][1]["ETag"] == '"always-the-same"'
    assert answers["304-body"][0] == 304
    assert len(answers["304-body"][2]) > 100
    assert "2099" in answers["future"][1]["Last-Modified"]
    assert b"<guid" in answers["undated"][2]
    assert b"<pubDate>" not in answers["undated"][2]
    assert len(answers["headers"][1]) > 100_000
    assert answers["laughs"][2].count(b"<!ENTITY") == 10


async def test_every_fault_can_be_requested(farm: Start) -> None:
    quiet = {"silent", "drip", "slow", "reset", "endless", "huge"}  # have tests of their own
    kinds = sorted(KINDS.keys() - quiet)
    one = await farm(feeds=len(kinds), faults={feed: Fault(kind) for feed, kind in enumerate(kinds)})
    answers = {kind: (await raw(one, f"/feeds/{feed}"))[:200_000] for feed, kind in enumerate(kinds)}
    assert all(answer.startswith(b"HTTP/1.1 ") for answer in answers.values())


def test_specifications_name_feeds_ranges_and_shares() -> None:
    found = parse_faults("429:30@3, slow:2.5@5-6, 410@50%", feeds=1000, seed=4)
    assert found[3] == Fault("429", "30")
    assert found[5] == found[6] == Fault("slow", "2.5")
    assert 400 < sum(fault.kind == "410" for fault in found.values()) < 600
    assert found == parse_faults("429:30@3, slow:2.5@5-6, 410@50%", feeds=1000, seed=4)
    assert parse_faults("", 10, 1) == {}
    assert parse_faults("503", 3, 1) == dict.fromkeys(range(3), Fault("503"))
    assert len({fault.kind for fault in parse_faults("mixed", 2000, 1).values()}) == MIXED.count("@")


@pytest.mark.parametrize(
    "specification", ["sloww", "slow:much", "410@x", "410@99", "410@5-3", "bomb:rar", "200", "429@-1", "@3"]
)
def test_invalid_specifications_are_refused(specification: str) -> None:
    with pytest.raises(InputError):
        parse_faults(specification, feeds=10, seed=1)


def test_every_fault_is_in_the_documentation() -> None:
    page = (ROOT / "docs" / "farm.md").read_text()
    for kind, meaning in KINDS.items():
        assert f"| `{kind}` | {meaning} |" in page
