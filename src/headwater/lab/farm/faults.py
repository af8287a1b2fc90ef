"""How a farm feed misbehaves on demand, and the small language in which `--faults` asks for it.

A specification is a comma-separated list of KIND[:VALUE][@WHICH]; WHICH is a feed (`7`), a range (`3-5`) or a share
(`5%`, the same feeds for the same seed), and all feeds when absent. `mixed` stands for a little of everything.
"""

from __future__ import annotations

import functools
import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise, repeat

import brotli
import zstandard

from headwater.errors import InputError
from headwater.lab.farm.documents import html
from headwater.lab.farm.http import Answer, compose
from headwater.lab.farm.world import digits

XML = ("Content-Type", "application/rss+xml; charset=utf-8")
HTML = ("Content-Type", "text/html; charset=utf-8")
KINDS = {
    "slow": "answers after VALUE seconds (10)",
    "drip": "sends one byte every VALUE seconds (10)",
    "silent": "accepts and never answers",
    "reset": "resets the connection in the middle of the body",
    "cut": "closes the connection in the middle of the body",
    "endless": "sends a body without end",
    "huge": "claims a Content-Length of 10 GB",
    "headers": "sends VALUE header lines (100000)",
    "bomb": "sends 1 GiB packed small; VALUE is gzip (default), br or zstd",
    "empty": "answers 200 with nothing",
    "html": "answers with a web page",
    "login": "answers with a login page",
    "damaged": "forgets to escape and to close",
    "truncated": "sends a document that ends in the middle, as if it were whole",
    "laughs": "sends nested entities (billion laughs)",
    "identities": "calls its items differently at every fetch",
    "undated": "gives its items no dates",
    "no-validators": "sends neither ETag nor Last-Modified and never 304",
    "same-etag": "changes without changing its ETag, but answers 200",
    "304-body": "answers 304 with a body",
    "future": "was last modified in 2099",
    "loop": "redirects to itself",
    "hops": "redirects VALUE times (50)",
    "301": "moved for good, to VALUE or to a working address here; so 302, 303, 307, 308",
    "429": "too many requests, Retry-After VALUE (60); so 503 (no Retry-After unless given)",
    "410": "gone; so every other status from 400 to 599",
}
MIXED = "slow:3@2%,reset@1%,429:30@2%,503@2%,410@1%,301@2%,302@2%,damaged@2%,login@1%,identities@1%,no-validators@2%"


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to misbehave, from the request after the first `after` ones on, for `times` requests (None: always)."""

    kind: str
    value: str | None = None
    after: int = 0
    times: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS and not re.fullmatch("30[12378]|[45][0-9][0-9]", self.kind):
            raise InputError(f"The farm knows no fault “{self.kind}”; it knows {', '.join(KINDS)}.")
        if self.kind in ("slow", "drip", "headers", "hops") and not re.fullmatch(r"[0-9]*\.?[0-9]+", self.value or "1"):
            raise InputError(f"The fault {self.kind} needs a number, not “{self.value}”.")
        if self.kind == "bomb" and self.value not in (None, "gzip", "br", "zstd"):
            raise InputError(f"The farm packs bombs with gzip, br or zstd, not with “{self.value}”.")

    def active(self, request: int) -> bool:
        """Whether the feed's request of that number (from 0) is answered badly."""
        return self.after <= request and (self.times is None or request < self.after + self.times)


def parse(specification: str, feeds: int, seed: int) -> dict[int, Fault]:
    """The faults asked for by a specification; where two meet on one feed, the first wins.

    >>> parse("410@1,slow:3@2-3", feeds=9, seed=1)[3]
    Fault(kind='slow', value='3', after=0, times=None)
    """
    found: dict[int, Fault] = {}
    text = MIXED if specification == "mixed" else specification
    for number, part in enumerate(filter(None, (part.strip() for part in text.split(",")))):
        what, _, which = part.partition("@")
        kind, _, value = what.partition(":")
        fault = Fault(kind, value or None)
        for feed in _feeds(which, part, number, feeds, seed):
            found.setdefault(feed, fault)
    return found


def _feeds(which: str, part: str, number: int, feeds: int, seed: int) -> range | list[int]:
    if not which:
        return range(feeds)
    if match := re.fullmatch(r"([0-9.]+)%", which):
        share = float(match[1]) / 100
        return [
            feed for feed in range(feeds) if int.from_bytes(digits(seed, feed, "fault", number)[:4]) < share * 2**32
        ]
    if match := re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", which):
        first, last = int(match[1]), int(match[2] or match[1])
        if first <= last < feeds:
            return range(first, last + 1)
        raise InputError(f"The fault “{part}” names a feed that is not there: feeds are 0 to {feeds - 1}.")
    raise InputError(f"The fault “{part}” should end in @FEED, @FIRST-LAST or @SHARE%.")


@dataclass(frozen=True, slots=True)
class Case:
    """What a fault works on: the feed, its address on this server, the right answer, and the plain document."""

    feed: int
    request: int
    base: str
    ordinary: Callable[[], Answer]
    document: Callable[[], bytes]


def misbehave(fault: Fault, case: Case) -> Answer:
    """The wrong answer."""
    if fault.kind.isdigit():
        return _status(int(fault.kind), fault.value, case)
    answer: Answer = _FAULTS[fault.kind](fault.value, case)
    return answer


def _status(status: int, value: str | None, case: Case) -> Answer:
    if status < 400:
        return compose(status, b"", ("Location", value or f"{case.base}/moved/{case.feed}"))
    retry = value or ("60" if status == 429 else None)
    headers = [("Retry-After", retry)] if retry else []
    return compose(status, html(f"Error {status}", "<p>The farm was asked to fail here.</p>"), HTML, *headers)


def _slow(value: str | None, case: Case) -> Answer:
    answer = case.ordinary()
    return Answer(answer.status, answer.data, wait=float(value or 10))


def _drip(value: str | None, case: Case) -> Answer:
    answer = case.ordinary()
    return Answer(answer.status, answer.data, drip=float(value or 10))


def _silent(value: str | None, case: Case) -> Answer:
    return Answer(0, b"", end="hang")


def _half(case: Case, end: str) -> Answer:
    whole = compose(200, case.document(), XML).data
    return Answer(200, whole[: len(whole) // 2], end=end)


def _endless(value: str | None, case: Case) -> Answer:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/rss+xml\r\nConnection: close\r\n\r\n<rss><channel>"
    return Answer(200, head, stream=repeat(b"<item><title>and another one</title></item>" * 1500), end="close")


def _huge(value: str | None, case: Case) -> Answer:
    answer = compose(200, case.document(), XML, length=10_000_000_000)
    answer.end = "hang"
    return answer


def _headers(value: str | None, case: Case) -> Answer:
    return compose(200, case.document(), XML, *((f"X-{n}", "x") for n in range(int(value or 100_000))))


def _bomb(value: str | None, case: Case) -> Answer:
    packing = value or "gzip"
    return compose(200, _packed(packing), XML, ("Content-Encoding", packing))


@functools.lru_cache
def _packed(packing: str) -> bytes:
    """1 GiB of spaces as one stream: decoders that stop after a first member or frame are to meet all of it."""
    chunk, count = b" " * (1 << 20), 1024
    if packing == "br":
        packer = brotli.Compressor(quality=1)
        return b"".join([*(packer.process(chunk) for _ in range(count)), packer.finish()])
    if packing == "zstd":
        frame = zstandard.ZstdCompressor(level=1).compressobj()
        return b"".join([*(frame.compress(chunk) for _ in range(count)), frame.flush()])
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = deflater.compress(chunk) + deflater.flush(zlib.Z_FULL_FLUSH)  # refers to nothing before it: repeatable
    checksum = functools.reduce(lambda crc, _: zlib.crc32(chunk, crc), range(count), 0)
    tail = struct.pack("<II", checksum, count * len(chunk) & 0xFFFFFFFF)
    return b"\x1f\x8b\x08\0\0\0\0\0\2\xff" + block * count + deflater.flush() + tail  # RFC 1952 §2.3


def _damaged(value: str | None, case: Case) -> Answer:
    body = case.document()
    for whole, broken in (
        (b"&amp;", b"&"),
        (b"</description>", b""),
        (b"</summary>", b""),
        (b"&lt;p&gt;", b"<p>&nbsp;"),
    ):
        body = body.replace(whole, broken)
    return compose(200, body.replace(b'",', b'"'), XML)


def _truncated(value: str | None, case: Case) -> Answer:
    body = case.document()
    return compose(200, body[: len(body) * 2 // 3], XML)


def _laughs(value: str | None, case: Case) -> Answer:
    names = "abcdefghij"
    tens = [(name, f"&{before};" * 10) for before, name in pairwise(names)]
    entities = '<!ENTITY a "ha">' + "".join(f'<!ENTITY {name} "{value}">' for name, value in tens)
    item = "<item><title>&j;</title></item>"
    return compose(200, f"<!DOCTYPE rss [{entities}]><rss version='2.0'><channel>{item}</channel></rss>".encode(), XML)


def _identities(value: str | None, case: Case) -> Answer:
    changed = case.document().replace(b"urn:headwater-farm:", b"urn:headwater-farm:%d." % case.request)
    return compose(200, re.sub(rb"(/items/[0-9]+/[0-9]+)", rb"\1-%d" % case.request, changed), XML)


def _undated(value: str | None, case: Case) -> Answer:
    pattern = rb'<(pubDate|dc:date|lastBuildDate|published|updated)>[^<]*</\1>| *"date_published": *"[^"]*",'
    return compose(200, re.sub(pattern, b"", case.document()), XML)


def _same_etag(value: str | None, case: Case) -> Answer:
    return compose(200, case.document(), XML, ("ETag", '"always-the-same"'))


def _not_modified_with_body(value: str | None, case: Case) -> Answer:
    return compose(304, case.document(), XML, ("ETag", '"with-a-body"'))


def _future(value: str | None, case: Case) -> Answer:
    return compose(200, case.document(), XML, ("Last-Modified", "Thu, 01 Jan 2099 00:00:00 GMT"))


def _loop(value: str | None, case: Case) -> Answer:
    return compose(302, b"", ("Location", f"{case.base}/feeds/{case.feed}"))


def _hops(value: str | None, case: Case) -> Answer:
    return compose(302, b"", ("Location", f"{case.base}/hops/{case.feed}/{int(value or 50) - 1}"))


def _login(value: str | None, case: Case) -> Answer:
    form = (
        '<form method="post"><input name="user"><input type="password" name="password"><button>Log in</button></form>'
    )
    return compose(200, html("Please log in", form), HTML)


_FAULTS: dict[str, Callable[[str | None, Case], Answer]] = {
    "slow": _slow,
    "drip": _drip,
    "silent": _silent,
    "reset": lambda value, case: _half(case, "reset"),
    "cut": lambda value, case: _half(case, "close"),
    "endless": _endless,
    "huge": _huge,
    "headers": _headers,
    "bomb": _bomb,
    "empty": lambda value, case: compose(200, b"", XML),
    "html": lambda value, case: compose(200, html("No feed here", "<p>Only a page.</p>"), HTML),
    "login": _login,
    "damaged": _damaged,
    "truncated": _truncated,
    "laughs": _laughs,
    "identities": _identities,
    "undated": _undated,
    "no-validators": lambda value, case: compose(200, case.document(), XML),
    "same-etag": _same_etag,
    "304-body": _not_modified_with_body,
    "future": _future,
    "loop": _loop,
    "hops": _hops,
}
