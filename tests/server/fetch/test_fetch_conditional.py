"""Conditional requests send the stored validators, update them, and interpret the answers (protocols.md §1)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from raw_server import RSS, RawServer, answer, feed, read_titles, redirect

import headwater
from headwater.fetch.client import Fetcher
from headwater.model import Ending, Validators

OLD = Validators(etag='W/"a b,c"', last_modified="Sat, 01 Jan 2000 00:00:00 GMT")


async def test_a_first_fetch_sends_no_conditions_and_brings_the_document(server: RawServer, fetcher: Fetcher):
    server.routes["/feed"] = feed({"ETag": '"1"', "Last-Modified": "Sun, 15 Nov 2099 00:00:00 GMT"})
    outcome = await fetcher.fetch(server.url("/feed"))
    assert outcome.ending is Ending.CHANGED
    assert outcome.status == 200
    assert outcome.document is not None
    assert [item.title for item in outcome.document.items] == ["One"]
    assert outcome.validators == Validators('"1"', "Sun, 15 Nov 2099 00:00:00 GMT")
    assert outcome.bytes > len(RSS)
    assert outcome.body_hash
    assert outcome.moved_to is None
    assert not server.requests[0].names & {"if-none-match", "if-modified-since", "a-im"}


async def test_validators_are_sent_back_byte_for_byte(server: RawServer, fetcher: Fetcher):
    server.routes["/feed"] = answer(304)
    outcome = await fetcher.fetch(server.url("/feed"), OLD)
    assert outcome.ending is Ending.UNCHANGED
    assert server.requests[0]["If-None-Match"] == 'W/"a b,c"'
    assert server.requests[0]["If-Modified-Since"] == "Sat, 01 Jan 2000 00:00:00 GMT"
    assert outcome.validators == OLD


async def test_a_304_brings_new_validators_and_keeps_those_it_does_not_name(server: RawServer, fetcher: Fetcher):
    server.routes["/feed"] = answer(304, headers={"ETag": '"new"'})
    outcome = await fetcher.fetch(server.url("/feed"), OLD)
    assert outcome.validators == Validators('"new"', OLD.last_modified)
    assert outcome.document is None


async def test_a_200_without_validators_drops_the_old_ones(server: RawServer, fetcher: Fetcher):
    server.routes["/feed"] = feed()
    outcome = await fetcher.fetch(server.url("/feed"), OLD)
    assert outcome.ending is Ending.CHANGED
    assert outcome.validators == Validators(None, None)


@pytest.mark.parametrize("status", [302, 307, 301, 308])
async def test_validators_travel_through_redirects(server: RawServer, fetcher: Fetcher, status: int):
    server.routes["/old"] = redirect(status, "/feed")
    server.routes["/feed"] = answer(304)
    outcome = await fetcher.fetch(server.url("/old"), OLD)
    assert outcome.ending is Ending.UNCHANGED
    assert [request["If-None-Match"] for request in server.requests] == [OLD.etag, OLD.etag]
    assert outcome.moved_to == (server.url("/feed") if status in (301, 308) else None)


async def test_new_validators_are_taken_even_when_the_body_did_not_change(server: RawServer, fetcher: Fetcher):
    server.routes["/feed"] = [feed({"ETag": '"1"'}), feed({"ETag": '"2"'})]
    first = await fetcher.fetch(server.url("/feed"))
    second = await fetcher.fetch(server.url("/feed"), first.validators, body_hash=first.body_hash)
    assert (second.ending, second.status, second.document) == (Ending.UNCHANGED, 200, None)
    assert second.validators == Validators('"2"', None)
    assert second.body_hash == first.body_hash


async def test_the_same_etag_with_a_changed_body_is_a_change(server: RawServer, fetcher: Fetcher):
    server.routes["/feed"] = [feed({"ETag": '"1"'}), feed({"ETag": '"1"'}, RSS.replace(b"One", b"Two"))]
    first = await fetcher.fetch(server.url("/feed"))
    second = await fetcher.fetch(server.url("/feed"), first.validators, body_hash=first.body_hash)
    assert second.ending is Ending.CHANGED
    assert second.document is not None
    assert second.document.items[0].title == "Two"


@pytest.mark.parametrize(
    "route",
    [
        answer(404, b"gone", {"ETag": '"error"'}),
        answer(503, b"busy", {"ETag": '"error"'}),
        answer(200, b"<html>log in", {"ETag": '"page"'}),
        answer(200, b"", {"ETag": '"empty"'}),
        answer(200, b"\x1f\x8b\x08broken", {"ETag": '"gzip"', "Content-Encoding": "gzip"}),
    ],
)
async def test_validators_are_never_taken_from_errors_or_unreadable_bodies(
    server: RawServer, fetcher: Fetcher, route: bytes
):
    server.routes["/feed"] = route
    outcome = await fetcher.fetch(server.url("/feed"), OLD)
    assert not outcome.ending.ok
    assert outcome.validators is None
    assert outcome.message


@pytest.mark.parametrize("etag", ['"a\rSet-Cookie: x"', '"a\x00b"', '"tab\tbed"', '"\x7f"', '"\udcff"', "x" * 5000])
async def test_validators_that_could_split_or_change_a_header_are_never_replayed(
    server: RawServer, fetcher: Fetcher, etag: str
):
    server.routes["/feed"] = feed({"ETag": etag, "Last-Modified": OLD.last_modified or ""})
    outcome = await fetcher.fetch(server.url("/feed"))
    kept = outcome.validators or Validators()
    assert kept.etag is None
    server.routes["/feed"] = answer(304)
    await fetcher.fetch(server.url("/feed"), Validators(etag=etag, last_modified="x\r\ny"))
    assert not server.requests[-1].names & {"if-none-match", "if-modified-since", "set-cookie", "y"}


async def test_an_etag_that_is_folded_over_two_lines_is_never_replayed(server: RawServer, fetcher: Fetcher):
    server.routes["/feed"] = feed({"ETag": '"a"\r\n X: "b"'})
    outcome = await fetcher.fetch(server.url("/feed"))
    assert outcome.validators is None or "\n" not in (outcome.validators.etag or "")


async def test_an_etag_of_utf_8_bytes_comes_back_as_those_bytes(server: RawServer, fetcher: Fetcher):
    server.routes["/feed"] = [feed({"ETag": '"é–"'}), answer(304)]
    first = await fetcher.fetch(server.url("/feed"))
    await fetcher.fetch(server.url("/feed"), first.validators)
    assert (server.requests[1]["If-None-Match"] or "").encode("latin-1").decode() == '"é–"'


async def test_every_request_names_us_and_says_only_what_is_needed(server: RawServer, fetcher: Fetcher):
    server.routes["/feed"] = feed({"Set-Cookie": "a=b; Path=/"})
    await fetcher.fetch(server.url("/feed?q=%2f"))
    await fetcher.fetch(server.url("/feed"))
    await fetcher.fetch(server.url("/feed"), OLD)
    assert [request.method for request in server.requests] == ["GET"] * 3
    assert server.paths[0] == "/feed?q=%2f"
    for request in server.requests:
        assert request.names - {"if-none-match", "if-modified-since"} == {
            "host",
            "user-agent",
            "accept",
            "accept-encoding",
        }
        assert (request["User-Agent"] or "").startswith(f"Headwater/{headwater.__version__} (")
        assert "+https://example.org/contact" in (request["User-Agent"] or "")
        assert request["Accept-Encoding"] == "gzip, deflate, br, zstd"
        assert "application/atom+xml" in (request["Accept"] or "")


async def test_deltas_are_asked_for_only_with_an_etag_and_a_226_is_a_part(server: RawServer, fetcher: Fetcher):
    server.routes["/feed"] = answer(226, RSS, {"IM": "feed", "ETag": '"3"'})
    outcome = await fetcher.fetch(server.url("/feed"), Validators('"2"'), delta=True)
    assert outcome.ending is Ending.PARTIAL
    assert outcome.validators == Validators('"3"')
    assert outcome.document is not None
    await fetcher.fetch(server.url("/feed"), Validators(None, OLD.last_modified), delta=True)
    await fetcher.fetch(server.url("/feed"), OLD)
    assert [request["A-IM"] for request in server.requests] == ["feed", None, None]


@pytest.mark.parametrize(("im", "delta"), [("vcdiff", True), ("", True), ("feed", False)])
async def test_a_226_nobody_asked_for_is_not_taken(server: RawServer, fetcher: Fetcher, im: str, delta: bool):
    server.routes["/feed"] = answer(226, RSS, {"IM": im})
    outcome = await fetcher.fetch(server.url("/feed"), OLD, delta=delta)
    assert outcome.ending is Ending.UNREADABLE


@pytest.mark.parametrize("make", [feed, lambda headers: answer(304, headers=headers)])
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Cache-Control": "max-age=600"}, 600),
        ({"Cache-Control": "public, MAX-AGE=600", "Age": "100"}, 500),
        ({"Cache-Control": "max-age=100", "Age": "500"}, None),
        ({"Cache-Control": "max-age=600, no-cache"}, None),
        ({"Cache-Control": "s-maxage=600"}, None),
        ({"Cache-Control": "public\r\nCache-Control: max-age=600"}, 600),
        ({"Cache-Control": "max-age=999999999999999"}, 7 * 86400),
        ({"Date": "Sun, 15 Nov 2026 08:00:00 GMT", "Expires": "Sun, 15 Nov 2026 08:30:00 GMT"}, 1800),
        ({"Expires": "0"}, None),
        ({"Cache-Control": "max-age=60", "Expires": "Sun, 15 Nov 2099 08:30:00 GMT"}, 60),
        ({}, None),
    ],
)
async def test_how_long_an_answer_is_fresh_is_told_also_for_a_304(
    server: RawServer, fetcher: Fetcher, make: Callable[..., bytes], headers: dict[str, str], seconds: float | None
):
    server.routes["/feed"] = make(headers)
    assert (await fetcher.fetch(server.url("/feed"), OLD)).fresh_for == seconds


NOW = 1_800_000_000.0


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        ("1000000000", 7 * 86400),
        ("9" * 5000, 7 * 86400),
        ("-1", 60),
        ("0", 60),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 60),
        ("Fri, 15 Jan 2027 08:10:00 GMT", 600),
        ("Friday, 15-Jan-27 08:10:00 GMT", 600),
        ("Fri Jan 15 08:10:00 2027", 600),
        ("Sun, 15 Nov 2099 00:00:00 GMT", 7 * 86400),
        ("nan", None),
        ("soon", None),
        ("", None),
    ],
)
async def test_retry_after_is_understood_and_clamped(server: RawServer, status: int, value: str, seconds: float | None):
    server.routes["/feed"] = answer(status, b"busy", {"Retry-After": value})
    async with Fetcher(allow_private=True, contact=None, read=read_titles, clock=lambda: NOW) as fetcher:
        outcome = await fetcher.fetch(server.url("/feed"))
    assert (outcome.ending, outcome.status, outcome.retry_after) == (Ending.THROTTLED, status, seconds)


async def test_retry_after_on_a_redirect_is_waited_for_and_then_the_redirect_is_followed(server: RawServer):
    clock = [NOW]
    server.routes["/old"] = redirect(302, "/feed", {"Retry-After": "120"})
    server.routes["/feed"] = feed()
    async with Fetcher(allow_private=True, contact=None, read=read_titles, clock=lambda: clock[0]) as fetcher:
        first = await fetcher.fetch(server.url("/old"))
        assert (first.ending, first.status, first.retry_after) == (Ending.THROTTLED, 302, 120)
        clock[0] += 30
        early = await fetcher.fetch(server.url("/old"))
        assert (early.ending, early.retry_after) == (Ending.THROTTLED, 90)
        assert server.paths == ["/old", "/old"]
        clock[0] += 90
        assert (await fetcher.fetch(server.url("/old"))).ending is Ending.CHANGED


async def test_retry_after_on_a_304_is_told(server: RawServer, fetcher: Fetcher):
    server.routes["/feed"] = answer(304, headers={"Retry-After": "300"})
    outcome = await fetcher.fetch(server.url("/feed"), OLD)
    assert (outcome.ending, outcome.retry_after) == (Ending.UNCHANGED, 300)


@pytest.mark.parametrize(
    ("chain", "moved"),
    [((301,), True), ((308, 301), True), ((301, 302), False), ((307, 301), False), ((303,), False), ((302,), False)],
)
async def test_only_a_wholly_permanent_chain_moves_a_feed(
    server: RawServer, fetcher: Fetcher, chain: tuple[int, ...], moved: bool
):
    for hop, status in enumerate(chain):
        server.routes[f"/{hop}"] = redirect(status, f"/{hop + 1}#fragment")
    server.routes[f"/{len(chain)}"] = feed()
    outcome = await fetcher.fetch(server.url("/0"))
    assert outcome.ending is Ending.CHANGED
    assert outcome.final_url == server.url(f"/{len(chain)}")
    assert outcome.moved_to == (outcome.final_url if moved else None)


async def test_a_permanent_redirect_to_an_error_moves_nothing(server: RawServer, fetcher: Fetcher):
    server.routes["/old"] = redirect(301, "/nowhere")
    outcome = await fetcher.fetch(server.url("/old"))
    assert (outcome.ending, outcome.moved_to) == (Ending.MISSING, None)


@pytest.mark.parametrize(
    ("status", "ending"),
    [
        (204, Ending.UNREADABLE),
        (206, Ending.UNREADABLE),
        (300, Ending.REDIRECTS),
        (304, Ending.BROKEN),
        (305, Ending.REDIRECTS),
        (400, Ending.MISSING),
        (401, Ending.DENIED),
        (403, Ending.DENIED),
        (404, Ending.MISSING),
        (407, Ending.DENIED),
        (410, Ending.GONE),
        (418, Ending.MISSING),
        (429, Ending.THROTTLED),
        (451, Ending.DENIED),
        (500, Ending.BROKEN),
        (502, Ending.BROKEN),
        (503, Ending.THROTTLED),
        (599, Ending.BROKEN),
    ],
)
async def test_every_status_has_its_ending_and_a_sentence(
    server: RawServer, fetcher: Fetcher, status: int, ending: Ending
):
    server.routes["/feed"] = answer(status)
    outcome = await fetcher.fetch(server.url("/feed"))
    assert (outcome.ending, outcome.status) == (ending, status)
    assert "127.0.0.1" in outcome.message
    assert outcome.message.endswith(".")


async def test_gone_behind_a_temporary_redirect_is_only_missing(server: RawServer, fetcher: Fetcher):
    server.routes["/a"], server.routes["/b"] = redirect(302, "/c"), redirect(301, "/c")
    server.routes["/c"] = answer(410)
    assert (await fetcher.fetch(server.url("/a"))).ending is Ending.MISSING
    assert (await fetcher.fetch(server.url("/b"))).ending is Ending.GONE
