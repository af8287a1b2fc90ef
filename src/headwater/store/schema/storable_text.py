"""Replaces characters that cannot be stored or published by U+FFFD, in texts and in every text of a value.

Text that people type loses whatever XML forbids. Documents lose it when they are read, so a verdict comes here only
after the database has refused it, and loses no more than the database refuses: identities must stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar

import msgspec

from headwater.formats.values.text import replace_forbidden

T = TypeVar("T")

_REFUSED = re.compile("[\x00\ud800-\udfff]")  # by PostgreSQL; SQLite refuses surrogates alone


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
