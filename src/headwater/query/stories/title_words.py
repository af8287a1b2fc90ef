"""Shortens a title to the words that stories compare, and to its form with the numbers left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

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
            stems.append(word[:STEM_LETTERS])
        else:
            run.append(word)
    return stems + _pair_characters(run)


def _pair_characters(run: list[str]) -> list[str]:
    return run if len(run) == 1 else [one + other for one, other in pairwise(run)]


def describe_form(words: Sequence[str]) -> str:
    """Return the title with every number replaced, which is equal for the parts of a series.

    >>> describe_form(["2020", "11", "10", "20", "00", "gmt"])
    '# # # # # gmt'
    """
    return _NUMBER.sub("#", " ".join(words))
