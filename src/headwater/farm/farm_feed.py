"""Answers requests for one feed of the farm: its current document and validators.

Responses are cached until the next item appears, so that a 304 costs one comparison. Last-Modified has a resolution of
one second. It is left out until the second of the newest item is over (RFC 9110 §8.8.2.2), because another item may
appear in that second.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from email.utils import formatdate, parsedate_to_datetime

from headwater.farm.farm_documents import TYPES, FarmDocument, FarmItem, item_identity, write_document
from headwater.farm.http_protocol import FarmRequest, FarmResponse
from headwater.farm.sample_text import make_text
from headwater.farm.timeline import FarmClock, FarmPosting, FarmProfile, FarmTimeline

_ETAG = re.compile(rb'(?:W/)?"[0-9a-f]+-(\d+)-(\d+)-\d+(?:-gz)?"')  # feed and newest item, as `_make_state` writes them


@dataclass(frozen=True, slots=True)
class FarmFeedState:
    """A feed's state from farm time `since` to `until`; `rest` is the head of a 304 after its Date."""

    since: float
    until: float
    postings: list[FarmPosting]
    etag: bytes
    last_modified: str | None
    rest: bytes


class BodyCache:
    """Caches rendered bodies up to a number of bytes; drops the least recently used."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._bodies: dict[tuple[bytes, bool], bytes] = {}

    def get_or_make(self, key: tuple[bytes, bool], make: Callable[[], bytes]) -> bytes:
        body = self._bodies.pop(key, None)
        if body is None:
            body = make()
            self._size += len(body)
        self._bodies[key] = body
        while self._size > self._limit and len(self._bodies) > 1:
            self._size -= len(self._bodies.pop(next(iter(self._bodies))))
        return body


class FarmFeed:
    """One feed. `base` is the address of its host."""

    def __init__(
        self,
        profile: FarmProfile,
        seed: int,
        clock: FarmClock,
        window: int,
        base: str,
        bodies: BodyCache,
        deltas: bool = False,
    ) -> None:
        self.profile = profile
        self.timeline = FarmTimeline(seed, profile)
        self._seed = seed
        self._clock = clock
        self._window = window
        self._base = base
        self._bodies = bodies
        self._deltas = deltas
        self._state: FarmFeedState | None = None

    def answer_request(self, request: FarmRequest, date: bytes) -> FarmResponse:
        """Return a 304 if the validators match, else a 200 with the document, or a 226 with the new items only."""
        state = self.current_state()
        if self._is_unchanged(state, request.headers):
            return FarmResponse(304, b"HTTP/1.1 304 Not Modified\r\nDate: " + date + state.rest)
        compressed = self.profile.gzip and b"gzip" in request.headers.get(b"accept-encoding", b"")
        coding = b"\r\nContent-Encoding: gzip" if compressed else b""
        rest = state.rest if not compressed else state.rest.replace(state.etag, state.etag[:-1] + b'-gz"')
        kind = TYPES[self.profile.format].encode()
        fresh = self._select_new(state, request.headers) if self._deltas else None
        if fresh is not None:
            body = self.make_document(replace(state, postings=fresh))
            body = _gzip(body) if compressed else body
            head = b"HTTP/1.1 226 IM Used\r\nIM: feed\r\nContent-Type: %b%b\r\nContent-Length: %d\r\nDate: %b"
            return FarmResponse(226, head % (kind, coding, len(body), date) + rest + body)
        body = self._bodies.get_or_make((state.etag, compressed), lambda: self._make_body(compressed))
        head = b"HTTP/1.1 200 OK\r\nContent-Type: %b%b\r\nContent-Length: %d\r\nDate: %b"
        return FarmResponse(200, head % (kind, coding, len(body), date) + rest + body)

    def _select_new(self, state: FarmFeedState, headers: dict[bytes, bytes]) -> list[FarmPosting] | None:
        """Return the postings since the state that the client has (RFC 3229, `A-IM: feed`), or None if it does not ask
        for them or has a state that the window no longer reaches."""
        if b"feed" not in [word.strip() for word in headers.get(b"a-im", b"").lower().split(b",")]:
            return None
        known = _ETAG.match(headers.get(b"if-none-match", b""))
        if known is None or int(known[1]) != self.profile.feed:
            return None
        fresh = [posting for posting in state.postings if posting.number > int(known[2])]
        return fresh if len(fresh) < len(state.postings) else None

    def current_state(self) -> FarmFeedState:
        now = self._clock.farm_time()
        state = self._state
        if state is None or not state.since <= now < state.until:
            state = self._state = self._make_state(now)
        return state

    def make_document(self, state: FarmFeedState | None = None) -> bytes:
        """Return the current document, not compressed."""
        profile = self.profile
        pieces = [self.make_item(posting) for posting in (state or self.current_state()).postings]
        gap = 1 / profile.rate / self._clock.speed
        silent = profile.silent_hours() if self._clock.speed == 1 else ()
        return write_document(FarmDocument(profile, self._base, gap, silent, pieces))

    def make_item(self, posting: FarmPosting) -> FarmItem:
        feed, number = self.profile.feed, posting.number
        text = make_text(self._seed, feed, number, self.profile.topic)
        return FarmItem(number, item_identity(self._seed, feed, number), self._clock.to_wall_time(posting.at), text)

    def _make_state(self, now: float) -> FarmFeedState:
        postings = self.timeline.newest_postings(now, self._window)
        until = self.timeline.time_of_next(now)
        newest = postings[0].number if postings else 0
        etag = b'"%x-%d-%d-%d"' % (int(self._clock.started * 1000), self.profile.feed, newest, len(postings))
        modified = None
        if postings:
            second = int(self._clock.to_wall_time(postings[0].at))
            if self._clock.wall_time() < second + 1:
                until = min(until, self._clock.to_farm_time(second + 1))
            else:
                modified = formatdate(second, usegmt=True)
        return FarmFeedState(now, until, postings, etag, modified, self._header_tail(etag, modified))

    def _header_tail(self, etag: bytes, modified: str | None) -> bytes:
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

    def _is_unchanged(self, state: FarmFeedState, headers: dict[bytes, bytes]) -> bool:
        """Compare validators (RFC 9110 §13.1): If-None-Match takes precedence; lists, W/ and * are understood."""
        etags = headers.get(b"if-none-match")
        if etags is not None and self.profile.validators != "last-modified":
            return etags == state.etag or any(_is_same_etag(tag, state.etag) for tag in etags.split(b","))
        since = headers.get(b"if-modified-since")
        if since is None or state.last_modified is None or self.profile.validators == "etag":
            return False
        given = since.decode("latin-1")
        return given == state.last_modified or _is_not_before(given, state.last_modified)

    def _make_body(self, compressed: bool) -> bytes:
        body = self.make_document()
        return _gzip(body) if compressed else body


def _is_same_etag(tag: bytes, etag: bytes) -> bool:
    tag = tag.strip().removeprefix(b"W/")
    return tag in (etag, etag[:-1] + b'-gz"', b"*")


def _is_not_before(given: str, modified: str) -> bool:
    try:
        return parsedate_to_datetime(given) >= parsedate_to_datetime(modified)
    except (ValueError, TypeError):
        return False  # RFC 9110 §13.1.3: an invalid date is ignored


def _gzip(body: bytes) -> bytes:
    compressor = zlib.compressobj(1, zlib.DEFLATED, 31)
    return compressor.compress(body) + compressor.flush()
