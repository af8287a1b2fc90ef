"""Starts, uses and kills the worker processes that read large or suspicious documents."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import msgspec

from headwater.errors import NotAFeed
from headwater.fetch.reading.worker_process import ReadReply, ReadRequest
from headwater.model import Document

_START_SECONDS = 60.0
_INHERITED = ("PATH", "LANG", "LC_ALL", "TZ", "SYSTEMROOT")  # a worker parses hostile input and gets no secrets


class WorkerPool:
    """Reads documents in at most `count` processes; a process that exceeds a limit is killed and replaced."""

    def __init__(self, function: str, *, count: int, cpu_seconds: int, wall_seconds: float, memory: int) -> None:
        self._command = (
            sys.executable,
            "-m",
            "headwater.fetch.reading.worker_process",
            function,
            str(cpu_seconds),
            str(memory),
        )
        self._wall_seconds = wall_seconds
        self._free = asyncio.Semaphore(count)
        self._idle: list[Process] = []
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(ReadReply)

    async def read(self, body: bytes, url: str, headers: dict[str, str], kept: Collection[str] = ()) -> Document[Any]:
        """Read a document in a worker. Raises NotAFeed if it is not a feed or exceeds the limits.

        `kept` is given to the function if there is any.
        """
        message = self._encoder.encode(ReadRequest(body, url, headers, tuple(kept)))
        async with self._free:
            result = await self._read_in_worker(message)
        if result.document is None:
            raise NotAFeed(result.message, result.what)
        return result.document

    async def _read_in_worker(self, message: bytes) -> ReadReply:
        try:
            process = await self._take_worker()
        except (OSError, EOFError, TimeoutError):  # out of processes or memory: not the feed's fault
            return ReadReply(None, "No worker process could be started to read this large document.", "unread")
        answered = False
        try:
            async with asyncio.timeout(self._wall_seconds):
                result = self._decoder.decode(await _exchange_frames(process, message))
            answered = not result.retire
            return result
        except (TimeoutError, EOFError, ConnectionError):
            return ReadReply(None, "The document took too much time or memory to read.", "hostile")
        finally:
            if answered:
                self._idle.append(process)
            else:
                await _kill_worker(process)

    async def _take_worker(self) -> Process:
        while self._idle:
            process = self._idle.pop()
            if process.returncode is None:
                return process
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        process = await asyncio.create_subprocess_exec(
            *self._command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment
        )
        try:
            async with asyncio.timeout(_START_SECONDS):
                await _read_frame(process)
        except BaseException:
            await _kill_worker(process)
            raise
        return process

    async def close(self) -> None:
        while self._idle:
            await _kill_worker(self._idle.pop())


async def _exchange_frames(process: Process, message: bytes) -> bytes:
    assert process.stdin is not None
    process.stdin.write(len(message).to_bytes(4, "big") + message)
    await process.stdin.drain()
    return await _read_frame(process)


async def _read_frame(process: Process) -> bytes:
    assert process.stdout is not None
    return await process.stdout.readexactly(int.from_bytes(await process.stdout.readexactly(4), "big"))


async def _kill_worker(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    if process.stdin is not None:
        process.stdin.close()
    await process.wait()
