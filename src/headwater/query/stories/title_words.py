"""Shortens a title to the words that stories compare, and to its form with the numbers left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise
from sys import intern

from headwater.query.items.tokens import is_unspaced_character

STEM_LETTERS = 5  # the first letters of a word serve as its stem in every language with spaces
_NUMBER = re.compile(r"\d+")


def list_stems(words: Sequence[str]) -> list[str]:
    """Return the stems of folded words; runs of Chinese or Japanese characters become overlapping pairs.

    >>> list_stems(["volcanoes", "erupt", "in", "東", "京", "都"])
    ['volca', 'erupt', 'in', '東京', '京都']
    """
    stems: list[str] = []
    run: list[str] = []
    for word in words:
        if word.isascii() or not is_unspaced_character(word):
            if run:
                stems += _pair_characters(run)
                run = []
            stems.append(intern(word[:STEM_LETTERS]))  # every source keeps its recent stems
        else:
            run.append(word)
    return stems + _pair_characters(run)


def _pair_characters(run: list[str]) -> list[str]:
    return run if len(run) == 1 else [one + other for one, other in pairwise(run)]


def restore_words(stems: Sequence[str], words: Sequence[str]) -> tuple[str, ...]:
    """Return the first word of each stem.

    >>> restore_words(["volca", "京都"], ["in", "volcanoes", "京", "都"])
    ('volcanoes', '京都')
    """
    first: dict[str, str] = {}
    for word in words:
        first.setdefault(word[:STEM_LETTERS], word)
    return tuple(first.get(stem, stem) for stem in stems)


def describe_form(words: Sequence[str]) -> bytes:
    """Return a digest of the title with every number replaced, which is equal for the parts of a series.

    >>> describe_form(["10", "20", "gmt"]) == describe_form(["11", "05", "gmt"])
    True
    """
    return blake2b(_NUMBER.sub("#", " ".join(words)).encode(errors="surrogatepass"), digest_size=8).digest()
