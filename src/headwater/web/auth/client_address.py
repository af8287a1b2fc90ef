"""Behind a proxy: believe what trusted proxies say about the visitor, and remember who really sent the request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

PEER_KEY = "headwater.peer"


class TrustedProxyHeaders:
    """Around the whole application. Without trusted proxies nothing changes."""

    def __init__(self, app: ASGIApp, trusted: Sequence[str]) -> None:
        self._app: Any = ProxyHeadersMiddleware(app, list(trusted)) if trusted else app  # type: ignore[arg-type]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("client"):
            scope[PEER_KEY] = scope["client"][0]
        await self._app(scope, receive, send)
