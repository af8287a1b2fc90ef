"""Parses a class with its parameters, such as `two_steps(tau=2, estimator=likelihood(observations=20))`.

A name is a registry name, a paper's spelling (`2Steps`, `Fix 1h`) or `package.module:Name`. A value is a number, true,
false, none, a word, a text in quotes, a list in brackets, or another class with parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.errors import SettingsError

PUNCTUATION = "()=,[]\"'"
_WORDS: Mapping[str, bool | None] = {"true": True, "false": False, "none": None}


@dataclass(frozen=True, slots=True)
class ClassSpec:
    """The name of a class and the parameters given to it."""

    name: str
    options: Mapping[str, Value] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.options:
            return self.name
        return f"{self.name}({', '.join(f'{key}={_format_value(value)}' for key, value in self.options.items())})"

    @property
    def is_own(self) -> bool:
        """Whether any part of it names a class of one's own, which would be imported."""
        parts = [value for value in self.options.values() if isinstance(value, ClassSpec | str)]
        return ":" in self.name or any(":" in part if isinstance(part, str) else part.is_own for part in parts)


Value = float | int | bool | str | None | ClassSpec | tuple["Value", ...]


def parse_spec(text: str) -> ClassSpec:
    """Parse one class with its parameters. Raises SettingsError with the place of the mistake.

    >>> parse_spec("advarss(c=.5, politeness=600)")
    ClassSpec(name='advarss', options={'c': 0.5, 'politeness': 600})
    >>> str(parse_spec(" two_steps( estimator = likelihood(observations=20) ) "))
    'two_steps(estimator=likelihood(observations=20))'
    """
    reader = _SpecReader(text)
    spec = reader.read_class()
    if reader.peek():
        raise reader.complain(f"“{reader.peek()}” is not expected there")
    return spec


def split_specs(text: str) -> list[str]:
    """Split a list of classes at the commas outside parentheses.

    >>> split_specs("uniform, advarss(c=.5, politeness=600),")
    ['uniform', 'advarss(c=.5, politeness=600)']
    """
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _format_value(value: Value) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_format_value(part) for part in value)}]"
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and (not value or any(one in PUNCTUATION for one in value) or _read_word(value) != value):
        return f'"{value}"'
    return f"{value:g}" if isinstance(value, float) else str(value)


def _read_word(word: str) -> Value:
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


class _SpecReader:
    """Reads a specification from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def complain(self, what: str) -> SettingsError:
        return SettingsError(
            f"“{self._text}” cannot be read: {what} (at character {self._at + 1}). Write name(parameter=value, …)."
        )

    def peek(self) -> str:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        return self._text[self._at : self._at + 1]

    def _take(self, wanted: str) -> bool:
        found = self.peek() == wanted
        self._at += found
        return found

    def _read_name(self, what: str) -> str:
        self.peek()
        start = self._at
        while self._at < len(self._text) and self._text[self._at] not in PUNCTUATION:
            self._at += 1
        name = self._text[start : self._at].strip()
        if not name:
            raise self.complain(f"{what} is missing")
        return name

    def read_class(self) -> ClassSpec:
        name = self._read_name("a name")
        return ClassSpec(name, self._read_options() if self._take("(") else {})

    def _read_options(self) -> dict[str, Value]:
        options: dict[str, Value] = {}
        while not self._take(")"):
            name = self._read_name("the name of a parameter")
            if name in options:
                raise self.complain(f"{name} is given twice")
            if not self._take("="):
                raise self.complain(f"the value of {name} is missing")
            options[name] = self._read_value(name)
            if not self._take(",") and self.peek() != ")":
                raise self.complain("a closing parenthesis is missing")
        return options

    def _read_value(self, name: str) -> Value:
        first = self.peek()
        if first and first in "\"'":
            return self._read_quoted(first)
        if self._take("["):
            parts: list[Value] = []
            while not self._take("]"):
                parts.append(self._read_value(name))
                if not self._take(",") and self.peek() != "]":
                    raise self.complain("a closing bracket is missing")
            return tuple(parts)
        word = self._read_name(f"the value of {name}")
        return ClassSpec(word, self._read_options()) if self._take("(") else _read_word(word)

    def _read_quoted(self, quote: str) -> str:
        end = self._text.find(quote, self._at + 1)
        if end < 0:
            raise self.complain("a closing quote is missing")
        text = self._text[self._at + 1 : end]
        self._at = end + 1
        return text
