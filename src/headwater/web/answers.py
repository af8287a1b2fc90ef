"""Short answers in words, for addresses that are answered without the framework."""

from __future__ import annotations

from starlette.types import Send

Headers = list[tuple[bytes, bytes]]
_PLAIN_TEXT = [(b"content-type", b"text/plain; charset=utf-8"), (b"x-content-type-options", b"nosniff")]


async def send_text(send: Send, status: int, sentence: str, more: Headers | None = None) -> None:
    body = sentence.encode() + b"\n"
    headers = [*_PLAIN_TEXT, *(more or []), (b"content-length", b"%d" % len(body)), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
