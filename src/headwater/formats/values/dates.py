"""Parses the dates of feeds into UTC epoch seconds.

There are three steps, the cheapest first: the RFC 822 form of nearly every RSS feed, ISO 8601 as Python reads it, then
word by word with the tables of `calendar_words`. A date that does not exist (31 June, 25 o'clock) or contains an
unknown word is rejected: a wrong date does more harm than none. Dates without a year would need a clock and are
rejected, too.

>>> parse_date("Thu, 01 Jan 1970 00:01:00 GMT")
60.0
>>> parse_date("1970-01-01T01:01:00+01:00")
60.0
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from headwater.formats.memo import Memo
from headwater.formats.values.calendar_words import (
    AFTERNOON,
    FILLERS,
    LONG_ZONES,
    MONTHS,
    MORNING,
    PLACES,
    WEEKDAYS,
    ZONES,
)

_EPOCH = date(1970, 1, 1).toordinal()
_DAY = 86400.0
_MONTHS = {name.capitalize(): f"{number:02}" for name, number in MONTHS.items() if len(name) == 3 and name.isascii()}
_MONTH_NAMES = {number: name for name, number in _MONTHS.items() if name.isascii()}
_MONTH_SIGN = re.compile(r"(\d{1,2}) ?[月월]")  # without a year before it: `02 1月 2006`
_UTC_NAMES = frozenset({"GMT", "+0000", "UTC", "Z", "-0000"})
_MAX_LENGTH = 120  # no date is longer

# Letters between numbers that are replaced by separators before the words are parsed.
_CJK = str.maketrans({
    "年": "-", "년": "-", "月": "-", "월": "-", "日": " ", "일": " ", "時": ":", "时": ":", "시": ":",
    "分": ":", "분": ":", "秒": " ", "초": " ", "：": ":", "，": " ", "\u00a0": " ", "\u202f": " ", "−": "-", "–": "-",
})  # fmt: skip

# ISO 8601 forms that Python does not read. Two-digit years are of this century, as in the standard.
ISO_FORMS = (
    ("YYYY-MM", re.compile(r"(?P<year>\d{4})-(?P<month>\d\d)")),
    ("YYYY-DDD, YYYYDDD", re.compile(r"(?P<year>\d{4})-?(?P<ordinal>[0-3]\d\d)")),
    ("YYYY", re.compile(r"(?P<year>\d{4})")),
    ("YYYY-0MM-DD", re.compile(r"(?P<year>\d{4})-0(?P<month>\d\d)-(?P<day>\d\d)")),
    ("YYYYMMDD", re.compile(r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)")),
    ("YY-MM-DD, YYMMDD", re.compile(r"(?P<year>\d\d)(?P<dash>-?)(?P<month>[01]\d)(?P=dash)(?P<day>[0-3]\d)")),
    ("YY-DDD, YYDDD", re.compile(r"(?P<year>\d\d)-?(?P<ordinal>[0-3]\d\d)")),
    ("-YY-MM, -YYMM", re.compile(r"-(?P<year>\d\d)-?(?P<month>[01]\d)")),
    ("-YY", re.compile(r"-(?P<year>\d\d)")),
)

_TIME = re.compile(r"(\d{1,2})[:.h](\d{1,2})(?:[:.](\d{1,2})(?:[.,](\d+))?)?(.*)")
_OFFSET = re.compile(r"(?:gmt|utc)?([+-])(\d{1,2})(?::?(\d\d))?")
_HOURS = re.compile(r"([+-])([01][0-9]|2[0-3])([0-5][0-9])")
_NUMBERS = re.compile(r"\d+")
_COMPACT = re.compile(r"((?:19|20)\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)?")
_FRACTION = re.compile(r"\d{10}\.\d{1,9}")
_DAY_FIRST = re.compile(r"(?<!\d)\d{1,2}\. ?\d{1,2}\. ?\d{4}")  # with points, the day comes first
_TIME_WITH_POINTS = re.compile(
    r"(?:(?<=\d{4} )|(?<=-\d\d ))(\d{1,2})\.(\d\d)(?:\.(\d\d))?(?![.\d])"
)  # 10.14.55 for 10:14:55
_SPACES_WITHIN_TIME = re.compile(
    r"(?<=\d)\s*T\s*(?=\d)|\s+(?=:\d)|(?<=\d:)\s+(?=\d)"
)  # spaces around the separators of a time
_OFFSET_AND_Z = re.compile(r"([+-]\d\d:?\d\d)Z")  # both an offset and Z
_COMMENT = re.compile(r"\([^()]*\)")  # RFC 822 §3.4.3
_YEAR_TWO = -62_104_000_000.0  # the year 1 is the zero value of .NET and Go


def parse_date(text: str | None) -> float | None:
    """Parse a date in any of the documented forms into UTC epoch seconds, or None."""
    if not text:
        return None
    text = text.strip()
    if text[3:5] == ", " and 26 < len(text) < 33:
        usual = text if text[6] != " " else f"{text[:5]}0{text[5:]}"
        try:  # `Thu, 01 Jan 2004 19:48:21 GMT`, every part in its place
            return _DAYS[usual[5:17]] + _CLOCK[usual[17:22]] + _SECONDS[usual[22:25]] - _ZONES[usual[25:]]
        except KeyError:
            pass
    when = _parse_uncommon(text)
    return when if when is None or when > _YEAR_TWO else None


def _parse_uncommon(text: str) -> float | None:
    if text[4:5] == "-":
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if len(text) > _MAX_LENGTH:
        return None
    try:
        when = _parse_tolerantly(text)
    except (ValueError, OverflowError):
        when = None
    if when is None and "(" in text and (without_comments := _COMMENT.sub("", text)) != text:
        return parse_date(without_comments)
    return when


def _parse_day(text: str) -> float:
    """Return the start of a day written as `01 Jan 2004 `."""
    try:
        day = datetime.fromisoformat(f"{text[7:11]}-{_MONTHS[text[3:6]]}-{text[:2]}T00:00:00+00:00").timestamp()
    except ValueError:
        raise KeyError(text) from None
    if text[11] != " " or day <= _YEAR_TWO:
        raise KeyError(text)
    return day


def _parse_zone_seconds(text: str) -> float:
    """Return the seconds by which a zone is ahead of UTC: ` GMT`, ` +0100`, ` EST`."""
    if text[0] != " ":
        raise KeyError(text)
    name = text[1:]
    if name in _UTC_NAMES:
        return 0.0
    if name[0] not in "+-":
        return ZONES[name.lower()] * 60.0
    found = _HOURS.fullmatch(name)
    if found is None:
        raise KeyError(text)
    return float(f"{found[1]}1") * (int(found[2]) * 3600 + int(found[3]) * 60)


_DAYS = Memo(_parse_day, max_size=4_096)
_ZONES = Memo(_parse_zone_seconds, max_size=512)
_CLOCK = {f"{hour:02}:{minute:02}": hour * 3600 + minute * 60 for hour in range(24) for minute in range(60)}
_SECONDS = {f":{second:02}": second for second in range(60)}


def _parse_tolerantly(text: str) -> float | None:
    if text.isdigit() and len(text) in (10, 13):  # seconds or milliseconds since 1970, or YYYYMMDDHH
        return float(text) if len(text) == 10 else float(text) / 1000.0
    if _FRACTION.fullmatch(text):
        return float(text)
    if found := _COMPACT.fullmatch(text):
        year, month, day, hours, minutes, seconds = found.groups("00")
        text = f"{year}-{month}-{day}T{hours}:{minutes}:{seconds}"
    text = _SPACES_WITHIN_TIME.sub(lambda found: found[0].strip(), text)
    if text[-1:] == "Z":
        text = _OFFSET_AND_Z.sub(r"\1", text)
    if text[-1:] == "]":
        text = text.partition("[")[0]  # a place behind the offset (RFC 9557)
    if text[:1].isdigit() or text[:1] == "-":
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        when = _parse_iso_forms(text)
        if when is not None:
            return when
    home = 0
    if not text.isascii():
        if "年" not in text and "년" not in text:
            text = _MONTH_SIGN.sub(lambda found: f" {_MONTH_NAMES.get(found[1].zfill(2), '')} ", text)
        if any("\uac00" <= char <= "\ud7a3" for char in text):
            home = ZONES["kst"]
        text = text.translate(_CJK)
    return _parse_words(_abbreviate_zones(text.lower()), home)


def _parse_iso_forms(text: str) -> float | None:
    """Parse the forms of ISO_FORMS, alone or followed by a time."""
    head, _, clock = text.partition("T")
    for _name, form in ISO_FORMS:
        found = form.fullmatch(head)
        if found is None:
            continue
        parts = found.groupdict()
        year = int(parts["year"])
        if len(parts["year"]) == 2:
            year += 2000
        if parts.get("ordinal"):
            ordinal = int(parts["ordinal"])
            day = date(year, 1, 1).toordinal() + ordinal - 1
            if ordinal < 1 or date.fromordinal(day).year != year:
                continue
        else:
            month = int(parts.get("month") or 1)
            if not 1 <= month <= 12:
                continue
            day = date(year, month, int(parts.get("day") or 1)).toordinal()
        seconds = _parse_time_of_day(clock, None) if clock else 0.0
        return None if seconds is None else (day - _EPOCH) * _DAY + seconds
    return None


def _parse_time_of_day(word: str, noon: bool | None) -> float | None:
    """Return the seconds since midnight UTC of `19:48:21.5+02:00`, or None. `noon` is True for p.m."""
    found = _TIME.fullmatch(word.strip())
    if found is None:
        return None
    hours, minutes, seconds = int(found[1]), int(found[2]), int(found[3] or 0)
    rest = found[5].strip()
    if rest in ("am", "a.m.", "pm", "p.m."):
        noon, rest = rest[0] == "p", ""
    if noon is not None and hours <= 12:
        hours = hours % 12 + (12 if noon else 0)
    if (hours, minutes, seconds) == (24, 0, 0):
        pass  # ISO 8601 allows the end of the day
    elif hours == 24 and minutes <= 59 and seconds <= 60:
        hours = 0  # Java's `kk` counts from 1 to 24: the first hour of that day
    elif hours > 23 or minutes > 59 or seconds > 60:
        return None
    offset = _parse_zone_minutes(rest) if rest else 0
    if offset is None:
        return None
    fraction = float(f"0.{found[4]}") if found[4] else 0.0
    return hours * 3600 + minutes * 60 + min(seconds, 59) + fraction - offset * 60


def _parse_zone_minutes(word: str) -> int | None:
    """Return the minutes by which a zone is ahead of UTC, or None."""
    word = word.strip("()[]").removeprefix("etc/")
    if word in ZONES:
        return ZONES[word]
    found = _OFFSET.fullmatch(word)
    if found is None:
        return None
    minutes = int(found[2]) * 60 + int(found[3] or 0)
    return None if minutes >= 1440 else (-minutes if found[1] == "-" else minutes)


def _parse_words(text: str, home: int) -> float | None:
    """Sort the words of a date into weekday, month, numbers, time and zone; None when one fits nowhere.

    `home` is the zone, in minutes, of a date that names none: dates in Hangul are Korean.
    """
    text = _separate_time(text)
    if ":" not in text:
        text = _TIME_WITH_POINTS.sub(lambda found: ":".join(filter(None, found.groups())), text)
    month: int | None = None
    numbers: list[str] = []
    clock: str | None = None
    noon: bool | None = None
    offset: int | None = None
    place: str | None = None
    for word in _split_words(text):
        if word in WEEKDAYS and not (word in MONTHS and month is None):
            continue
        if word in MONTHS:  # `January, 29 Jan 2021` names it twice
            month = MONTHS[word]
        elif word in MORNING or word in AFTERNOON:
            noon = word in AFTERNOON
        elif clock is None and word[0].isdigit() and _TIME.fullmatch(word) and (":" in word or "h" in word):
            clock = word
        elif clock is not None and (zone := _parse_zone_minutes(word)) is not None:
            offset = zone if offset is None else offset
        elif clock is not None and ("/" in word or word in PLACES):
            place = word
        elif clock is not None and word == "0000":
            offset = 0
        elif _NUMBERS.fullmatch(word):
            numbers.append(word)
        elif clock is None and word in FILLERS:
            continue
        elif clock is None or word[0] in "+-" or not word.isalpha():
            return None
        # else: an unknown word after the time names a zone or place; it counts as UTC
    if month is None and len(numbers) == 3:
        numbers, month = _order_numbers(numbers, _DAY_FIRST.search(text) is not None)
    if month is None or len(numbers) != 2:
        return None
    day, year = (numbers[1], numbers[0]) if len(numbers[0]) == 4 else numbers
    seconds = 0.0 if clock is None else _parse_time_of_day(clock, noon)
    if seconds is None:
        return None
    when = date(_expand_year(year), month, int(day))
    days = when.toordinal() - _EPOCH
    if place is not None and offset is None:
        offset = _find_place_offset(place, datetime(when.year, when.month, when.day) + timedelta(seconds=seconds))
    return days * _DAY + seconds - (home if offset is None else offset) * 60


def _find_place_offset(place: str, local: datetime) -> int:
    """Return the minutes by which a place was ahead of UTC at a local time; 0 for an unknown place."""
    name = PLACES.get(place) or "/".join(
        "_".join(word.capitalize() for word in part.split("_")) for part in place.split("/")
    )
    try:
        ahead = ZoneInfo(name).utcoffset(local)
    except (KeyError, ValueError, OSError):
        return 0
    return int(ahead.total_seconds()) // 60 if ahead is not None else 0


def _abbreviate_zones(text: str) -> str:
    """Replace `eastern standard time` by `est`."""
    if text.endswith(" time"):
        for name, short in LONG_ZONES.items():
            if text.endswith(name):
                return text.removesuffix(name) + short
    return text


def _separate_time(text: str) -> str:
    """Separate date and time of `2004-07-08t23:56`; names that contain a t stay whole."""
    where = text.find("t", 6)
    if where > 0 and text[where - 1].isdigit() and text[where + 1 : where + 2].isdigit():
        return f"{text[:where]} {text[where + 1 :]}"
    return text


def _split_words(text: str) -> list[str]:
    """Split into words and dates at `-`, `/` and `.`; times and offsets stay whole."""
    words: list[str] = []
    for raw in text.replace(",", " ").replace(";", " ").split():
        word = raw.strip("()")
        if not word:
            continue
        if word in MONTHS or word in WEEKDAYS or word in ZONES or word in MORNING or word in AFTERNOON:
            words.append(word)
        elif "/" in word and word[0].isalpha() and not any(map(str.isdigit, word)):
            words.append(word)  # Europe/Berlin
        elif ":" in word and word[0].isdigit():
            cut = max(word.find("+"), word.find("-"))
            words += [word[:cut], word[cut:]] if cut > 0 else [word.rstrip(":")]
        elif word[0] in "+-" or ":" in word or word.startswith(("gmt", "utc", "etc/")):
            words.append(word)
        else:
            words += [part for part in re.split(r"[-/.]", word) if part]
    return [_strip_ordinal_suffix(word) for word in words]


def _strip_ordinal_suffix(word: str) -> str:
    """Return `1` for `1st`; other words stay as they are."""
    return word[:-2] if word[:-2].isdigit() and word[-2:] in ("st", "nd", "rd", "th") else word


def _order_numbers(numbers: list[str], day_first: bool) -> tuple[list[str], int | None]:
    """Return [day, year] and the month of three numbers. If both orders are possible, the month comes first unless
    `day_first` is set."""
    first, second, third = numbers
    if len(first) == 4:
        return [third, first], int(second)
    if int(first) > 12 or (day_first and int(second) <= 12):
        return [first, third], int(second)
    return [second, third], int(first)


def _expand_year(year: str) -> int:
    number = int(year)
    if len(year) <= 2:  # RFC 2822 §4.3, but with 1990 as the first year
        number += 2000 if number < 90 else 1900
    return number
