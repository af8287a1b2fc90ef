"""Text to words: markup removed, letters folded, words cut; the same for what is searched and what is searched for.

The words of a value are kept as one string, `" iceland volcano erupts "`: a phrase is then found by looking for
`" volcano erupts "` in it, a prefix by `" volc"`, both at the speed of a substring search.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache

# Tags inside of which a word goes on: <b>v</b>olcano is one word. Any other tag ends the word before it.
_INLINE = re.compile(
    r"</?(?:a|abbr|acronym|b|bdi|bdo|big|cite|code|del|dfn|em|font|i|ins|kbd|mark|q|s|samp|small|span|strike|strong|sub"
    r"|sup|tt|u|var|wbr)(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)
_TAG = re.compile(r"<[a-zA-Z/!?][^<>]*>")
_HIDDEN = re.compile(r"<(?:(script|style)\b|!--)", re.IGNORECASE)
_HIDDEN_END = {
    "script": re.compile(r"</script\s*>", re.IGNORECASE),
    "style": re.compile(r"</style\s*>", re.IGNORECASE),
    "": re.compile(r"-->"),
}


def _without_hidden(text: str) -> str:
    """Scripts, styles and comments removed. An end that is never found is looked for once: linear on any input."""
    pieces: list[str] = []
    endless: set[str] = set()
    start = at = 0
    while opening := _HIDDEN.search(text, at):
        kind = (opening[1] or "").lower()
        closing = None if kind in endless else _HIDDEN_END[kind].search(text, opening.end())
        if closing is None:
            endless.add(kind)
            at = opening.end()
            continue
        pieces.append(text[start : opening.start()])
        start = at = closing.end()
    pieces.append(text[start:])
    return " ".join(pieces)


def strip(text: str) -> str:
    """What a reader sees: no markup, entities decoded.

    >>> strip("<p>Vol<b>cano</b> &amp; ash</p><p>a < b</p>").split()
    ['Volcano', '&', 'ash', 'a', '<', 'b']
    """
    if "<" in text:
        text = _TAG.sub(" ", _INLINE.sub("", _without_hidden(text)))
    if "&" in text:
        try:
            text = html.unescape(text)
        except ValueError:  # a number of thousands of digits is no character
            return text
    return text


def _ranges(members: list[int]) -> str:
    """The code points as the inside of a character class."""
    out, start = [], None
    for code, following in zip(members, [*members[1:], -1], strict=True):
        start = code if start is None else start
        if following != code + 1:
            out.append(f"{re.escape(chr(start))}-{re.escape(chr(code))}")
            start = None
    return "".join(out)


# Combining marks, which Unicode has in its first two planes, and what is invisible inside a word: soft hyphen, joiners,
# word joiner, byte order mark.
_MARKS = re.compile(
    f"[{_ranges([c for c in range(0x300, 0x20000) if unicodedata.combining(chr(c))])}\u00ad\u200c\u200d\u2060\ufeff]+"
)


_FOREIGN = re.compile("[^\x00-\x7f]+")


def _fold_run(run: str) -> str:
    # Marks go before folding as well: U+0345 is a mark whose folded form is a letter.
    run = _MARKS.sub("", unicodedata.normalize("NFKD", run)).casefold()
    return _MARKS.sub("", unicodedata.normalize("NFKD", run))


_fold_short = lru_cache(maxsize=8192)(_fold_run)


def _fold_match(match: re.Match[str]) -> str:
    run = match[0]
    return _fold_short(run) if len(run) <= 8 else _fold_run(run)  # a cache of whole articles would fill the memory


def fold(text: str) -> str:
    """NFKD, case folded, combining marks removed; folding twice changes nothing.

    Decomposition and folding look at one character at a time and marks are never ASCII, so that only the runs
    outside ASCII need the slow way; in European text these are short and repeat.

    >>> fold("Éruption à REYKJAVÍK")
    'eruption a reykjavik'
    """
    if not text.isascii():
        text = _FOREIGN.sub(_fold_match, text)
    return text.lower()


# Han and kana are written without spaces: every character is a word, and a written word a phrase.
_ALONE = (
    "\u3005\u3007\u3021-\u3029\u3038-\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_WORD = re.compile(f"[{_ALONE}]|[^\\W_{_ALONE}]+")
_ASCII_WORDS = bytes(code if chr(code).isalnum() and code < 128 else 32 for code in range(256))

_PUNCTUATION = "“”‘’–—«»„•"  # often all that keeps a text outside ASCII

SEPARATOR = " \n "  # between the words of two values: no phrase holds it, and split() passes over it


def join(text: str) -> str:
    """The words of the text in one string, a space before and after each; the empty string if there is none.

    >>> join("Iceland-blue, again")
    ' Iceland blue again '
    """
    if not text.isascii():
        for mark in _PUNCTUATION:
            text = text.replace(mark, " ")
    if text.isascii():
        words = text.encode("ascii").translate(_ASCII_WORDS).decode("ascii").split()
    else:
        words = _WORD.findall(text)
    return f" {' '.join(words)} " if words else ""


def words(text: str) -> list[str]:
    """The folded words of plain text.

    >>> words("La lave, l'Etna"), words("東京 2024")
    (['la', 'lave', 'l', 'etna'], ['東', '京', '2024'])
    """
    return join(fold(text)).split()


_PREFIX = re.compile(r"[^\W_]\*\s*$")


def needle(searched: str, exact: bool = False) -> str:
    """What to look for in a joined string: " volcano erupts ", or " volcan" where the searched text ends in `*`.

    >>> needle("Volcán*"), needle("Ash cloud")
    (' volcan', ' ash cloud ')
    """
    joined = join(searched if exact else fold(searched))
    return joined[:-1] if _PREFIX.search(searched) else joined


def whole(text: str) -> str:
    """The value as `=` compares it: folded, trimmed, runs of white space as one space."""
    return " ".join(fold(text).split())
