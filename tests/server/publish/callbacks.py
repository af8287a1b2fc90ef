"""A real server as a subscriber's callback: records requests and gives prepared answers."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from publish_server import served


@dataclass
class Callback:
    """`agree` answers challenges; `statuses` are the answers to content, the last one repeated."""

    url: str = ""
    agree: bool = True
    wrong: bytes | None = None  # sent instead of the challenge
    statuses: list[int] = field(default_factory=lambda: [200])
    location: str | None = None
    asked: list[dict[str, str]] = field(default_factory=list)
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while (message := await receive()).get("more_body") or message.get("body"):
            body += message["body"]
            if not message.get("more_body"):
                break
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        if scope["method"] == "GET":
            query = dict(parse_qsl(scope["query_string"].decode()))
            self.asked.append(query)
            status, answer = (200, query.get("hub.challenge", "").encode()) if self.agree else (404, b"no")
            answer = self.wrong if self.wrong is not None else answer
        else:
            self.got.append((headers, body))
            status, answer = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0], b""
        more = [(b"location", self.location.encode())] if self.location else []
        await send({"type": "http.response.start", "status": status, "headers": more})
        await send({"type": "http.response.body", "body": answer})


@asynccontextmanager
async def callback(**how: Any) -> AsyncIterator[Callback]:
    made = Callback(**how)
    async with served(made) as base:
        made.url = f"{base}/called?id=7"
        yield made


def signed(secret: str, body: bytes, method: str = "sha256") -> str:
    return f"{method}=" + hmac.new(secret.encode(), body, method).hexdigest()
