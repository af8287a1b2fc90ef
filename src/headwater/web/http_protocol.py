"""Speaks HTTP on one connection: Uvicorn's protocol, with limits on headers and on slow clients.

Uvicorn's parser keeps headers of any size until they are complete, and waits for ever.
"""

from __future__ import annotations

import time
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from headwater.web import connections
from headwater.web.connections import ClientConnection, ConnectionTable

_PIECE = 16 << 10  # bytes given to the parser at once
_BUSY = b"This server has too many connections. Try again later.\n"


class LimitedHttpProtocol(HttpToolsProtocol):
    """One connection; `client` is its entry in the table."""

    def __init__(self, client: ClientConnection, table: ConnectionTable, **given: Any) -> None:
        super().__init__(**given)
        self._client = client
        self._table = table
        self._unparsed = 0  # bytes since the parser last made progress
        self._refused = False
        if client.over_limit:
            self.app = _answer_busy

    # the transport

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._client.close = self.close_client  # until now, during a TLS handshake, there was no transport to close
        self._table.mark_waiting(self._client, time.monotonic())

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.remove(self._client)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._client.head_begun = True
        for start in range(0, len(data), _PIECE):
            if self._refused or self.transport.is_closing():
                return  # drop input until the client has read the answer
            piece = data[start : start + _PIECE]
            self._unparsed += len(piece)
            super().data_received(piece)
            if self._unparsed > self._table.limits.header_bytes:
                self._refuse(431, f"The headers are larger than {self._table.limits.header_bytes:,} bytes.")

    # the parser

    def on_headers_complete(self) -> None:
        self._unparsed = 0
        if len(self.headers) > self._table.limits.headers:
            self._refuse(431, f"The request has more than {self._table.limits.headers} headers.")
            return
        self._table.mark_busy(self._client)
        self._client.body_since, self._client.received = time.monotonic(), 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unparsed = 0
        self._client.received += len(body)
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._unparsed = 0
        self._client.body_since = None
        if not self._refused:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        self._client.body_since = None
        if not self.pipeline:
            self._table.mark_waiting(self._client, time.monotonic())
        super().on_response_complete()

    # the end

    def check_client(self, now: float) -> None:
        """End the connection if its client is too slow."""
        client = self._client
        client.note_unsent(self.transport.get_write_buffer_size(), self._table.limits, now)
        if self.flow.read_paused and client.body_since is not None:
            client.body_since = now  # we are the slow one
        fault = client.find_fault(self._table.limits, now)
        if fault is not None:
            self._table.closed[fault] += 1
            self.close_client(fault)

    def close_client(self, reason: str) -> None:
        """End the connection, with an answer if the client is in the middle of a request."""
        if reason in (connections.SLOW_HEAD, connections.SLOW_BODY) and not self._has_begun_answer():
            self._refuse(408, "The request took too long.")
        else:
            self.transport.abort()

    def _has_begun_answer(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete and self.cycle.response_started

    def _refuse(self, status: int, sentence: str) -> None:
        """Answer, and read no more. The connection stays for a moment, since a reset could overtake the answer."""
        if self._refused:
            return
        self._refused = True
        self._client.closing_since = time.monotonic()
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # the application hears that nobody waits for its answer
            self.cycle.message_event.set()
        body = sentence.encode() + b"\n"
        lines = [
            STATUS_LINE[status],
            *(b"%s: %s\r\n" % header for header in self.server_state.default_headers),
            b"content-type: text/plain; charset=utf-8\r\n",
            b"content-length: %d\r\n" % len(body),
            b"connection: close\r\n\r\n",
            body,
        ]
        self.transport.write(b"".join(lines))
        if self.transport.can_write_eof():
            self.transport.write_eof()


async def _answer_busy(scope: Any, receive: Any, send: Any) -> None:
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(_BUSY)),
        (b"retry-after", b"10"),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": _BUSY})
