"""Who wrote it: the forms in which feeds name people, down to one name each."""

from __future__ import annotations

from functools import lru_cache

from headwater.formats.text import decoded, from_html

_LONGEST = 500
_USUAL = 80  # characters; the same few people write most of what comes, so these are remembered


def person(text: str | None) -> str | None:
    """The name of the person that a text is about, in whatever form; None where it names nobody."""
    if not text:
        return None
    return _usual(text) if len(text) <= _USUAL else name_in(text)


def name_in(text: str) -> str | None:
    """The name in `me@example.com (Me)`, `Me <me@example.com>`, `Me (me@example.com)`; the address when alone.

    Plain scanning: regular expressions for this have been a way to stop other readers.

    >>> name_in("me@example.com (Example editor)")
    'Example editor'
    """
    text = " ".join(text[: _LONGEST * 4].split())
    if "</" in text:
        text = from_html(text) or ""  # people marked up as links to their pages
    elif "&" in text:
        text = decoded(text)  # addresses hidden from collectors as references
    if _has_address(text):
        for opening, closing in ("()", "<>", "[]"):
            start = text.find(opening)
            end = text.find(closing, start + 1)
            if start < 0 or end < 0:
                continue
            inside, outside = text[start + 1 : end].strip(), f"{text[:start]} {text[end + 1 :]}".strip()
            if _has_address(inside) and not _has_address(outside):
                text = outside or inside
            elif _has_address(outside) and not _has_address(inside):
                text = inside or outside
        text = _without_address(text)
    text = text.removeprefix("mailto:").strip(" \"'")
    return text[:_LONGEST] or None


_usual = lru_cache(maxsize=4_096)(name_in)


def _has_address(text: str) -> bool:
    """Whether a mail address is in there; `@me` is a name."""
    return "@" in text and any("@" in word.lstrip("(<[@") for word in text.split(" "))


def _without_address(text: str) -> str:
    """`Me me@example.com` → `Me`; an address alone stays."""
    words = text.split(" ")
    if len(words) > 1:
        rest = [word for word in words if "@" not in word or word.startswith("@")]
        if rest and not all(word in ("-", "/", "|", ",", "and", "&") for word in rest):
            return " ".join(rest).strip(" ,;-/|<>()")
    return text


def distinct(names: list[str]) -> tuple[str, ...]:
    """The names in order, each once."""
    return tuple(dict.fromkeys(names)) if len(names) > 1 else tuple(names)
