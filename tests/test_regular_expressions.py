"""Regular expressions mean the same on every supported Python."""

from __future__ import annotations

import re
from pathlib import Path
from token import COMMENT
from tokenize import tokenize

import headwater


def test_no_group_is_repeated_possessively() -> None:
    """Python before 3.11.5 counts half a match as a match (`(?:<p>)*+` matches all of `<`)."""
    repeated = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+")
    for source in Path(headwater.__file__).parent.rglob("*.py"):
        with source.open("rb") as file:
            texts = [token.string for token in tokenize(file.readline) if token.type != COMMENT]
        assert not list(filter(repeated.search, texts)), source
