"""Cuts text into index words, and a typed search into FTS5 and tsquery terms.

The two full-text engines disagree on words: stemming, host names, accents. They get the words that standing queries
see, and only store these, so both databases find the same items.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from itertools import chain
from pathlib import Path

from headwater.model import Item
from headwater.query.items import tokens as cutting
from headwater.query.items.required_words import AllWords, AnyWords, Narrowing, Words
from headwater.query.items.tokens import (
    SEPARATOR,
    compile_symbols,
    join_words,
    join_words_and_symbols,
    split_words,
    strip_markup,
)

MAX_TEXT_LENGTH = 200_000  # characters of an item's text that are looked at
MAX_WORDS = 16_000  # words of an item that are indexed; PostgreSQL counts no further than 16,383
MAX_WORD_LENGTH = 500  # PostgreSQL refuses words beyond 2 kB; no word of a language comes near
MAX_SEARCH_LENGTH = 500  # characters
TITLE_MARK = "\ue000"  # before each word of a title, which is indexed a second time; not part of any word
_TERM = re.compile(r'(?P<without>-)?(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]+))')


def index_fingerprint() -> str:
    """Return a hash of the code that makes index words. An index with another fingerprint must be rebuilt.

    SQLite removes an item from its index only by the very words that went in. A version number could be forgotten, so
    the hash covers the source that makes the words and the version of the Unicode tables.
    """
    sources = b"".join(Path(file).read_bytes() for file in (cutting.__file__, __file__))
    tables = unicodedata.unidata_version + version("regex")
    return blake2b(sources + tables.encode(), digest_size=8).hexdigest()


def list_index_words(
    title: str | None, summary: str | None, content: str | None, authors: Sequence[str], categories: Sequence[str]
) -> str:
    """Return the words of an item, separated by spaces: title, text (and a longer summary), authors and categories.
    The words of the title come a second time, marked, for searches in titles.

    >>> list_index_words("Lava!", None, "<p>It <b>flow</b>s</p>", ["Ada"], [])
    '\ue000lava lava it flows ada'
    """
    longer = summary if content and len(summary or "") > len(content) else None  # conditions on CONTENT need both
    text = content or summary
    parts = (
        title,
        text[:MAX_TEXT_LENGTH] if text else None,
        longer[:MAX_TEXT_LENGTH] if longer else None,
        " ".join(authors),
        " ".join(categories),
    )
    # Joining leaves one space on either side of every part.
    joined = [join_words(strip_markup(part)) for part in parts if part]
    marked = [TITLE_MARK + word for word in joined[0].split()] if title else []
    found = " ".join([*marked, "".join(joined).replace("  ", " ").strip()])
    return found if len(found) < 2 * MAX_WORDS else " ".join(found.split(" ", MAX_WORDS)[:MAX_WORDS])


@cache
def _list_positions() -> list[str]:
    return [f":{place} " for place in range(1, MAX_WORDS + 1)]


def to_tsvector(found: str) -> str:
    """Return words with their positions as PostgreSQL's tsvector literal; its own parser never sees the text.

    Words are letters and digits only, so that none needs quotes.

    >>> to_tsvector("lava it flows")
    'lava:1 it:2 flows:3 '
    """
    words = found.split()
    if len(found) > MAX_WORD_LENGTH and max(map(len, words)) > MAX_WORD_LENGTH:
        return " ".join([f"{word}:{place}" for place, word in enumerate(words, 1) if len(word) <= MAX_WORD_LENGTH])
    return "".join(chain.from_iterable(zip(words, _list_positions(), strict=False)))


@dataclass(frozen=True, slots=True)
class SearchTerm:
    """Words that must follow each other; the last may be only a beginning.

    The index holds no symbols: items that it finds for C++ are searched again for `symbols`.
    """

    words: tuple[str, ...]
    without: bool = False
    prefix: bool = False
    symbols: re.Pattern[str] | None = None


def parse_search(text: str) -> list[SearchTerm]:
    """Parse a typed search: words, "phrases", -without, begin*. Anything else is ignored, so no text is an error.

    >>> [term.words for term in parse_search('Snow "south pole" -c++')]
    [('snow',), ('south', 'pole'), ('c',)]
    """
    terms = []
    for match in _TERM.finditer(text[:MAX_SEARCH_LENGTH]):
        searched = match["phrase"] if match["phrase"] is not None else match["word"]
        if cut := tuple(split_words(searched)):
            prefix = match["word"] is not None and searched.endswith("*")
            without = match["without"] is not None
            terms.append(SearchTerm(cut, without, prefix, compile_symbols(searched)))
    return terms


def to_narrow_query(wanted: Narrowing, dialect: str) -> str:
    """Build the query of the database's index for the words that items must have.

    >>> wanted = AllWords((Words(("ash", "cloud")), AnyWords((Words(("etna",)), Words(("volc",), prefix=True)))))
    >>> to_narrow_query(wanted, "sqlite")
    '("ash cloud" AND ("etna" OR "volc" *))'
    """
    match wanted:
        case Words(words, prefix, title):
            mark = TITLE_MARK if title else ""
            if dialect == "sqlite":
                return f'"{mark}{f" {mark}".join(words)}"' + (" *" if prefix else "")
            quoted = [f"'{mark}{word}'" for word in words]
            quoted[-1] += ":*" if prefix else ""
            return f"({' <-> '.join(quoted)})"
        case AllWords(parts):
            operator = " AND " if dialect == "sqlite" else " & "
        case AnyWords(parts):
            operator = " OR " if dialect == "sqlite" else " | "
    return f"({operator.join([to_narrow_query(part, dialect) for part in parts])})"


def needs_symbols(terms: Sequence[SearchTerm]) -> bool:
    """Tell whether the index alone cannot answer, because a term has symbols."""
    return any(term.symbols is not None for term in terms)


def keeps_symbols(item: Item, terms: Sequence[SearchTerm]) -> bool:
    """Tell whether an item that the index found also has the symbols that the terms ask for."""
    parts = (item.title, item.summary, item.content, *item.authors, *item.categories)
    text = SEPARATOR.join([join_words_and_symbols(strip_markup(part[:MAX_TEXT_LENGTH])) for part in parts if part])
    return all((term.symbols.search(text) is None) is term.without for term in terms if term.symbols is not None)


def _list_index_terms(terms: list[SearchTerm]) -> list[SearchTerm]:
    """Return the terms that the index can answer: it knows no symbols, so -C++ would exclude as much as -C."""
    return [term for term in terms if not (term.without and term.symbols is not None)]


def to_fts5_query(terms: list[SearchTerm]) -> str:
    """Build the query for FTS5. Words are letters and digits only, so quotes are the only escaping needed."""
    parts = [
        (f'"{" ".join(term.words)}"' + (" *" if term.prefix else ""), term.without) for term in _list_index_terms(terms)
    ]
    query = " AND ".join(part for part, without in parts if not without)
    gone = " OR ".join(part for part, without in parts if without)
    return f"({query}) NOT ({gone})" if gone else query


def to_tsquery(terms: list[SearchTerm]) -> str:
    """Build the query for PostgreSQL."""
    parts = []
    for term in _list_index_terms(terms):
        quoted = [f"'{word}'" for word in term.words]
        if term.prefix:
            quoted[-1] += ":*"
        parts.append(("!" if term.without else "") + f"({' <-> '.join(quoted)})")
    return " & ".join(parts)
