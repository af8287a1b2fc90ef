"""Makes feeds of the farm misbehave, and parses the option `--faults`.

The option is a comma-separated list of KIND[:VALUE][@FEEDS]. FEEDS is a feed (`7`), a range (`3-5`) or a share (`5%`,
the same feeds for the same seed); without it the fault applies to all feeds. `mixed` is a mixture of common faults.
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
from headwater.farm.farm_documents import write_html
from headwater.farm.http_protocol import FarmResponse, make_response
from headwater.farm.timeline import hash_parts

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
    "bomb": "sends 1 GiB in a small compressed body; VALUE is gzip (default), br or zstd",
    "empty": "answers 200 with an empty body",
    "html": "answers with a web page",
    "login": "answers with a login page",
    "damaged": "sends XML with unescaped characters and unclosed elements",
    "truncated": "sends a truncated document with a matching Content-Length",
    "laughs": "sends nested entities (billion laughs)",
    "identities": "gives its items new ids at every fetch",
    "undated": "gives its items no dates",
    "no-validators": "sends neither ETag nor Last-Modified and never 304",
    "same-etag": "changes without changing its ETag, but answers 200",
    "304-body": "answers 304 with a body",
    "future": "sends a Last-Modified in 2099",
    "loop": "redirects to itself",
    "hops": "redirects VALUE times (50)",
    "301": "redirects permanently to VALUE or to a working address of the farm; likewise 302, 303, 307, 308",
    "429": "answers 429 with Retry-After VALUE (60); likewise 503 (Retry-After only with a VALUE)",
    "410": "answers 410; likewise any other status from 400 to 599",
}
MIXED = "slow:3@2%,reset@1%,429:30@2%,503@2%,410@1%,301@2%,302@2%,damaged@2%,login@1%,identities@1%,no-validators@2%"


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of misbehaviour: it starts after `after` requests and lasts `times` requests (None: always)."""

    kind: str
    value: str | None = None
    after: int = 0
    times: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS and not re.fullmatch("30[12378]|[45][0-9][0-9]", self.kind):
            raise InputError(f"Unknown fault “{self.kind}”. Use one of {', '.join(KINDS)}.")
        if self.kind in ("slow", "drip", "headers", "hops") and not re.fullmatch(r"[0-9]*\.?[0-9]+", self.value or "1"):
            raise InputError(f"The fault {self.kind} needs a number, not “{self.value}”.")
        if self.kind == "bomb" and self.value not in (None, "gzip", "br", "zstd"):
            raise InputError(f"The fault bomb takes gzip, br or zstd, not “{self.value}”.")

    def is_active(self, request: int) -> bool:
        """Return whether the fault applies to the feed's request of that number (from 0)."""
        return self.after <= request and (self.times is None or request < self.after + self.times)


def parse_faults(specification: str, feeds: int, seed: int) -> dict[int, Fault]:
    """Return feed → fault for a specification. The first fault of a feed wins.

    >>> parse_faults("410@1,slow:3@2-3", feeds=9, seed=1)[3]
    Fault(kind='slow', value='3', after=0, times=None)
    """
    found: dict[int, Fault] = {}
    text = MIXED if specification == "mixed" else specification
    for number, part in enumerate(filter(None, (part.strip() for part in text.split(",")))):
        what, _, which = part.partition("@")
        kind, _, value = what.partition(":")
        fault = Fault(kind, value or None)
        for feed in _select_feeds(which, part, number, feeds, seed):
            found.setdefault(feed, fault)
    return found


def _select_feeds(which: str, part: str, number: int, feeds: int, seed: int) -> range | list[int]:
    if not which:
        return range(feeds)
    if match := re.fullmatch(r"([0-9.]+)%", which):
        share = float(match[1]) / 100
        return [
            feed for feed in range(feeds) if int.from_bytes(hash_parts(seed, feed, "fault", number)[:4]) < share * 2**32
        ]
    if match := re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", which):
        first, last = int(match[1]), int(match[2] or match[1])
        if first <= last < feeds:
            return range(first, last + 1)
        raise InputError(f"The fault “{part}” names a feed that does not exist. Feeds are 0 to {feeds - 1}.")
    raise InputError(f"The fault “{part}” must end in @FEED, @FIRST-LAST or @SHARE%.")


@dataclass(frozen=True, slots=True)
class FaultCase:
    """The input of a fault: the feed, the farm's address, the correct response and the plain document."""

    feed: int
    request: int
    base: str
    ordinary: Callable[[], FarmResponse]
    document: Callable[[], bytes]


def answer_wrongly(fault: Fault, case: FaultCase) -> FarmResponse:
    """Return the faulty response."""
    if fault.kind.isdigit():
        return _answer_status(int(fault.kind), fault.value, case)
    answer: FarmResponse = _RESPONSES[fault.kind](fault.value, case)
    return answer


def _answer_status(status: int, value: str | None, case: FaultCase) -> FarmResponse:
    if status < 400:
        return make_response(status, b"", ("Location", value or f"{case.base}/moved/{case.feed}"))
    retry = value or ("60" if status == 429 else None)
    headers = [("Retry-After", retry)] if retry else []
    return make_response(
        status, write_html(f"Error {status}", "<p>This error is a fault of the feed farm.</p>"), HTML, *headers
    )


def _answer_slow(value: str | None, case: FaultCase) -> FarmResponse:
    answer = case.ordinary()
    return FarmResponse(answer.status, answer.data, wait=float(value or 10))


def _answer_drip(value: str | None, case: FaultCase) -> FarmResponse:
    answer = case.ordinary()
    return FarmResponse(answer.status, answer.data, drip=float(value or 10))


def _answer_silent(value: str | None, case: FaultCase) -> FarmResponse:
    return FarmResponse(0, b"", end="hang")


def _answer_half(case: FaultCase, end: str) -> FarmResponse:
    whole = make_response(200, case.document(), XML).data
    return FarmResponse(200, whole[: len(whole) // 2], end=end)


def _answer_endless(value: str | None, case: FaultCase) -> FarmResponse:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/rss+xml\r\nConnection: close\r\n\r\n<rss><channel>"
    return FarmResponse(200, head, stream=repeat(b"<item><title>and another one</title></item>" * 1500), end="close")


def _answer_huge(value: str | None, case: FaultCase) -> FarmResponse:
    answer = make_response(200, case.document(), XML, length=10_000_000_000)
    answer.end = "hang"
    return answer


def _answer_many_headers(value: str | None, case: FaultCase) -> FarmResponse:
    return make_response(200, case.document(), XML, *((f"X-{n}", "x") for n in range(int(value or 100_000))))


def _answer_bomb(value: str | None, case: FaultCase) -> FarmResponse:
    encoding = value or "gzip"
    return make_response(200, _pack_bomb(encoding), XML, ("Content-Encoding", encoding))


@functools.lru_cache
def _pack_bomb(encoding: str) -> bytes:
    """Return 1 GiB of spaces compressed as one stream, so that decoders cannot stop after a first member or frame."""
    chunk, count = b" " * (1 << 20), 1024
    if encoding == "br":
        packer = brotli.Compressor(quality=1)
        return b"".join([*(packer.process(chunk) for _ in range(count)), packer.finish()])
    if encoding == "zstd":
        frame = zstandard.ZstdCompressor(level=1).compressobj()
        return b"".join([*(frame.compress(chunk) for _ in range(count)), frame.flush()])
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = deflater.compress(chunk) + deflater.flush(
        zlib.Z_FULL_FLUSH
    )  # independent of earlier blocks, so it can be repeated
    checksum = functools.reduce(lambda crc, _: zlib.crc32(chunk, crc), range(count), 0)
    tail = struct.pack("<II", checksum, count * len(chunk) & 0xFFFFFFFF)
    return b"\x1f\x8b\x08\0\0\0\0\0\2\xff" + block * count + deflater.flush() + tail  # RFC 1952 §2.3


def _answer_damaged(value: str | None, case: FaultCase) -> FarmResponse:
    body = case.document()
    for whole, broken in (
        (b"&amp;", b"&"),
        (b"</description>", b""),
        (b"</summary>", b""),
        (b"&lt;p&gt;", b"<p>&nbsp;"),
    ):
        body = body.replace(whole, broken)
    return make_response(200, body.replace(b'",', b'"'), XML)


def _answer_truncated(value: str | None, case: FaultCase) -> FarmResponse:
    body = case.document()
    return make_response(200, body[: len(body) * 2 // 3], XML)


def _answer_billion_laughs(value: str | None, case: FaultCase) -> FarmResponse:
    names = "abcdefghij"
    tens = [(name, f"&{before};" * 10) for before, name in pairwise(names)]
    entities = '<!ENTITY a "ha">' + "".join(f'<!ENTITY {name} "{value}">' for name, value in tens)
    item = "<item><title>&j;</title></item>"
    return make_response(
        200, f"<!DOCTYPE rss [{entities}]><rss version='2.0'><channel>{item}</channel></rss>".encode(), XML
    )


def _answer_new_identities(value: str | None, case: FaultCase) -> FarmResponse:
    changed = case.document().replace(b"urn:headwater-farm:", b"urn:headwater-farm:%d." % case.request)
    return make_response(200, re.sub(rb"(/items/[0-9]+/[0-9]+)", rb"\1-%d" % case.request, changed), XML)


def _answer_undated(value: str | None, case: FaultCase) -> FarmResponse:
    pattern = rb'<(pubDate|dc:date|lastBuildDate|published|updated)>[^<]*</\1>| *"date_published": *"[^"]*",'
    return make_response(200, re.sub(pattern, b"", case.document()), XML)


def _answer_same_etag(value: str | None, case: FaultCase) -> FarmResponse:
    return make_response(200, case.document(), XML, ("ETag", '"always-the-same"'))


def _answer_304_with_body(value: str | None, case: FaultCase) -> FarmResponse:
    return make_response(304, case.document(), XML, ("ETag", '"with-a-body"'))


def _answer_future_date(value: str | None, case: FaultCase) -> FarmResponse:
    return make_response(200, case.document(), XML, ("Last-Modified", "Thu, 01 Jan 2099 00:00:00 GMT"))


def _answer_redirect_loop(value: str | None, case: FaultCase) -> FarmResponse:
    return make_response(302, b"", ("Location", f"{case.base}/feeds/{case.feed}"))


def _answer_redirect_chain(value: str | None, case: FaultCase) -> FarmResponse:
    return make_response(302, b"", ("Location", f"{case.base}/hops/{case.feed}/{int(value or 50) - 1}"))


def _answer_login_page(value: str | None, case: FaultCase) -> FarmResponse:
    form = (
        '<form method="post"><input name="user"><input type="password" name="password"><button>Log in</button></form>'
    )
    return make_response(200, write_html("Please log in", form), HTML)


_RESPONSES: dict[str, Callable[[str | None, FaultCase], FarmResponse]] = {
    "slow": _answer_slow,
    "drip": _answer_drip,
    "silent": _answer_silent,
    "reset": lambda value, case: _answer_half(case, "reset"),
    "cut": lambda value, case: _answer_half(case, "close"),
    "endless": _answer_endless,
    "huge": _answer_huge,
    "headers": _answer_many_headers,
    "bomb": _answer_bomb,
    "empty": lambda value, case: make_response(200, b"", XML),
    "html": lambda value, case: make_response(200, write_html("No feed here", "<p>Only a page.</p>"), HTML),
    "login": _answer_login_page,
    "damaged": _answer_damaged,
    "truncated": _answer_truncated,
    "laughs": _answer_billion_laughs,
    "identities": _answer_new_identities,
    "undated": _answer_undated,
    "no-validators": lambda value, case: make_response(200, case.document(), XML),
    "same-etag": _answer_same_etag,
    "304-body": _answer_304_with_body,
    "future": _answer_future_date,
    "loop": _answer_redirect_loop,
    "hops": _answer_redirect_chain,
}
