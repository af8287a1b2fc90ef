"""A hostile, broken or strange server harms only its own feed (security.md, Servers)."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import threading
import time
import zlib
from collections.abc import Callable
from functools import cache, partial

import brotli
import pytest
import trustme
import zstandard
from raw_server import RSS, RawServer, Request, answer, feed, read_titles, redirect

from headwater.errors import Unreachable
from headwater.fetch.client import Fetcher
from headwater.fetch.http.content_encoding import decode_body
from headwater.fetch.http.redirects import MAX_REDIRECTS
from headwater.model import Ending, Validators

OLD = Validators('"old"')


async def test_one_byte_at_a_time_ends_by_the_deadline(server: RawServer):
    async def trickle(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\n\r\n")
        while True:
            writer.write(b"<")
            await writer.drain()
            await asyncio.sleep(0.02)

    server.routes["/feed"] = trickle
    async with Fetcher(allow_private=True, contact=None, read=read_titles, deadline=0.3, min_rate=0) as fetcher:
        outcome = await fetcher.fetch(server.url("/feed"), OLD)
    assert (outcome.ending, outcome.validators, outcome.document) == (Ending.TIMEOUT, None, None)
    assert outcome.elapsed < 3
    assert "within 0.3 s" in outcome.message


async def test_a_body_slower_than_the_least_rate_ends_before_the_deadline(server: RawServer):
    async def trickle(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            writer.write(b"<")
            await writer.drain()
            await asyncio.sleep(0.02)

    server.routes["/feed"] = trickle
    async with Fetcher(allow_private=True, contact=None, read=read_titles, deadline=0.9, min_rate=1000) as fetcher:
        outcome = await fetcher.fetch(server.url("/feed"))
    assert outcome.ending is Ending.TIMEOUT
    assert "too slowly" in outcome.message
    assert outcome.bytes > 0


async def test_a_server_that_accepts_and_never_answers_times_out(server: RawServer):
    server.routes["/feed"] = lambda *_: asyncio.sleep(3600)
    async with Fetcher(allow_private=True, contact=None, read=read_titles, deadline=0.2) as fetcher:
        assert (await fetcher.fetch(server.url("/feed"))).ending is Ending.TIMEOUT


async def test_headers_one_at_a_time_end_by_the_deadline(server: RawServer):
    async def headers(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"X: y\r\n")
            await writer.drain()
            await asyncio.sleep(0.02)

    server.routes["/feed"] = headers
    async with Fetcher(allow_private=True, contact=None, read=read_titles, deadline=0.3) as fetcher:
        assert (await fetcher.fetch(server.url("/feed"))).ending is Ending.TIMEOUT


async def test_the_deadline_holds_for_all_hops_together(server: RawServer):
    async def slow(request: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.15)
        writer.write(redirect(302, f"/{int(request.path[1:]) + 1}", {"Connection": "close"}))

    server.routes |= {f"/{hop}": slow for hop in range(10)}
    async with Fetcher(allow_private=True, contact=None, read=read_titles, deadline=0.4) as fetcher:
        outcome = await fetcher.fetch(server.url("/0"))
    assert outcome.ending is Ending.TIMEOUT
    assert len(server.requests) <= 4


@pytest.mark.parametrize("framing", ["Content-Length: 5000", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("reset", [True, False])
async def test_a_body_that_breaks_off_is_never_a_document(
    server: RawServer, fetcher: Fetcher, framing: str, reset: bool
):
    async def cut(_: Request, writer: asyncio.StreamWriter) -> None:
        part = RSS if "Length" in framing else b"%x\r\n%b\r\n" % (len(RSS), RSS)
        writer.write(f"HTTP/1.1 200 OK\r\nETag: x\r\n{framing}\r\n\r\n".encode() + part)
        await writer.drain()
        await asyncio.sleep(0.02)
        if reset:
            writer.transport.abort()
        else:
            writer.close()

    server.routes["/feed"] = cut
    outcome = await fetcher.fetch(server.url("/feed"), OLD)
    assert (outcome.ending, outcome.document, outcome.validators) == (Ending.CONNECTION, None, None)
    assert "closed the connection" in outcome.message


async def test_a_document_that_ends_with_its_connection_before_its_root_is_closed_is_only_a_part(
    server: RawServer, fetcher: Fetcher
):
    async def cut(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nETag: x\r\n\r\n" + RSS[: RSS.index(b"</channel>")])
        await writer.drain()
        writer.close()

    server.routes["/feed"] = cut
    outcome = await fetcher.fetch(server.url("/feed"), OLD)
    assert (outcome.ending, outcome.validators, outcome.body_hash) == (Ending.PARTIAL, None, None)


@pytest.mark.parametrize(
    "end", [b"\n\n", b"<!-- served in 0.1 s -->", b"<script>ad()</script>" * 1000, b"\0", b"</RSS >"]
)
async def test_something_behind_the_root_does_not_make_a_document_a_part(
    server: RawServer, fetcher: Fetcher, end: bytes
):
    server.routes["/feed"] = feed(body=RSS + end)
    assert (await fetcher.fetch(server.url("/feed"))).ending is Ending.CHANGED


async def test_an_endless_body_is_cut_at_the_cap(server: RawServer):
    sent = 0

    async def endless(_: Request, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
            sent += 0x4000
            await writer.drain()

    server.routes["/feed"] = endless
    async with Fetcher(allow_private=True, contact=None, read=read_titles, max_wire=1 << 20) as fetcher:
        outcome = await fetcher.fetch(server.url("/feed"))
    assert outcome.ending is Ending.TOO_LARGE
    assert 1 << 20 < outcome.bytes < 2 << 20
    assert sent < 16 << 20


async def test_ten_gigabytes_announced_are_refused_at_once(server: RawServer, fetcher: Fetcher):
    async def promise(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n")
        await asyncio.sleep(3600)

    server.routes["/feed"] = promise
    outcome = await fetcher.fetch(server.url("/feed"))
    assert outcome.ending is Ending.TOO_LARGE
    assert "10,737,418,240" in outcome.message


def _raw_deflate(body: bytes) -> bytes:
    engine = zlib.compressobj(wbits=-15)
    return engine.compress(body) + engine.flush()


ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": _raw_deflate,
    "br": partial(brotli.compress, quality=1),
    "zstd": zstandard.ZstdCompressor().compress,
}


@cache
def bomb(encoding: str) -> bytes:
    """Return 24 MB of zeros, compressed."""
    return ENCODERS[encoding](bytes(24 << 20))


@pytest.mark.parametrize("encoding", ENCODERS)
async def test_every_encoding_we_accept_is_decoded(server: RawServer, fetcher: Fetcher, encoding: str):
    wire = ENCODERS[encoding](RSS)
    server.routes["/feed"] = feed({"Content-Encoding": encoding}, wire)
    outcome = await fetcher.fetch(server.url("/feed"))
    assert outcome.ending is Ending.CHANGED
    assert len(wire) < outcome.bytes < len(wire) + 200


@pytest.mark.parametrize("encoding", ENCODERS)
async def test_a_bomb_is_cut_at_the_cap(server: RawServer, fetcher: Fetcher, encoding: str):
    server.routes["/feed"] = feed({"Content-Encoding": encoding}, bomb(encoding))
    outcome = await fetcher.fetch(server.url("/feed"))
    assert outcome.ending is Ending.TOO_LARGE
    assert "20,971,520 bytes when decompressed" in outcome.message


@pytest.mark.parametrize("encoding", ENCODERS)
async def test_a_bomb_on_a_redirect_is_not_even_read(server: RawServer, fetcher: Fetcher, encoding: str):
    server.routes["/old"] = redirect(301, "/feed", {"Content-Encoding": encoding}, bomb(encoding))
    server.routes["/feed"] = feed()
    outcome = await fetcher.fetch(server.url("/old"))
    assert outcome.ending is Ending.CHANGED
    assert outcome.bytes < 1000


async def test_an_endless_redirect_body_does_not_delay_the_redirect(server: RawServer, fetcher: Fetcher):
    async def endless(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: /feed\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
            await writer.drain()

    server.routes["/old"], server.routes["/feed"] = endless, feed()
    assert (await fetcher.fetch(server.url("/old"))).ending is Ending.CHANGED


async def test_chained_encodings_are_refused(server: RawServer, fetcher: Fetcher):
    twice = gzip.compress(gzip.compress(RSS))
    server.routes["/feed"] = feed({"Content-Encoding": "gzip, gzip"}, twice)
    outcome = await fetcher.fetch(server.url("/feed"))
    assert outcome.ending is Ending.UNREADABLE
    assert "more than once" in outcome.message
    server.routes["/feed"] = feed({"Content-Encoding": "gzip\r\nContent-Encoding: gzip"}, twice)
    assert (await fetcher.fetch(server.url("/feed"))).ending is Ending.UNREADABLE


@pytest.mark.parametrize("encoding", ENCODERS)
async def test_a_broken_or_cut_encoding_is_unreadable(server: RawServer, fetcher: Fetcher, encoding: str):
    wire = ENCODERS[encoding](RSS)
    for damaged in (wire[:-9], wire[:20] + b"\xff\x00\xff" + wire[23:]):
        server.routes["/feed"] = feed({"Content-Encoding": encoding}, damaged)
        outcome = await fetcher.fetch(server.url("/feed"), OLD)
        assert (outcome.ending, outcome.validators) == (Ending.UNREADABLE, None)
        assert "cannot be decompressed" in outcome.message


@pytest.mark.parametrize(("label", "wire"), [("gzip", RSS), ("UTF-8", RSS), ("", gzip.compress(RSS)), ("none", RSS)])
async def test_a_wrong_label_of_the_encoding_is_forgiven(server: RawServer, fetcher: Fetcher, label: str, wire: bytes):
    server.routes["/feed"] = feed({"Content-Encoding": label}, wire)
    assert (await fetcher.fetch(server.url("/feed"))).ending is Ending.CHANGED


async def test_thousands_of_gzip_members_cost_no_time(server: RawServer, fetcher: Fetcher):
    server.routes["/feed"] = feed({"Content-Encoding": "gzip"}, gzip.compress(b"") * 200_000)
    begin = time.process_time()
    assert (await fetcher.fetch(server.url("/feed"))).ending is Ending.UNREADABLE
    assert time.process_time() - begin < 2


async def test_more_than_a_megabyte_is_never_unpacked_on_the_loop(
    server: RawServer, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
):
    caps: dict[bool, list[int]] = {True: [], False: []}

    def watched(body: bytes, encoding: str, cap: int) -> bytes:
        caps[threading.current_thread() is threading.main_thread()].append(cap)
        return decode_body(body, encoding, cap)

    monkeypatch.setattr("headwater.fetch.client.decode_body", watched)
    server.routes["/bomb"] = feed({"Content-Encoding": "gzip"}, bomb("gzip"))
    server.routes["/feed"] = feed({"Content-Encoding": "gzip"}, gzip.compress(RSS))
    assert (await fetcher.fetch(server.url("/bomb"))).ending is Ending.TOO_LARGE
    assert (await fetcher.fetch(server.url("/feed"))).ending is Ending.CHANGED
    assert caps == {True: [1 << 20, 1 << 20], False: [20 << 20]}


async def test_a_redirect_in_a_circle_ends(server: RawServer, fetcher: Fetcher):
    server.routes["/a"], server.routes["/b"] = redirect(302, "/b"), redirect(302, "/a")
    outcome = await fetcher.fetch(server.url("/a"))
    assert outcome.ending is Ending.REDIRECTS
    assert "in a loop" in outcome.message
    assert server.paths == ["/a", "/b"]


async def test_fifty_hops_end_after_ten(server: RawServer, fetcher: Fetcher):
    server.routes |= {f"/{hop}": redirect(301, f"/{hop + 1}") for hop in range(50)}
    outcome = await fetcher.fetch(server.url("/0"))
    assert (outcome.ending, outcome.moved_to) == (Ending.REDIRECTS, None)
    assert len(server.requests) == MAX_REDIRECTS + 1


@pytest.mark.parametrize(
    "place",
    [
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "ftp://127.0.0.1/",
        "javascript:alert(1)",
        "data:text/xml,<rss/>",
        "feed://127.0.0.1/",
        "http:\\\\127.0.0.1\\",
        "http://[broken/",
        "http://127.0.0.1/\x00",
    ],
)
async def test_a_redirect_to_where_we_do_not_go_ends(server: RawServer, fetcher: Fetcher, place: str):
    server.routes["/feed"] = redirect(302, place)
    outcome = await fetcher.fetch(server.url("/feed"))
    assert outcome.ending in (Ending.REDIRECTS, Ending.BROKEN)
    assert len(server.requests) == 1


async def test_a_redirect_without_a_place_ends(server: RawServer, fetcher: Fetcher):
    server.routes["/feed"] = answer(302)
    assert (await fetcher.fetch(server.url("/feed"))).ending is Ending.REDIRECTS


async def test_a_redirect_with_user_names_is_blocked(server: RawServer, fetcher: Fetcher):
    server.routes["/feed"] = redirect(302, f"http://user:pw@127.0.0.1:{server.port}/x")
    assert (await fetcher.fetch(server.url("/feed"))).ending is Ending.BLOCKED


async def test_a_hundred_thousand_headers_are_refused(server: RawServer, fetcher: Fetcher):
    head = b"".join(b"X-%d: y\r\n" % n for n in range(100_000))
    server.routes["/feed"] = b"HTTP/1.1 200 OK\r\n" + head + b"Content-Length: 0\r\n\r\n"
    outcome = await fetcher.fetch(server.url("/feed"))
    assert outcome.ending is Ending.TOO_LARGE
    assert "headers" in outcome.message


async def test_a_header_of_a_megabyte_is_refused(server: RawServer, fetcher: Fetcher):
    server.routes["/feed"] = feed({"X": "y" * (1 << 20)})
    assert (await fetcher.fetch(server.url("/feed"))).ending is Ending.TOO_LARGE


async def test_a_policy_header_of_twenty_kilobytes_is_ordinary(server: RawServer, fetcher: Fetcher):
    server.routes["/feed"] = feed({"Content-Security-Policy": "y" * 20_000})
    assert (await fetcher.fetch(server.url("/feed"))).ending is Ending.CHANGED


@pytest.mark.parametrize(
    "wire",
    [
        b"garbage\r\n\r\n",
        b"\x16\x03\x01\x00\x05 not http\r\n\r\n",
        b"HTTP/1.1 abc X\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
    ],
)
async def test_an_answer_that_is_not_http_is_reported(server: RawServer, fetcher: Fetcher, wire: bytes):
    server.routes["/feed"] = wire
    outcome = await fetcher.fetch(server.url("/feed"))
    assert outcome.ending in (Ending.BROKEN, Ending.CONNECTION)
    assert outcome.message.endswith(".")


async def test_a_304_with_a_body_is_unchanged_and_poisons_nothing(server: RawServer, fetcher: Fetcher):
    body = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nETag: evil\r\n\r\n<evil>"
    server.routes["/feed"] = answer(304, body, {"Content-Length": str(len(body))})
    server.routes["/other"] = feed()
    assert (await fetcher.fetch(server.url("/feed"), OLD)).ending is Ending.UNCHANGED
    for _ in range(3):
        other = await fetcher.fetch(server.url("/other"))
        assert (other.ending, other.validators) == (Ending.CHANGED, Validators())


async def test_an_answer_sent_before_the_question_is_not_believed(server: RawServer, fetcher: Fetcher):
    server.routes["/feed"] = feed() + feed({"ETag": '"smuggled"'}, RSS.replace(b"One", b"Evil"))
    server.routes["/other"] = feed()
    assert (await fetcher.fetch(server.url("/feed"))).ending is Ending.CHANGED
    other = await fetcher.fetch(server.url("/other"))
    assert other.document is None or other.document.items[0].title == "One"


async def test_an_empty_200_and_a_login_page_are_unreadable(server: RawServer, fetcher: Fetcher):
    for body in (b"", b"<html><form>log in</form></html>"):
        server.routes["/feed"] = feed(body=body)
        outcome = await fetcher.fetch(server.url("/feed"), OLD)
        assert (outcome.ending, outcome.status, outcome.document) == (Ending.UNREADABLE, 200, None)


async def test_a_server_that_hangs_up_without_a_word_is_a_connection_error(server: RawServer, fetcher: Fetcher):
    async def hang_up(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server.routes["/feed"] = hang_up
    assert (await fetcher.fetch(server.url("/feed"))).ending is Ending.CONNECTION


async def test_a_closed_port_is_a_connection_error(fetcher: Fetcher, unused_tcp_port: int):
    outcome = await fetcher.fetch(f"http://127.0.0.1:{unused_tcp_port}/")
    assert outcome.ending is Ending.CONNECTION
    assert "refused" in outcome.message
    with pytest.raises(Unreachable) as caught:
        await fetcher.get(f"http://127.0.0.1:{unused_tcp_port}/")
    assert caught.value.ending == Ending.CONNECTION


@pytest.mark.parametrize("name", ["no-such-name.invalid", f"{'a' * 64}.example", "-.invalid", "a..b.invalid", "xn--"])
async def test_a_name_without_an_address_is_a_dns_error(fetcher: Fetcher, name: str):
    outcome = await fetcher.fetch(f"http://{name}/")
    assert outcome.ending in (Ending.DNS, Ending.BLOCKED)
    assert outcome.message.endswith((".", "?"))


async def test_a_certificate_nobody_trusts_is_a_tls_error_and_a_trusted_one_works():
    authority, other = trustme.CA(), trustme.CA()
    side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(side)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    stranger = ssl.create_default_context()
    other.configure_trust(stranger)
    async with RawServer(tls=side) as server:
        server.routes["/feed"] = feed()
        async with Fetcher(allow_private=True, contact=None, read=read_titles, tls=client) as fetcher:
            good = await fetcher.fetch(server.url("/feed", host="localhost"))
            wrong_name = await fetcher.fetch(server.url("/feed"))
        async with Fetcher(allow_private=True, contact=None, read=read_titles, tls=stranger) as fetcher:
            unknown = await fetcher.fetch(server.url("/feed", host="localhost"))
    assert good.ending is Ending.CHANGED
    assert (wrong_name.ending, unknown.ending) == (Ending.TLS, Ending.TLS)
    assert "certificate" in unknown.message


async def test_https_spoken_to_a_server_of_plain_http_is_a_tls_error(fetcher: Fetcher):
    async def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(400))
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        outcome = await fetcher.fetch(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    assert outcome.ending is Ending.TLS


async def test_one_stuck_server_does_not_delay_another(server: RawServer):
    server.routes["/stuck"] = lambda *_: asyncio.sleep(3600)
    server.routes["/feed"] = feed()
    async with Fetcher(allow_private=True, contact=None, read=read_titles, deadline=120) as fetcher:
        stuck = asyncio.create_task(fetcher.fetch(server.url("/stuck")))
        await asyncio.sleep(0.05)
        assert (await fetcher.fetch(server.url("/feed", host="localhost"))).ending is Ending.CHANGED
        assert not stuck.done()
        stuck.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stuck


async def test_a_fetch_that_is_cancelled_frees_its_host(server: RawServer):
    server.routes["/stuck"] = lambda *_: asyncio.sleep(3600)
    server.routes["/feed"] = feed()
    async with Fetcher(allow_private=True, contact=None, read=read_titles, per_host=1) as fetcher:
        stuck = asyncio.create_task(fetcher.fetch(server.url("/stuck")))
        await asyncio.sleep(0.05)
        stuck.cancel()
        assert (await fetcher.fetch(server.url("/feed"))).ending is Ending.CHANGED


async def test_a_page_is_any_answer_and_is_capped(server: RawServer, fetcher: Fetcher):
    server.routes["/page"] = answer(
        200, gzip.compress(b"x" * 5000), {"Content-Encoding": "gzip", "Content-Type": "a/b"}
    )
    page = await fetcher.get(server.url("/page"))
    assert (page.status, page.ok, page.body, page.content_type) == (200, True, b"x" * 5000, "a/b")
    missing = await fetcher.get(server.url("/missing"))
    assert (missing.status, missing.ok) == (404, False)
    with pytest.raises(Unreachable, match="too large"):
        await fetcher.get(server.url("/page"), max_bytes=1000)
