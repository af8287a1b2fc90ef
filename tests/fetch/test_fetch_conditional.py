"""protocols.md §1: what we send, what we keep, what an answer means."""

from __future__ import annotations

import pytest
from hostile import RSS, HostileServer, answer, feed, redirect

from headwater.fetch.client import Fetcher
from headwater.model import Ending, Validators

OLD = Validators(etag='W/"a b,c"', last_modified="Sat, 01 Jan 2000 00:00:00 GMT")


async def test_a_first_fetch_sends_no_conditions_and_brings_the_document(server: HostileServer, fetcher: Fetcher):
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


async def test_validators_are_sent_back_byte_for_byte(server: HostileServer, fetcher: Fetcher):
    server.routes["/feed"] = answer(304)
    outcome = await fetcher.fetch(server.url("/feed"), OLD)
    assert outcome.ending is Ending.UNCHANGED
    assert server.requests[0]["If-None-Match"] == 'W/"a b,c"'
    assert server.requests[0]["If-Modified-Since"] == "Sat, 01 Jan 2000 00:00:00 GMT"
    assert outcome.validators == OLD


async def test_a_304_brings_new_validators_and_keeps_those_it_does_not_name(server: HostileServer, fetcher: Fetcher):
    server.routes["/feed"] = answer(304, headers={"ETag": '"new"'})
    outcome = await fetcher.fetch(server.url("/feed"), OLD)
    assert outcome.validators == Validators('"new"', OLD.last_modified)
    assert outcome.document is None


async def test_a_200_without_validators_drops_the_old_ones(server: HostileServer, fetcher: Fetcher):
    server.routes["/feed"] = feed()
    outcome = await fetcher.fetch(server.url("/feed"), OLD)
    assert outcome.ending is Ending.CHANGED
    assert outcome.validators == Validators(None, None)


@pytest.mark.parametrize("status", [302, 307, 301, 308])
async def test_validators_travel_through_redirects(server: HostileServer, fetcher: Fetcher, status: int):
    server.routes["/old"] = redirect(status, "/feed")
    server.routes["/feed"] = answer(304)
    outcome = await fetcher.fetch(server.url("/old"), OLD)
    assert outcome.ending is Ending.UNCHANGED
    assert [request["If-None-Match"] for request in server.requests] == [OLD.etag, OLD.etag]
    assert outcome.moved_to == (server.url("/feed") if status in (301, 308) else None)
