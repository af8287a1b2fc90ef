"""The worker process: reads untrusted documents under limits of CPU time and memory.

`WorkerPool` starts it as `python -m headwater.fetch.reading.worker_process MODULE:FUNCTION CPU_SECONDS MEMORY`.
Requests arrive on standard input and replies leave on standard output, each as four bytes of length and MessagePack.
The first frame is empty and signals that the worker is ready, so its start does not count against a document.
"""

from __future__ import annotations

import importlib
import math
import os
import resource
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

import msgspec

from headwater.errors import NotAFeed
from headwater.model import Document, Markup

_RETIRE_AT_KB = 400 << 10  # kB of peak memory; then a new process replaces it


class ReadRequest(msgspec.Struct, array_like=True):
    """A document to be read, with the address and the headers of its response. Hashes of `kept` items may follow."""

    body: bytes
    url: str
    headers: dict[str, str]
    kept: tuple[str, ...] = ()


class ReadReply(msgspec.Struct, array_like=True):
    """The document, or why it could not be read. `retire` asks the pool to replace the worker."""

    document: Document[str | Markup] | None
    message: str = ""
    what: str = ""
    retire: bool = False


def import_function(name: str) -> Callable[..., Document[Any]]:
    """Import a function named as `module:function`."""
    module, _, function = name.partition(":")
    found: Callable[..., Document[Any]] = getattr(importlib.import_module(module), function)
    return found


def read_frame(stream: BinaryIO) -> bytes | None:
    """Read one message; None at the end of the stream."""
    head = stream.read(4)
    return stream.read(int.from_bytes(head, "big")) if len(head) == 4 else None


def write_frame(stream: BinaryIO, message: bytes) -> None:
    """Write one message with its length."""
    stream.write(len(message).to_bytes(4, "big") + message)
    stream.flush()


def answer_request(read: Callable[..., Document[Any]], request: ReadRequest) -> ReadReply:
    """Read a document; every exception becomes a reply."""
    try:
        further = (request.kept,) if request.kept else ()
        return ReadReply(read(request.body, request.url, request.headers, *further))
    except NotAFeed as error:
        return ReadReply(None, str(error), error.what)
    except MemoryError:
        return ReadReply(None, "The document needs too much memory to be read.", "hostile", retire=True)
    except Exception as error:
        return ReadReply(None, f"The document could not be read ({type(error).__name__}).", "unknown", retire=True)


def _peak_memory_kb() -> int:
    """Return the peak memory in kB. Linux's ru_maxrss would include the parent's at the time of the fork."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(name: str, cpu_seconds: int, memory: int) -> None:
    """Answer requests until standard input ends."""
    incoming, outgoing = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries must not mix with replies
    read = import_function(name)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    write_frame(outgoing, b"")
    decoder, encoder = msgspec.msgpack.Decoder(ReadRequest), msgspec.msgpack.Encoder()
    while (message := read_frame(incoming)) is not None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        spent = usage.ru_utime + usage.ru_stime
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(spent) + cpu_seconds, resource.RLIM_INFINITY))
        result = answer_request(read, decoder.decode(message))
        if _peak_memory_kb() > _RETIRE_AT_KB:
            result.retire = True
        write_frame(outgoing, encoder.encode(result))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
