"""A process that reads documents nobody trusts, under limits of CPU time and memory; killed when it exceeds them.

Started by `headwater.fetch.reading.worker_pool` as `python -m headwater.fetch.reading.worker_process MODULE:FUNCTION CPU_SECONDS MEMORY`.
Requests come on standard input, answers leave on standard output: four bytes of length, then msgpack. The first
frame it gives is empty and says that it is ready, so that starting does not count against a document.
"""

from __future__ import annotations

import importlib
import math
import os
import resource
import sys
from collections.abc import Callable
from typing import BinaryIO

import msgspec

from headwater.errors import NotAFeed
from headwater.model import Document

_RETIRE_AT_KB = 400 << 10  # kilobytes of memory ever used: a fresh process is cheaper than a fat one


class ReadRequest(msgspec.Struct, array_like=True):
    body: bytes
    url: str
    headers: dict[str, str]


class ReadReply(msgspec.Struct, array_like=True):
    """The document, or what it is instead. A worker that says `retire` wants to be replaced."""

    document: Document | None
    message: str = ""
    what: str = ""
    retire: bool = False


def import_function(name: str) -> Callable[..., Document]:
    module, _, function = name.partition(":")
    found: Callable[..., Document] = getattr(importlib.import_module(module), function)
    return found


def read_frame(stream: BinaryIO) -> bytes | None:
    head = stream.read(4)
    return stream.read(int.from_bytes(head, "big")) if len(head) == 4 else None


def write_frame(stream: BinaryIO, message: bytes) -> None:
    stream.write(len(message).to_bytes(4, "big") + message)
    stream.flush()


def answer_request(read: Callable[..., Document], job: ReadRequest) -> ReadReply:
    try:
        return ReadReply(read(job.body, job.url, job.headers))
    except NotAFeed as error:
        return ReadReply(None, str(error), error.what)
    except MemoryError:
        return ReadReply(None, "The document needs too much memory to be read.", "hostile", retire=True)
    except Exception as error:
        return ReadReply(None, f"The document could not be read ({type(error).__name__}).", "unknown", retire=True)


def _peak_memory_kb() -> int:
    """The most this process has had, in kB. Linux's ru_maxrss would count what its parent had when it was forked."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(name: str, cpu_seconds: int, memory: int) -> None:
    incoming, outgoing = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing a library prints may end up among the answers
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
