"""Text to words: markup removed, letters folded, words cut; the same for what is searched and what is searched for.

The words of a value are kept as one string, `" iceland volcano erupts "`: a phrase is then found by looking for
`" volcano erupts "` in it, a prefix by `" volc"`, both at the speed of a substring search.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import cache, lru_cache
from itertools import chain

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


def _remove_hidden(text: str) -> str:
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


def strip_markup(text: str) -> str:
    """What a reader sees: no markup, entities decoded.

    >>> strip_markup("<p>Vol<b>cano</b> &amp; ash</p><p>a < b</p>").split()
    ['Volcano', '&', 'ash', 'a', '<', 'b']
    """
    if "<" in text:
        text = _TAG.sub(" ", _INLINE.sub("", _remove_hidden(text)))
    if "&" in text:
        try:
            text = html.unescape(text)
        except ValueError:  # a number of thousands of digits is no character
            return text
    return text


def _class_ranges(members: list[int]) -> str:
    """The code points as the inside of a character class."""
    out, start = [], None
    for code, following in zip(members, [*members[1:], -1], strict=True):
        start = code if start is None else start
        if following != code + 1:
            out.append(f"{re.escape(chr(start))}-{re.escape(chr(code))}")
            start = None
    return "".join(out)


def _is_spelling_mark(mark: str) -> bool:
    """Whether words differ by this combining mark, as क and कि do: then it is no accent and folding keeps it.

    Class 0 has the vowel signs of Indic scripts, 7 the nukta, 8 the Japanese voicing marks, 9 the virama, 84 to 132
    the vowels and tones of Telugu, Thai, Lao and Tibetan. Accents, Hebrew points and Arabic vowels are the others.
    """
    place = unicodedata.combining(mark)
    return place in (0, 7, 8, 9) or 84 <= place <= 132


# The scripts with combining marks; what lies between is Han, Hangul and private use.
_SCRIPTS = (range(0x300, 0x3100), range(0xA600, 0xAC00), range(0xFB00, 0x12000), range(0x16000, 0x1F000))
_MARKS = [c for c in chain(*_SCRIPTS) if unicodedata.category(chr(c)) in ("Mn", "Mc")]
_VARIANTS = "\u034f\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
_INVISIBLE = f"\u00ad\u200c\u200d\u2060\ufeff{_VARIANTS}"  # soft hyphen, joiners, word joiner, byte order mark
_VOICING = "\u3099\u309a"
_NOT_SPELLING = re.compile(f"[{_VARIANTS}{_VOICING}]")
_SPELLING = [c for c in _MARKS if _is_spelling_mark(chr(c)) and not _NOT_SPELLING.match(chr(c))]
_ACCENTS = [c for c in _MARKS if not _is_spelling_mark(chr(c))]

# A class is fast as long as it has few ranges beyond U+FFFF: re tries these one by one. Texts seldom go beyond.
_BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")
_ACCENT = re.compile(f"[{_class_ranges([c for c in _ACCENTS if c <= 0xFFFF])}{_INVISIBLE}]+")


@cache
def _compile_accents_beyond() -> re.Pattern[str]:
    return re.compile(f"[{_class_ranges([c for c in _ACCENTS if c > 0xFFFF])}]+")


def _strip_accents(text: str) -> str:
    text = _ACCENT.sub("", unicodedata.normalize("NFKD", text))
    return _compile_accents_beyond().sub("", text) if _BEYOND_BMP.search(text) else text


_NON_ASCII = re.compile("[^\x00-\x7f]+")


def _fold_run(run: str) -> str:
    # Accents go before folding as well: U+0345 is a mark whose folded form is a letter.
    return _strip_accents(_strip_accents(run).casefold())


_fold_short = lru_cache(maxsize=8192)(_fold_run)


def _fold_match(match: re.Match[str]) -> str:
    run = match[0]
    return _fold_short(run) if len(run) <= 8 else _fold_run(run)  # a cache of whole articles would fill the memory


def fold_text(text: str) -> str:
    """NFKD, case folded, accents removed; folding twice changes nothing.

    Decomposition and folding look at one character at a time and marks are never ASCII, so that only the runs
    outside ASCII need the slow way; in European text these are short and repeat.

    >>> fold_text("Éruption à REYKJAVÍK")
    'eruption a reykjavik'
    """
    if not text.isascii():
        text = _NON_ASCII.sub(_fold_match, text)
    return text.lower()


# Han and kana are written without spaces: every character is a word, and a written word a phrase.
_SINGLE_CHARACTERS = (
    "\u3005\u3007\u3021-\u3029\u3038-\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_WORD = re.compile(f"[{_SINGLE_CHARACTERS}][{_VOICING}]?|[^\\W_{_SINGLE_CHARACTERS}]+")
# Python's \w has no marks. Looking for them at the end of every word would double the time for scripts without them.
_MAY_SPELL = re.compile(f"[{_class_ranges([c for c in _SPELLING if c <= 0xFFFF])}\U00010000-\U0001efff]")


@cache
def _compile_word(folded: bool) -> re.Pattern[str]:
    marks = _class_ranges(_SPELLING) if folded else _class_ranges(_MARKS) + _INVISIBLE
    return re.compile(
        f"[{_SINGLE_CHARACTERS}][{_VOICING}]?|[^\\W_{_SINGLE_CHARACTERS}]+(?:[{marks}]+[^\\W_{_SINGLE_CHARACTERS}]*)*"
    )


_ASCII_WORDS = bytes(code if chr(code).isalnum() and code < 128 else 32 for code in range(256))

_PUNCTUATION = "“”‘’–—«»„•"  # often all that keeps a text outside ASCII

SEPARATOR = " \n "  # between the words of two values: no phrase holds it, and split() passes over it


def join_words(text: str) -> str:
    """The words of the text in one string, a space before and after each; the empty string if there is none.

    >>> join_words("Iceland-blue, again")
    ' Iceland blue again '
    """
    if not text.isascii():
        for mark in _PUNCTUATION:
            text = text.replace(mark, " ")
    if text.isascii():
        words = text.encode("ascii").translate(_ASCII_WORDS).decode("ascii").split()
    else:
        words = (_compile_word(folded=True) if _MAY_SPELL.search(text) else _WORD).findall(text)
    return f" {' '.join(words)} " if words else ""


def split_words(text: str) -> list[str]:
    """The folded words of plain text.

    >>> split_words("La lave, l'Etna"), split_words("東京 2024"), split_words("हिन्दी में")
    (['la', 'lave', 'l', 'etna'], ['東', '京', '2024'], ['हिन्दी', 'में'])
    """
    return join_words(fold_text(text)).split()


def find_word_spans(text: str) -> list[tuple[int, int]]:
    """The start and the end of each word of a text that is not folded.

    >>> find_word_spans("La lave, 東京")
    [(0, 2), (3, 7), (9, 10), (10, 11)]
    """
    return [match.span() for match in _compile_word(folded=False).finditer(text)]


def search_key(searched: str, exact: bool = False) -> str:
    """What to look for in a joined string: " volcano erupts ", or " volcan" where the searched text ends in `*`.

    >>> search_key("Volcán*"), search_key("Ash cloud")
    (' volcan', ' ash cloud ')
    """
    joined = join_words(searched if exact else fold_text(searched))
    return joined[:-1] if joined and _is_prefix(searched) else joined


def _is_prefix(searched: str) -> bool:
    """Whether the searched text ends in a word and `*`."""
    start, star, rest = searched.rpartition("*")
    return bool(star) and not rest.strip() and bool(spans := find_word_spans(start)) and spans[-1][1] == len(start)


def fold_value(text: str) -> str:
    """The value as `=` compares it: folded, trimmed, runs of white space as one space."""
    return " ".join(fold_text(text).split())
