"""One feed of the farm as a server sees it: its present document, its validators, and when they change next.

Both answers are kept as bytes until the next item appears, so that a 304 costs a comparison. The 304s are honest:
Last-Modified has a resolution of one second, so it is not offered while the second of the newest item is not over
(RFC 9110 §8.8.2.2); an item more in the same second would otherwise hide behind it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate, parsedate_to_datetime

from headwater.lab.farm.clock import Clock
from headwater.lab.farm.documents import TYPES, Page, Piece, identity, write
from headwater.lab.farm.http import Answer, Request
from headwater.lab.farm.words import text_of
from headwater.lab.farm.world import Posting, Profile, Timeline


@dataclass(frozen=True, slots=True)
class State:
    """What is true of a feed from the farm time `since` to `until`; `rest` is the 304's head after its Date."""

    since: float
    until: float
    postings: list[Posting]
    etag: bytes
    last_modified: str | None
    rest: bytes


class Shelf:
    """Finished bodies, the least recently used thrown away beyond a number of bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._bodies: dict[tuple[bytes, bool], bytes] = {}

    def get(self, key: tuple[bytes, bool], make: Callable[[], bytes]) -> bytes:
        body = self._bodies.pop(key, None)
        if body is None:
            body = make()
            self._size += len(body)
        self._bodies[key] = body
        while self._size > self._limit and len(self._bodies) > 1:
            self._size -= len(self._bodies.pop(next(iter(self._bodies))))
        return body


class Source:
    """A feed of the farm; `base` is the address of the host it is listed under."""

    def __init__(self, profile: Profile, seed: int, clock: Clock, window: int, base: str, shelf: Shelf) -> None:
        self.profile = profile
        self.timeline = Timeline(seed, profile)
        self._seed = seed
        self._clock = clock
        self._window = window
        self._base = base
        self._shelf = shelf
        self._state: State | None = None

    def answer(self, request: Request, date: bytes) -> Answer:
        """304 if the reader has what is there, else 200 with the document."""
        state = self.state()
        if self._unchanged(state, request.headers):
            return Answer(304, b"HTTP/1.1 304 Not Modified\r\nDate: " + date + state.rest)
        packed = self.profile.gzip and b"gzip" in request.headers.get(b"accept-encoding", b"")
        body = self._shelf.get((state.etag, packed), lambda: self._body(packed))
        kind = TYPES[self.profile.format].encode()
        coding = b"\r\nContent-Encoding: gzip" if packed else b""
        head = b"HTTP/1.1 200 OK\r\nContent-Type: %b%b\r\nContent-Length: %d\r\nDate: %b"
        rest = state.rest if not packed else state.rest.replace(state.etag, state.etag[:-1] + b'-gz"')
        return Answer(200, head % (kind, coding, len(body), date) + rest + body)

    def state(self) -> State:
        now = self._clock.now()
        state = self._state
        if state is None or not state.since <= now < state.until:
            state = self._state = self._at(now)
        return state

    def document(self, state: State | None = None) -> bytes:
        """The present document, unpacked."""
        profile = self.profile
        pieces = [self.piece(posting) for posting in (state or self.state()).postings]
        gap = 1 / profile.rate / self._clock.speed
        silent = profile.silent_hours() if self._clock.speed == 1 else ()
        return write(Page(profile, self._base, gap, silent, pieces))

    def piece(self, posting: Posting) -> Piece:
        feed, number = self.profile.feed, posting.number
        text = text_of(self._seed, feed, number, self.profile.topic)
        return Piece(number, identity(self._seed, feed, number), self._clock.date(posting.at), text)

    def _at(self, now: float) -> State:
        postings = self.timeline.window(now, self._window)
        until = self.timeline.next_after(now)
        newest = postings[0].number if postings else 0
        etag = b'"%x-%d-%d-%d"' % (int(self._clock.started * 1000), self.profile.feed, newest, len(postings))
        modified = None
        if postings:
            second = int(self._clock.date(postings[0].at))
            if self._clock.wall() < second + 1:
                until = min(until, self._clock.farm(second + 1))
            else:
                modified = formatdate(second, usegmt=True)
        return State(now, until, postings, etag, modified, self._rest(etag, modified))

    def _rest(self, etag: bytes, modified: str | None) -> bytes:
        lines = [b"", b"Server: headwater-farm"]
        if self.profile.validators != "last-modified":
            lines.append(b"ETag: " + etag)
        if self.profile.validators != "etag" and modified:
            lines.append(b"Last-Modified: " + modified.encode())
        age = int(min(1 / self.profile.rate / self._clock.speed / 4, 3600))
        if self.profile.hints == "max-age" and age >= 1:
            lines.append(b"Cache-Control: max-age=%d" % age)
        if self.profile.gzip:
            lines.append(b"Vary: Accept-Encoding")
        return b"\r\n".join((*lines, b"", b""))

    def _unchanged(self, state: State, headers: dict[bytes, bytes]) -> bool:
        """RFC 9110 §13.1: If-None-Match decides alone where we have an ETag; lists, W/ and * included."""
        known = headers.get(b"if-none-match")
        if known is not None and self.profile.validators != "last-modified":
            return known == state.etag or any(_same(tag, state.etag) for tag in known.split(b","))
        since = headers.get(b"if-modified-since")
        if since is None or state.last_modified is None or self.profile.validators == "etag":
            return False
        given = since.decode("latin-1")
        return given == state.last_modified or _not_before(given, state.last_modified)

    def _body(self, packed: bool) -> bytes:
        body = self.document()
        return _gzipped(body) if packed else body


def _same(tag: bytes, etag: bytes) -> bool:
    tag = tag.strip().removeprefix(b"W/")
    return tag in (etag, etag[:-1] + b'-gz"', b"*")


def _not_before(given: str, modified: str) -> bool:
    try:
        return parsedate_to_datetime(given) >= parsedate_to_datetime(modified)
    except (ValueError, TypeError):
        return False  # RFC 9110 §13.1.3: a date that is none is ignored


def _gzipped(body: bytes) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return packer.compress(body) + packer.flush()
