"""Reads the parameters of Google Reader calls: form fields, stream queries, times and continuations."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from urllib.parse import parse_qsl

from starlette.requests import Request

from headwater.errors import InputError
from headwater.store.readers.streams import StreamQuery
from headwater.web.greader import stream_ids
from headwater.web.request_body import read_body

MAX_FORM_BYTES = 4 << 20  # bytes of a form: 10,000 long ids are 700 kB
MAX_FIELDS = 50_000
MAX_IDS = 200_000  # in one response
MAX_ITEMS = 1000
DEFAULT_COUNT = 20
_INVALID_CONTINUATION = "Invalid `c`. Use the continuation of the previous page, or leave it out."


class FormFields:
    """The fields of a request in order: first those of the URL, then those of the form."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

    @classmethod
    async def read_from(cls, request: Request, longest: int = MAX_FORM_BYTES) -> FormFields:
        """Read the fields of a request; `longest` limits the form in bytes, and 0 ignores the body.

        Raise InputError for malformed fields and RequestRefused (413) for a form that is too long.
        """
        fields = _parse_fields(request.url.query)
        if request.method == "POST" and longest:
            body = await read_body(request, longest)
            fields += _parse_fields(body.decode("utf-8", "replace"))
        return cls(fields)

    def list_values(self, name: str) -> list[str]:
        return [value for key, value in self._fields if key == name]

    def first_value(self, name: str) -> str | None:
        return next((value for key, value in self._fields if key == name), None)

    def parse_number(self, name: str, otherwise: int | None = None) -> int | None:
        """Return a field as a whole number, or `otherwise` if it is missing or not a number, as Google's server did."""
        value = (self.first_value(name) or "").strip()
        return int(value) if value.isascii() and value.isdecimal() and len(value) < 19 else otherwise


def _parse_fields(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise InputError(f"The form cannot be read, or has more than {MAX_FIELDS:,} fields.") from error


def read_stream_query(requested: stream_ids.StreamRequest, given: FormFields, limit: int) -> StreamQuery:
    """Return the part of a stream that the fields n, c, r, ot, nt, xt and it select, at most `limit` items."""
    wanted = given.parse_number("n", DEFAULT_COUNT)
    found = StreamQuery(
        unread=requested.unread,
        starred=requested.starred,
        since=_to_seconds(given.parse_number("ot")),
        until=_parse_position(given.parse_number("nt")),
        before=parse_continuation(given.first_value("c")),
        limit=max(1, min(DEFAULT_COUNT if wanted is None else wanted or limit, limit)),
        oldest_first=given.first_value("r") == "o",
        by_arrival=True,
        queries=True,
    )
    for excluded in given.list_values("xt"):
        if stream_ids.parse_state(excluded) == "read":
            found = replace(found, unread=True)
    for included in given.list_values("it"):
        if (state := stream_ids.parse_state(included)) == "read":
            found = replace(found, unread=False)
        elif state == "starred":
            found = replace(found, starred=True)
        elif state in ("kept-unread", "fresh"):
            found = replace(found, unread=True)
    return found


def _to_seconds(given: int | None) -> float | None:
    """Return a time in seconds; clients send seconds, milliseconds or microseconds.

    The size tells which: 10¹¹ seconds is the year 5138.
    """
    if not given:
        return None
    return float(given) if given < 10**11 else given / 1e3 if given < 10**14 else given / 1e6


def _parse_position(given: int | None) -> float | None:
    seconds = _to_seconds(given)
    return None if seconds is None else seconds + 1  # the given second is included


def parse_mark_time(given: int | None) -> float | None:
    """Return the time before which `ts` marks items as read; the given instant itself is included."""
    seconds = _to_seconds(given)
    if seconds is None or given is None:
        return None
    return seconds + (1 if given < 10**11 else 1e-3 if given < 10**14 else 1e-6)


def format_continuation(place: tuple[float, int]) -> str:
    """Return the cursor after a page's last item: its time, bit for bit so that no precision is lost, and its id."""
    return struct.pack(">dq", *place).hex()


def parse_continuation(given: str | None) -> tuple[float, int] | None:
    """Return the position that a continuation stands for, None for an empty one. Raise InputError if it is invalid.

    >>> parse_continuation(format_continuation((1.5, 7)))
    (1.5, 7)
    """
    if not given:
        return None
    try:
        at, id = struct.unpack(">dq", bytes.fromhex(given))
    except (ValueError, struct.error) as error:
        raise InputError(_INVALID_CONTINUATION) from error
    if not math.isfinite(at):
        raise InputError(_INVALID_CONTINUATION)
    return at, id
