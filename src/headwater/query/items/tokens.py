"""Strips markup, folds letters and splits words, in the same way for items and for searched words.

The words of a value are kept as one string, `" iceland volcano erupts "`: a phrase is found as the substring
`" volcano erupts "`, a prefix as `" volc"`, both at the speed of a substring search.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import cache, lru_cache
from itertools import chain

# Tags that do not end a word: <b>v</b>olcano is one word. Any other tag does.
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
    """Remove scripts, styles and comments. A missing end is searched once, so the time is linear on any input."""
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
    """Return the text that a reader sees: without markup, with entities decoded.

    >>> strip_markup("<p>Vol<b>cano</b> &amp; ash</p><p>a < b</p>").split()
    ['Volcano', '&', 'ash', 'a', '<', 'b']
    """
    if "<" in text:
        text = _TAG.sub(" ", _INLINE.sub("", _remove_hidden(text)))
    if "&" in text:
        try:
            text = html.unescape(text)
        except ValueError:  # a character reference with thousands of digits
            return text
    return text


def _class_ranges(members: list[int]) -> str:
    """Return the code points as ranges for a character class."""
    out, start = [], None
    for code, following in zip(members, [*members[1:], -1], strict=True):
        start = code if start is None else start
        if following != code + 1:
            out.append(f"{re.escape(chr(start))}-{re.escape(chr(code))}")
            start = None
    return "".join(out)


def _is_spelling_mark(mark: str) -> bool:
    """Return whether this combining mark distinguishes words, as in क and कि. Folding keeps such marks.

    Combining class 0 contains the vowel signs of Indic scripts, 7 the nukta, 8 the Japanese voicing marks, 9 the
    virama, and 84 to 132 vowels and tones of Telugu, Thai, Lao and Tibetan. The other classes contain accents, Hebrew
    points and Arabic vowels.
    """
    place = unicodedata.combining(mark)
    return place in (0, 7, 8, 9) or 84 <= place <= 132


# Blocks with combining marks; the gaps are Han, Hangul and private use.
_SCRIPTS = (range(0x300, 0x3100), range(0xA600, 0xAC00), range(0xFB00, 0x12000), range(0x16000, 0x1F000))
_VARIANTS = "\u034f\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
_INVISIBLE = f"\u00ad\u200c\u200d\u2060\ufeff{_VARIANTS}"  # soft hyphen, joiners, word joiner, byte order mark
_VOICING = "\u3099\u309a"
_NOT_SPELLING = re.compile(f"[{_VARIANTS}{_VOICING}]")


# Marks and patterns take a tenth of the time in which a command may start, so they wait for a text outside ASCII.
@cache
def _list_marks() -> list[int]:
    return [c for c in chain(*_SCRIPTS) if unicodedata.category(chr(c)) in ("Mn", "Mc")]


@cache
def _list_spelling_marks() -> list[int]:
    return [c for c in _list_marks() if _is_spelling_mark(chr(c)) and not _NOT_SPELLING.match(chr(c))]


@cache
def _list_accents() -> list[int]:
    return [c for c in _list_marks() if not _is_spelling_mark(chr(c))]


# `re` tests ranges beyond U+FFFF one by one, so these have a pattern of their own; few texts need it.
_BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")


@cache
def _compile_accents() -> re.Pattern[str]:
    return re.compile(f"[{_class_ranges([c for c in _list_accents() if c <= 0xFFFF])}{_INVISIBLE}]+")


@cache
def _compile_accents_beyond() -> re.Pattern[str]:
    return re.compile(f"[{_class_ranges([c for c in _list_accents() if c > 0xFFFF])}]+")


def _strip_accents(text: str) -> str:
    text = _compile_accents().sub("", unicodedata.normalize("NFKD", text))
    return _compile_accents_beyond().sub("", text) if _BEYOND_BMP.search(text) else text


_NON_ASCII = re.compile("[^\x00-\x7f]+")


def _fold_run(run: str) -> str:
    # Accents are also stripped before folding: U+0345 is a mark whose folded form is a letter.
    return _strip_accents(_strip_accents(run).casefold())


_fold_short = lru_cache(maxsize=8192)(_fold_run)


def _fold_match(match: re.Match[str]) -> str:
    run = match[0]
    return _fold_short(run) if len(run) <= 8 else _fold_run(run)  # caching whole articles would fill the memory


def fold_text(text: str) -> str:
    """Normalise to NFKD, fold case and strip accents. Folding twice changes nothing.

    Decomposition and case folding work on single characters, and marks are never ASCII. Therefore only runs outside
    ASCII need the slow path; in European text these are short and repetitive.

    >>> fold_text("Éruption à REYKJAVÍK")
    'eruption a reykjavik'
    """
    if not text.isascii():
        text = _NON_ASCII.sub(_fold_match, text)
    return text.lower()


# Han and kana are written without spaces: each character is a word, and a written word is a phrase.
_SINGLE_CHARACTERS = (
    "\u3005\u3007\u3021-\u3029\u3038-\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)


_UNSPACED = re.compile(f"[{_SINGLE_CHARACTERS}]")


def is_unspaced_character(word: str) -> bool:
    """Return whether the word is one character of a script without spaces, which is a word by itself here.

    >>> is_unspaced_character("東"), is_unspaced_character("a")
    (True, False)
    """
    return not word.isascii() and _UNSPACED.match(word) is not None


@cache
def _compile_word_without_marks() -> re.Pattern[str]:
    return re.compile(f"[{_SINGLE_CHARACTERS}][{_VOICING}]?|[^\\W_{_SINGLE_CHARACTERS}]+")


# Python's \w excludes marks. Testing for them after every word would double the time for scripts without marks.
@cache
def _compile_may_spell() -> re.Pattern[str]:
    marks = _class_ranges([c for c in _list_spelling_marks() if c <= 0xFFFF])
    return re.compile(f"[{marks}\U00010000-\U0001efff]")


@cache
def _compile_word(folded: bool) -> re.Pattern[str]:
    marks = _class_ranges(_list_spelling_marks()) if folded else _class_ranges(_list_marks()) + _INVISIBLE
    return re.compile(
        f"[{_SINGLE_CHARACTERS}][{_VOICING}]?|[^\\W_{_SINGLE_CHARACTERS}]+(?:[{marks}]+[^\\W_{_SINGLE_CHARACTERS}]*)*"
    )


_ASCII_WORDS = bytes(code if chr(code).isalnum() and code < 128 else 32 for code in range(256))

_PUNCTUATION = "“”‘’–—«»„•"  # often the only characters outside ASCII

SEPARATOR = " \n "  # between the words of two values: no phrase contains it, and split() skips it


def join_words(text: str) -> str:
    """Return the words of the text as one string, with a space before and after each; empty without words.

    >>> join_words("Iceland-blue, again")
    ' Iceland blue again '
    """
    if not text.isascii():
        for mark in _PUNCTUATION:
            text = text.replace(mark, " ")
    if text.isascii():
        words = text.encode("ascii").translate(_ASCII_WORDS).decode("ascii").split()
    else:
        may_spell = _compile_may_spell().search(text)
        words = (_compile_word(folded=True) if may_spell else _compile_word_without_marks()).findall(text)
    return f" {' '.join(words)} " if words else ""


def split_words(text: str) -> list[str]:
    """Return the folded words of plain text.

    >>> split_words("La lave, l'Etna"), split_words("東京 2024"), split_words("हिन्दी में")
    (['la', 'lave', 'l', 'etna'], ['東', '京', '2024'], ['हिन्दी', 'में'])
    """
    return join_words(fold_text(text)).split()


def find_word_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each word of a text that is not folded.

    >>> find_word_spans("La lave, 東京")
    [(0, 2), (3, 7), (9, 10), (10, 11)]
    """
    return [match.span() for match in _compile_word(folded=False).finditer(text)]


def search_key(searched: str, exact: bool = False) -> str:
    """Return the substring to search in joined words: " volcano erupts ", or " volcan" if the text ends in `*`.

    >>> search_key("Volcán*"), search_key("Ash cloud")
    (' volcan', ' ash cloud ')
    """
    joined = join_words(searched if exact else fold_text(searched))
    return joined[:-1] if joined and _is_prefix(searched) else joined


def _is_prefix(searched: str) -> bool:
    """Return whether the searched text ends with a word and `*`."""
    start, star, rest = searched.rpartition("*")
    return bool(star) and not rest.strip() and bool(spans := find_word_spans(start)) and spans[-1][1] == len(start)


def fold_value(text: str) -> str:
    """Return the value as `=` compares it: folded, trimmed, with single spaces."""
    return " ".join(fold_text(text).split())
