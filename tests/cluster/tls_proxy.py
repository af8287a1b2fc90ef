"""A small TLS proxy for PostgreSQL, whose wheel is built without TLS: it answers the SSLRequest itself."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"


@asynccontextmanager
async def before(socket: str, context: ssl.SSLContext | None) -> AsyncIterator[int]:
    """Open a port on 127.0.0.1. Without a context, pass everything on; the server itself then reports that it has no
    TLS.
    """
    handlers: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        with suppress(OSError, asyncio.CancelledError, asyncio.IncompleteReadError):
            if context is not None:
                if await reader.readexactly(8) != SSL_REQUEST:
                    raise ConnectionError("something said in clear")
                writer.write(b"S")
                await writer.start_tls(context)
            there, back = await asyncio.open_unix_connection(socket)
            await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in handlers:
            task.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
