"""What all values of a script have in common: they are frozen, compare by meaning, and can be packed.

Structs of msgspec and not dataclasses, because a packed one is read at the speed of C (`packed`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar

import msgspec


class SyntaxNode(msgspec.Struct, frozen=True, array_like=True, tag=True, eq=False, omit_defaults=True):
    """`aside` names the fields that take no part in what it means: where it stands, how it was spelled."""

    ignored_fields: ClassVar[frozenset[str]] = frozenset({"pos", "listed", "comments", "warnings"})

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        meant = _meaning_getter(type(self))
        return meant(self) == meant(other)

    def __hash__(self) -> int:
        return hash(_meaning_getter(type(self))(self))

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in _meaningful_fields(type(self)))
        return f"{type(self).__name__}({', '.join(shown)})"


def _meaningful_fields(kind: type[SyntaxNode]) -> tuple[str, ...]:
    return tuple(name for name in kind.__struct_fields__ if name not in kind.ignored_fields)


@cache
def _meaning_getter(kind: type[SyntaxNode]) -> Callable[[Any], tuple[Any, ...]]:
    """From a value to what is compared; the class is part of it, so that hashes of different ones differ."""
    return attrgetter("__class__", *_meaningful_fields(kind))
