"""Replaces characters that cannot be stored or published by U+FFFD: in columns, and in every text of a value.

Columns of text that people type (`StorableText`) replace every character that XML forbids. Documents lose those when
they are parsed, so a verdict is changed only after the database has refused it, and then only as far as needed:
identities must stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Dialect, Text
from sqlalchemy.types import TypeDecorator

from headwater.formats.values.text import replace_forbidden

T = TypeVar("T")

_REFUSED = re.compile("[\x00\ud800-\udfff]")  # by PostgreSQL; SQLite refuses surrogates alone


class StorableText(TypeDecorator[str]):
    """Text that people type; characters that XML forbids are replaced when it is stored or compared."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the text as it is stored."""
        return None if value is None else replace_forbidden(value)


def replace_unstorable(value: T) -> T:
    r"""Return the value with every character that XML forbids replaced.

    >>> replace_unstorable(("a\x00b", "c\ufffed"))
    ('a�b', 'c�d')
    """
    return _change_texts(value, replace_forbidden)  # type: ignore[no-any-return]


def replace_refused(value: T) -> T:
    r"""Return the value with every character that a database refuses replaced.

    >>> replace_refused("a\x00b\x01")
    'a�b\x01'
    """
    return _change_texts(value, lambda text: _REFUSED.sub("�", text))  # type: ignore[no-any-return]


def _change_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_change_texts(part, change) for part in value)
    if isinstance(value, msgspec.Struct):
        names: tuple[str, ...] = value.__struct_fields__
    elif is_dataclass(value) and not isinstance(value, type):
        names = tuple(field.name for field in fields(value))
    else:
        return value
    return type(value)(**{name: _change_texts(getattr(value, name), change) for name in names})
