"""Normalises language tags and the names of languages."""

from __future__ import annotations

import re

_TAG = re.compile(r"([A-Za-z]{2,3}|[Xx](?=-))(?:-[A-Za-z0-9]{1,8})*")
_MAX_LENGTH = 40
_TAG_WITH_UNDERSCORES = re.compile(r"[A-Za-z]{2,3}(?:_[A-Za-z0-9]{1,8})+")  # as in locale names

# ISO 639-1, without “jp”, “us” and “xx”, which are not languages. Codes of three letters are too many to list.
_CODES = (
    " aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz "
    "ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik "
    "io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml "
    "mn mo mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc "
    "sd se sg sh si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz "
    "ve vi vo wa wo xh yi yo za zh zu "
)

_NAMES = {
    "afrikaans": "af", "arabic": "ar", "bengali": "bn", "bulgarian": "bg", "catalan": "ca", "chinese": "zh",
    "croatian": "hr", "czech": "cs", "danish": "da", "dansk": "da", "deutsch": "de", "dutch": "nl", "english": "en",
    "español": "es", "estonian": "et", "finnish": "fi", "français": "fr", "francais": "fr", "french": "fr",
    "german": "de", "greek": "el", "gujarati": "gu", "hebrew": "he", "hindi": "hi", "hungarian": "hu",
    "icelandic": "is", "indonesian": "id", "irish": "ga", "italian": "it", "italiano": "it", "japanese": "ja",
    "kannada": "kn", "korean": "ko", "latvian": "lv", "lithuanian": "lt", "malay": "ms", "malayalam": "ml",
    "marathi": "mr", "nederlands": "nl", "norsk": "no", "norwegian": "no", "persian": "fa", "polish": "pl",
    "polski": "pl", "portuguese": "pt", "português": "pt", "romanian": "ro", "russian": "ru", "serbian": "sr",
    "slovak": "sk", "slovenian": "sl", "spanish": "es", "suomi": "fi", "svenska": "sv", "swahili": "sw",
    "swedish": "sv", "tamil": "ta", "telugu": "te", "thai": "th", "turkish": "tr", "ukrainian": "uk", "urdu": "ur",
    "vietnamese": "vi", "welsh": "cy", "русский": "ru", "українська": "uk", "中文": "zh", "日本語": "ja",
    "한국어": "ko",
}  # fmt: skip


def normalise_language(tag: str | None) -> str | None:
    """Return a language tag (RFC 5646) if possible, else the text itself; None if it is empty.

    >>> normalise_language(" en_GB "), normalise_language("English"), normalise_language("Elvish")
    ('en-GB', 'en', 'Elvish')
    """
    if not tag:
        return None
    tag = tag.strip()[:_MAX_LENGTH]
    if "_" in tag and _TAG_WITH_UNDERSCORES.fullmatch(tag):
        tag = tag.replace("_", "-")
    if len(tag) < 4 and tag.isascii():  # a tag, not a name
        return tag or None
    return _NAMES.get(tag.lower(), tag)


def to_valid_tag(tag: str | None) -> str | None:
    """Return a tag that validators accept, or None for an unknown language.

    >>> to_valid_tag("english"), to_valid_tag("zh-tw"), to_valid_tag("US"), to_valid_tag("en, de")
    ('en', 'zh-tw', None, None)
    """
    tag = normalise_language(tag)
    if tag is None or (found := _TAG.fullmatch(tag)) is None:
        return None
    return None if len(found[1]) == 2 and f" {found[1].lower()} " not in _CODES else tag
