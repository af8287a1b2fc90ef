"""Text → the words the index holds, and what a person typed → what to ask the index. The same for both databases.

Both full-text engines have opinions about what a word is, and different ones: stemming, host names, accents. We make
the words ourselves (lower case, no accents, no markup, CJK by character), and let the engines only store them.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from html import unescape

from headwater.model import Item

LONGEST = 100_000  # characters of an item that are indexed; PostgreSQL refuses more than 1 MB of words
LONGEST_QUERY = 500
_TAG = re.compile(r"<[^>]*>")
_OTHER = re.compile(r"[\W_]+")
_CJK = re.compile("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003ffff])")
_TERM = re.compile(r'(?P<without>-)?(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]+))')
_ASCII = str.maketrans({code: " " for code in range(128) if not chr(code).isalnum()})


def words_of(item: Item) -> str:
    """All words of an item, separated by spaces."""
    body = item.content if item.content and len(item.content) >= len(item.summary or "") else item.summary
    parts = (item.title, body, " ".join(item.authors), " ".join(item.categories))
    return fold(" ".join(_plain(part) for part in parts if part))


def _plain(html: str) -> str:
    html = html[: 2 * LONGEST]
    if "<" in html:
        html = _TAG.sub(" ", html)
    return unescape(html) if "&" in html else html


def fold(text: str) -> str:
    """Lower-case words without accents, CJK characters apart.

    >>> fold("L’Été à Ōsaka: it's 30°C!")
    'l ete a osaka it s 30 c'
    """
    text = text[:LONGEST]
    if text.isascii():
        return " ".join(text.lower().translate(_ASCII).split())
    text = unicodedata.normalize("NFKD", text.casefold())
    text = "".join(one for one in text if not unicodedata.combining(one))
    # Composed again, or Hangul would fall apart into letters.
    text = _CJK.sub(r" \1 ", unicodedata.normalize("NFC", text))
    return " ".join(_OTHER.sub(" ", text).split())


@dataclass(frozen=True, slots=True)
class Term:
    """Words that must follow each other; the last may be only a beginning."""

    words: tuple[str, ...]
    without: bool = False
    prefix: bool = False


def terms_of(text: str) -> list[Term]:
    """What a person typed: words, "phrases", -without, begin*. Anything else is ignored, so nothing is wrong.

    >>> [term.words for term in terms_of('Snow "south pole" -c++')]
    [('snow',), ('south', 'pole'), ('c',)]
    """
    terms = []
    for match in _TERM.finditer(text[:LONGEST_QUERY]):
        said = match["phrase"] if match["phrase"] is not None else match["word"]
        # PostgreSQL refuses words beyond 2 kB; no word of a language comes near.
        words = tuple(word[:200] for word in fold(said).split())
        if words:
            prefix = match["word"] is not None and said.endswith("*")
            terms.append(Term(words, without=match["without"] is not None, prefix=prefix))
    return terms


def fts5_query(terms: list[Term]) -> str:
    """For FTS5. Words are letters and digits only, so quotes are all the escaping there is to do."""
    parts = [f'"{" ".join(term.words)}"' + (" *" if term.prefix else "") for term in terms]
    kept = [part for part, term in zip(parts, terms, strict=True) if not term.without]
    gone = [part for part, term in zip(parts, terms, strict=True) if term.without]
    query = " AND ".join(kept)
    return f"({query}) NOT ({' OR '.join(gone)})" if gone else query


def tsquery(terms: list[Term]) -> str:
    """For PostgreSQL's to_tsquery with the configuration “simple”."""
    parts = []
    for term in terms:
        words = [f"'{word}'" for word in term.words]
        if term.prefix:
            words[-1] += ":*"
        parts.append(("!" if term.without else "") + f"({' <-> '.join(words)})")
    return " & ".join(parts)
