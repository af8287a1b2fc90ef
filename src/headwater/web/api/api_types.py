"""Types that many endpoints share: numbers and texts with their limits, pages of lists, cursors."""

from __future__ import annotations

import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta

from headwater.errors import InputError
from headwater.web.api.endpoint import Parameters, ResponseBody

T = TypeVar("T")

_PLAIN = r"^[^\u0000-\u001f\u007f]*$"  # PostgreSQL takes no NUL, and no name has a line break
Id = Annotated[int, Meta(ge=1, le=2**53 - 1, description="the number of a thing")]
ShortText = Annotated[str, Meta(min_length=1, max_length=500, pattern=_PLAIN)]
Tag = Annotated[str, Meta(min_length=1, max_length=200, pattern=_PLAIN)]
Address = Annotated[str, Meta(min_length=1, max_length=4000, pattern=_PLAIN)]
Script = Annotated[str, Meta(max_length=1_000_000, pattern=r"^[^\u0000]*$", description="text in the query language")]
Limit = Annotated[int, Meta(ge=1, le=1000, description="at most so many")]
Cursor = Annotated[
    str, Meta(max_length=500, pattern=r"^[A-Za-z0-9_=-]*$", description="`next` of the page before; else the first")
]
Time = Annotated[float, Meta(description="seconds since 1970, UTC")]
Moment = Annotated[float, Meta(ge=-1e11, le=1e11, description="seconds since 1970, UTC")]


class ListParameters(Parameters, frozen=True):
    """Which page of a list."""

    limit: Limit = 100
    cursor: Cursor | None = None


class IdParameters(Parameters, frozen=True):
    """One thing by its number."""

    id: Id


class ListPage(ResponseBody, Generic[T], frozen=True):
    """A page of a list; `next` is the cursor of the page after it, null at the end."""

    items: list[T]
    next: str | None


class RemovedView(ResponseBody, frozen=True):
    """Something was removed; it can be taken back for a day."""

    undo: Annotated[int, Meta(description="the number for POST /removals/undo")]


def encode_cursor(*parts: Any) -> str:
    """The place after which the next page begins, opaque to whoever passes it on.

    >>> decode_cursor(encode_cursor(12.5, 3), float, int)
    (12.5, 3)
    """
    return urlsafe_b64encode(msgspec.json.encode(parts)).decode()


def decode_cursor(given: str | None, *types: type) -> tuple[Any, ...] | None:
    """What stands in a cursor, None without one; InputError where it is none of ours."""
    if given is None:
        return None
    try:
        parts = msgspec.json.decode(urlsafe_b64decode(given.encode()), type=list[Any])
        found: tuple[Any, ...] = tuple(msgspec.convert(part, kind) for part, kind in zip(parts, types, strict=True))
    except (ValueError, msgspec.MsgspecError) as error:
        raise InputError("The cursor is none of ours: give what `next` said, or none.", "cursor") from error
    if any(isinstance(part, int) and abs(part) >= 2**62 for part in found):
        raise InputError("The cursor is none of ours: give what `next` said, or none.", "cursor")
    return found


def paginate(rows: Sequence[Any], limit: int, view: Any, key: Any) -> ListPage[Any]:
    """A page of `limit` out of rows of which one more was asked for; `key(row)` are the parts of its cursor."""
    shown = rows[:limit]
    return ListPage(
        items=[view(row) for row in shown], next=encode_cursor(*key(shown[-1])) if len(rows) > limit and shown else None
    )


def finite_or_none(number: float | None) -> float | None:
    """JSON has no infinity."""
    return number if number is not None and math.isfinite(number) else None
