"""Reading documents of strangers: ordinary ones at once, large or suspicious ones in a worker process."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headwater.model import Document

Read = Callable[[bytes, str | None, Mapping[str, str] | None], Document]


def read_feed(body: bytes, url: str | None = None, headers: Mapping[str, str] | None = None) -> Document:
    """The reader of `headwater.formats`."""
    import importlib

    result: Document = importlib.import_module("headwater.formats").read(body, url, headers)
    return result


class Reader:
    """Reads documents without letting one of them delay or harm the rest."""

    def __init__(self, read: Read = read_feed) -> None:
        self._read = read

    async def read(self, body: bytes, url: str, headers: Mapping[str, str]) -> Document:
        return self._read(body, url, headers)

    async def close(self) -> None:
        return
