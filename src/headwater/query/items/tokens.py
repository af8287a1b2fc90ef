"""Strips markup, folds letters and splits words, in the same way for items and for searched words.

The words of a value are kept as one string, `" iceland volcano erupts "`: a phrase is found as the substring
`" volcano erupts "`, a prefix as `" volc"`, both at the speed of a substring search. docs/language.md has a table of
what a word is in each script.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Literal

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


# Symbols that belong to what they touch in a searched text: C++, C#, AT&T, @user, 100%, $5. A full stop does at the
# start of a word alone: .NET.
SYMBOLS = "#$%&+@£¥€"

SEPARATOR = " \n "  # between the words of two values: no phrase contains it, and split() skips it

# Letters that Unicode does not decompose, or decomposes although readers take them for one letter: Polish ł, Danish ø,
# Russian ё (printed as е), Arabic alef with hamza (typed without). A tatweel only stretches a word.
_PLAIN_LETTERS = {
    **dict(zip("łøđðħŧıæœþ", ("l", "o", "d", "d", "h", "t", "i", "ae", "oe", "th"), strict=True)),
    **dict(zip("ёѐѝ", "ееи", strict=True)),
    **dict.fromkeys("آأإٱ", "ا"),
    "ـ": "",
}

# Control characters that tables put into a text for the steps after them; no table keeps one of the text itself.
_BEFORE, _AFTER, _DROPPED = "\0", "\1", "\2"


class _CharacterKinds:
    """Tells the kinds of characters by their Unicode properties, which `unicodedata` does not have."""

    def __init__(self) -> None:
        import regex  # 35 ms; a text of ASCII needs none of it

        def recognise(kind: str) -> Callable[[str], object]:
            match: Callable[[str], object] = regex.compile(kind, regex.V1).match
            return match

        unspaced = (
            r"[\p{Script_Extensions=Han}\p{Script_Extensions=Hiragana}\p{Script_Extensions=Katakana}"
            r"\p{Line_Break=Complex_Context}]"
        )
        # A mark that belongs to one script spells its words: vowel signs, tones. Marks that scripts share are accents,
        # apart from the voicing of kana; so are the points and vowels that Hebrew and Arabic mostly leave out.
        accents = r"[\p{M}&&[\p{Inherited}\p{Common}\p{Latin}\p{Greek}\p{Cyrillic}\p{Hebrew}\p{Arabic}\p{Syriac}]]"
        ignorable = r"[\p{Default_Ignorable_Code_Point}\p{Me}]"
        letter, mark = r"[\p{L}\p{N}]", r"[\p{Mn}\p{Mc}]"
        single = f"[{unspaced}&&{letter}]"
        self.is_accent = recognise(rf"[[{accents}{ignorable}]--[\u3099\u309a]]")
        self.is_ignorable = recognise(ignorable)
        self.has_accents = recognise(r"[\p{Latin}\p{Greek}]")
        self.is_single = recognise(single)
        self.is_single_mark = recognise(rf"[{mark}&&[{unspaced}\u3099\u309a]]")
        self.is_word = recognise(rf"[{letter}{mark}]")
        self.words = regex.compile(
            rf"{single}[{mark}{ignorable}]*+|[{letter}--{unspaced}][[{letter}{mark}{ignorable}]--{single}]*+", regex.V1
        )


@cache
def _kinds() -> _CharacterKinds:
    return _CharacterKinds()


class _CharacterTable(dict[int, str]):
    """Rewrites texts character by character (`str.translate`); looks at a character when it first occurs."""

    def __init__(self, rewrite: Callable[[str], str]) -> None:
        super().__init__()
        self._rewrite = rewrite

    def __missing__(self, code: int) -> str:
        made = self[code] = self._rewrite(chr(code))
        return made


def _fold_character(character: str) -> str:
    bare = "".join(map(_strip_accents, _compose(character, "NFKC")))
    folded = bare.casefold()
    return folded if folded == character else "".join(map(_fold_character, folded))


def _strip_accents(character: str) -> str:
    if character.isascii():
        return character
    kinds = _kinds()
    if kinds.is_accent(character):
        return ""
    if kinds.has_accents(character):
        decomposed = unicodedata.normalize("NFD", character)
        character = "".join(each for each in decomposed if not kinds.is_accent(each))
    return _PLAIN_LETTERS.get(character, character)


def _keep_words(text: str, kept: str = "") -> str:
    """Replace all that is not part of a word by a space, and mark where a character is a word by itself."""
    return "".join([_keep_word_character(character, kept) for character in text]) or _DROPPED


def _keep_word_character(character: str, kept: str) -> str:
    if character.isascii():
        return character if character.isalnum() or character in kept else " "
    kinds = _kinds()
    if kinds.is_ignorable(character):
        return _DROPPED
    if kinds.is_single(character):
        return f"{_BEFORE}{character}{_AFTER}"
    if kinds.is_single_mark(character):
        return f"{character}{_AFTER}"
    return character if kinds.is_word(character) or character in kept else " "


_FOLDED = _CharacterTable(lambda character: _fold_character(character) or _DROPPED)
_FOLDED_WORDS = _CharacterTable(lambda character: _keep_words(_fold_character(character)))
_EXACT_WORDS = _CharacterTable(_keep_words)
_FOLDED_SYMBOLS = _CharacterTable(lambda character: _keep_words(_fold_character(character), f"{SYMBOLS}."))
_EXACT_SYMBOLS = _CharacterTable(lambda character: _keep_words(character, f"{SYMBOLS}."))
# Thai and Lao AM are one letter to readers. NFKC takes them apart, and some write their tone between the parts.
_THAI_AM, _LAO_AM = re.compile("\u0e4d([\u0e48-\u0e4b]?)\u0e32"), re.compile("\u0ecd([\u0ec8-\u0ecb]?)\u0eb2")
_SINGLE_BEFORE_LETTER = re.compile(f"{_AFTER}(?=\\w)")


def _rewrite(text: str, table: _CharacterTable, form: Literal["NFC", "NFKC"] = "NFKC") -> str:
    """Normalise the text, rewrite its characters, and act on the marks that the table set."""
    text = _compose(text, form).translate(table)
    if _AFTER in text:
        text = _SINGLE_BEFORE_LETTER.sub(" ", text).replace(_AFTER, "").replace(_BEFORE, " ")
    return _compose(text.replace(_DROPPED, ""), form) if _DROPPED in text else text


def _compose(text: str, form: Literal["NFC", "NFKC"]) -> str:
    if not unicodedata.is_normalized(form, text):
        text = unicodedata.normalize(form, text)
    if "\u0e4d" in text or "\u0ecd" in text:
        text = _THAI_AM.sub("\\1\u0e33", _LAO_AM.sub("\\1\u0eb3", text))
    return text


def fold_text(text: str) -> str:
    """Normalise to NFKC, fold case and strip the accents of Latin and Greek letters. Folding twice changes nothing.

    >>> fold_text("Éruption à REYKJAVÍK, Йод, がっこう")
    'eruption a reykjavik, йод, がっこう'
    """
    return text.lower() if text.isascii() else _rewrite(text, _FOLDED)


def is_unspaced_character(word: str) -> bool:
    """Return whether the word is one character of a script without spaces, which is a word by itself here.

    >>> is_unspaced_character("東"), is_unspaced_character("กิ"), is_unspaced_character("a")
    (True, True, False)
    """
    return not word.isascii() and _EXACT_WORDS[ord(word[0])][0] == _BEFORE


_ASCII_WORDS = bytes(code if chr(code).isalnum() and code < 128 else 32 for code in range(256))
_ASCII_FOLDED_WORDS = _ASCII_WORDS.lower()

_PUNCTUATION = "“”‘’–—«»„•…\xa0"  # often the only characters outside ASCII


def join_words(text: str, exact: bool = False) -> str:
    """Return the folded words of the text as one string, with a space before and after each; empty without words.

    `exact` leaves case and accents, and composes them (NFC).

    >>> join_words("Iceland-blue, again"), join_words("Iceland-blue", exact=True)
    (' iceland blue again ', ' Iceland blue ')
    """
    if not text.isascii():
        for mark in _PUNCTUATION:
            text = text.replace(mark, " ")
    if text.isascii():
        words = text.encode("ascii").translate(_ASCII_WORDS if exact else _ASCII_FOLDED_WORDS).decode("ascii").split()
    else:
        words = (_rewrite(text, _EXACT_WORDS, "NFC") if exact else _rewrite(text, _FOLDED_WORDS)).split()
    return f" {' '.join(words)} " if words else ""


def split_words(text: str) -> list[str]:
    """Return the folded words of plain text.

    >>> split_words("La lave, l'Etna"), split_words("東京 2024"), split_words("हिन्दी में"), split_words("กิน")
    (['la', 'lave', 'l', 'etna'], ['東', '京', '2024'], ['हिन्दी', 'में'], ['กิ', 'น'])
    """
    return join_words(text).split()


def find_word_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each word of a text that is not folded.

    >>> find_word_spans("La lave, 東京")
    [(0, 2), (3, 7), (9, 10), (10, 11)]
    """
    return [match.span() for match in _kinds().words.finditer(text)]


def search_key(searched: str, exact: bool = False) -> str:
    """Return the substring to search in joined words: " volcano erupts ", or " volcan" if the text ends in `*`.

    >>> search_key("Volcán*"), search_key("Ash cloud")
    (' volcan', ' ash cloud ')
    """
    joined = join_words(searched, exact)
    return joined[:-1] if joined and is_prefix(searched) else joined


def is_prefix(searched: str) -> bool:
    """Return whether the searched text ends with a word and `*`."""
    start, star, rest = searched.rpartition("*")
    return bool(star) and not rest.strip() and bool(start) and _EXACT_WORDS[ord(start[-1])].strip() != ""


def fold_value(text: str) -> str:
    """Return the value as `=` compares it: folded, trimmed, with single spaces."""
    return " ".join(fold_text(text).split())


# Words and the symbols that touch them

_KEPT = f"{SYMBOLS}."
_RUN = re.compile(f"[{_KEPT}]+|[^{_KEPT}]+")
_MAY_HAVE_SYMBOLS = re.compile(f"[{_KEPT}]")
_GAP = f"[ {_KEPT}]+"
_WORD_START, _WORD_END = f"(?<![^ {_KEPT}])", f"(?![^ {_KEPT}])"


def join_words_and_symbols(text: str, exact: bool = False) -> str:
    """Return the words as `join_words` does, with the symbols and full stops that touch them.

    >>> join_words_and_symbols("AT&T, (C++) and .NET")
    ' at&t c++ and .net '
    """
    rewritten = _rewrite(text, _EXACT_SYMBOLS, "NFC") if exact else _rewrite(text, _FOLDED_SYMBOLS)
    return f" {' '.join(rewritten.split())} "


def compile_symbols(searched: str, exact: bool = False) -> re.Pattern[str] | None:
    """Compile the search for words with symbols in `join_words_and_symbols`; None if the text has no such symbol.

    >>> bool(compile_symbols("C++").search(" learn c++17 ")), bool(compile_symbols("C++").search(" vitamin c "))
    (True, False)
    >>> compile_symbols("U.S. news") is None
    True
    """
    if searched.isascii() and not _MAY_HAVE_SYMBOLS.search(searched):
        return None
    chunks = [chunk for chunk in join_words_and_symbols(searched, exact).split() if chunk.strip(_KEPT)]
    compiled = [_compile_chunk(chunk) for chunk in chunks]
    if not any(demands for _, demands in compiled):
        return None
    pattern = _GAP.join(pattern for pattern, _ in compiled)
    return re.compile(pattern.removesuffix(_WORD_END) if is_prefix(searched) else pattern)


def _compile_chunk(chunk: str) -> tuple[str, bool]:
    """Return the pattern of words that only symbols or full stops part, and whether it demands a symbol."""
    body = chunk.strip(_KEPT)
    start, end = chunk[: chunk.index(body)], chunk[chunk.index(body) + len(body) :].strip(".")
    start = start if start == "." else start.strip(".")
    runs: list[str] = _RUN.findall(body)
    inner = [re.escape(run) if run.strip(".") else _GAP for run in runs]
    if start == ".":
        opening = f"(?<![^ {SYMBOLS}])\\."
    else:
        opening = f"(?<![{SYMBOLS}]){re.escape(start)}" if start else _WORD_START
    closing = f"{re.escape(end)}(?![{SYMBOLS}])" if end else _WORD_END
    demands = bool(start or end) or any(run.strip(".") and run[0] in _KEPT for run in runs)
    return f"{opening}{''.join(inner)}{closing}", demands
