"""What a request to the Google Reader API gives: fields of the address and of the form, and which part of a stream."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from urllib.parse import parse_qsl

from starlette.requests import Request

from headwater.errors import InputError
from headwater.store.people import Part
from headwater.web.forms import Refused
from headwater.web.greader import ids

LONGEST = 4 << 20  # bytes of a form: 10,000 long ids are 700 kB
MOST_FIELDS = 50_000
MOST_IDS = 200_000  # of one answer
MOST_ITEMS = 1000
FIRST = 20


class Given:
    """Fields by name, in the order given: of the address, then of the form."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

    @classmethod
    async def of(cls, request: Request, longest: int = LONGEST) -> Given:
        """InputError or Refused (413) for what cannot be read; with 0 the body is left alone."""
        fields = _fields(request.url.query)
        if request.method == "POST" and longest:
            body = await read_body(request, longest)
            fields += _fields(body.decode("utf-8", "replace"))
        return cls(fields)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self._fields if key == name]

    def get(self, name: str) -> str | None:
        return next((value for key, value in self._fields if key == name), None)

    def number(self, name: str, otherwise: int | None = None) -> int | None:
        """A whole number; what is none counts as not given, as in Google's own server."""
        value = (self.get(name) or "").strip()
        return int(value) if value.isascii() and value.isdecimal() and len(value) < 19 else otherwise


async def read_body(request: Request, longest: int) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > longest:
            raise Refused("The request is larger than anything that is taken here.", 413)
    return body


def _fields(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise InputError("The request has too many fields, or cannot be read.") from error


def part(asked: ids.Asked, given: Given, most: int) -> Part:
    """Which part of a stream: n, c, r, ot, nt, xt, it."""
    limit = given.number("n", FIRST)
    found = Part(
        unread=asked.unread,
        starred=asked.starred,
        since=_seconds(given.number("ot")),
        until=_after(given.number("nt")),
        before=continuation(given.get("c")),
        limit=max(1, min(FIRST if limit is None else limit or most, most)),
        oldest_first=given.get("r") == "o",
        by_arrival=True,
        queries=True,
    )
    for excluded in given.all("xt"):
        if ids.state(excluded) == "read":
            found = replace(found, unread=True)
    for included in given.all("it"):
        if (state := ids.state(included)) == "read":
            found = replace(found, unread=False)
        elif state == "starred":
            found = replace(found, starred=True)
        elif state in ("kept-unread", "fresh"):
            found = replace(found, unread=True)
    return found


def _seconds(given: int | None) -> float | None:
    """Some clients count in microseconds; 10¹¹ seconds is the year 5138."""
    if not given:
        return None
    return float(given) if given < 10**11 else given / 1e3 if given < 10**14 else given / 1e6


def _after(given: int | None) -> float | None:
    seconds = _seconds(given)
    return None if seconds is None else seconds + 1  # the whole second counts


def until(given: int | None) -> float | None:
    """What `ts` means: everything that arrived up to it. In microseconds, or in what a client thinks it is."""
    seconds = _seconds(given)
    if seconds is None or given is None:
        return None
    return seconds + (1 if given < 10**11 else 1e-3 if given < 10**14 else 1e-6)


def continued(place: tuple[float, int]) -> str:
    """Where a page ended: the bits of the time, so that none is lost, and the id."""
    return struct.pack(">dq", *place).hex()


def continuation(given: str | None) -> tuple[float, int] | None:
    """
    >>> continuation(continued((1.5, 7)))
    (1.5, 7)
    """
    if not given:
        return None
    try:
        at, id = struct.unpack(">dq", bytes.fromhex(given))
    except (ValueError, struct.error) as error:
        raise InputError("The continuation was not given by this server.") from error
    if not math.isfinite(at):
        raise InputError("The continuation was not given by this server.")
    return at, id
