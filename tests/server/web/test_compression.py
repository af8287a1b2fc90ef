"""Compressed answers decode to the same bytes for every encoding a client accepts, and are smaller."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable

import brotli
import httpx
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from headwater.web.compression import CODINGS, MIN_BYTES, Compression, choose_coding

Start = Callable[..., Awaitable[str]]
DECODERS = {
    "gzip": gzip.decompress,
    "br": brotli.decompress,
    "zstd": lambda body: zstandard.ZstdDecompressor().decompress(body),
    "": bytes,
}
weights = st.sampled_from(["", ";q=0", ";q=0.5", ";q=1", "; q=0.001", ";q=nonsense"])
codings = st.sampled_from([*CODINGS, "deflate", "identity", "*", "GZIP", ""])
headers = st.lists(st.builds(str.__add__, codings, weights), max_size=5).map(", ".join)


async def ask(app: Starlette, path: str = "/", method: str = "GET", **sent: str) -> tuple[httpx.Headers, bytes]:
    """Send a request to an application and return the bytes as sent."""
    given = {name.replace("_", "-"): value for name, value in sent.items()}
    transport = httpx.ASGITransport(app)
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://test", headers={"Accept-Encoding": ""}) as http,
        http.stream(method, path, headers=given) as answer,
    ):
        return answer.headers, b"".join([part async for part in answer.aiter_raw()])


def answering(body: bytes, kind: str = "application/json", **more: str) -> Starlette:
    async def answer(request: Request) -> Response:
        return Response(body, headers={"Content-Type": kind, **{k.replace("_", "-"): v for k, v in more.items()}})

    routes = [Route("/", answer, methods=["GET", "POST"])]
    return Starlette(routes=routes, middleware=[Middleware(Compression)])


@settings(deadline=None, max_examples=60)
@given(body=st.binary(max_size=200).map(lambda some: some * 20), accepted=headers)
async def test_every_answer_is_decoded_to_what_it_was(body: bytes, accepted: str) -> None:
    found, sent = await ask(answering(body), accept_encoding=accepted)
    coding = found.get("content-encoding", "")
    assert DECODERS[coding](sent) == body
    assert int(found["content-length"]) == len(sent)
    assert coding == (choose_coding(accepted) or "" if len(body) >= MIN_BYTES else "")
    assert "accept-encoding" in found["vary"].lower()


@settings(deadline=None)
@given(headers)
def test_a_coding_is_chosen_only_if_it_is_accepted(accepted: str) -> None:
    coding = choose_coding(accepted)
    named = {part.partition(";")[0].strip().lower() for part in accepted.split(",")}
    assert coding is None or coding in named or "*" in named


@pytest.mark.parametrize(
    "app",
    [
        answering(b"x" * 5000, "image/png"),
        answering(b"x" * (MIN_BYTES - 1)),
        answering(b"x" * 5000, content_encoding="br"),
    ],
    ids=["no text", "tiny", "compressed already"],
)
async def test_some_answers_are_left_alone(app: Starlette) -> None:
    found, sent = await ask(app, accept_encoding="gzip")
    assert found.get("content-encoding", "br") == "br"
    assert set(sent) == {ord("x")}


async def test_a_page_that_answers_a_form_is_not_compressed_but_json_is() -> None:
    page = answering(b"<p>" * 1000, "text/html; charset=utf-8")
    assert "content-encoding" in (await ask(page, accept_encoding="gzip"))[0]
    assert "content-encoding" not in (await ask(page, method="POST", accept_encoding="gzip"))[0]
    assert "content-encoding" in (await ask(answering(b"[]" * 1000), method="POST", accept_encoding="gzip"))[0]


async def test_a_strong_etag_becomes_weak() -> None:
    app = answering(b"x" * 5000, "text/css", etag='"abc"')
    assert (await ask(app, accept_encoding="gzip"))[0]["etag"] == 'W/"abc"'
    assert (await ask(app))[0]["etag"] == '"abc"'


async def test_events_are_sent_at_once() -> None:
    seen = asyncio.Event()

    async def follow(request: Request) -> Response:
        async def events() -> AsyncIterator[bytes]:
            yield b"data: one\n\n" * 1000
            await asyncio.wait_for(seen.wait(), 30)
            yield b"data: two\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    app = Starlette(routes=[Route("/", follow)], middleware=[Middleware(Compression)])
    sent: list[dict[str, object]] = []

    async def send(message: dict[str, object]) -> None:
        sent.append(message)
        if len(sent) == 2:  # the head and the first part, before the second exists
            seen.set()

    async def receive() -> dict[str, object]:
        await asyncio.sleep(30)
        return {"type": "http.disconnect"}

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "query_string": b"",
        "headers": [(b"accept-encoding", b"gzip")],
    }
    await app(scope, receive, send)
    assert [message.get("body", b"")[:9] for message in sent[1:3]] == [b"data: one", b"data: two"]


@pytest.mark.parametrize(
    "path", ["/login", "/api/openapi.json", "/static/site.css", "/static/mark.svg", "/api/v1/feeds/x" + "y" * 700]
)
async def test_pages_the_api_and_static_files_are_compressed(site: Start, path: str) -> None:
    base = await site()
    async with httpx.AsyncClient() as http:
        plain = await http.get(base + path, headers={"Accept-Encoding": "identity"})
        for coding in CODINGS:
            answer = await http.get(base + path, headers={"Accept-Encoding": coding})
            expected = coding if len(plain.content) >= MIN_BYTES else None
            assert (answer.headers.get("content-encoding"), answer.content) == (expected, plain.content)
