"""Rewrites media of published HTML before it is cleaned: players become links, lazy pictures get their address.

Only start tags are rewritten, and the cleaner decides about the result like about anything else.
"""

from __future__ import annotations

import re
from functools import cached_property
from html import escape
from itertools import islice
from urllib.parse import parse_qs, urlsplit

from headwater.formats.values.text import decode_references

# Media, and elements that HTML does not let end in their start tag: a parser would take the text behind it for their
# content. Most tags are others; to pass them first, as they are usually written, takes a third of the time.
_MEDIA = re.compile(
    r"<(?!/?(?:p|a|br|li|b|i|em|strong|div|span|code|h[1-6]|ul|ol|td|tr)[\s/>])(?i:"
    r"(/?)(img|iframe|embed|object|noscript|source|picture|svg|amp-(?:img|anim|iframe)|(?:amp|lite)-(?:youtube|vimeo))"
    r"\b([^<>]*)>"
    r"|(?:script|style|title|textarea|template)(?:\s[^<>]*)?/>)"
)
_SVG_END = re.compile(r"</(?:svg|SVG)>")
_SVG_TAG = re.compile(r"<(/?)(?:svg:)?([a-zA-Z]+)([^<>]*)>")
_ATTRIBUTE = re.compile(r"""([a-zA-Z][\w:-]{0,40})\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""")
_IFRAME = re.compile(r"<(?:iframe[\s>]|(/)iframe\s*>)", re.IGNORECASE)
_OBJECT_END = re.compile(r"<(?:/object|(embed|iframe))\b", re.IGNORECASE)
_PARAM = re.compile(r"<param\s([^<>]*)>", re.IGNORECASE)
_SIDE_IN_STYLE = re.compile(r"(?:^|[;\s])(?:width|height)\s*:\s*(\d{1,5})(?:px)?(?=\s*(?:;|$|!))", re.IGNORECASE)
_PICTURES = frozenset({"amp-img", "amp-anim"})  # elements that scripts turn into pictures or players
_PLAYERS = {"youtube": "https://www.youtube.com/embed/", "vimeo": "https://player.vimeo.com/video/"}
_NOSCRIPT_END = re.compile(r"</noscript", re.IGNORECASE)
_LINK = re.compile(r"<a\s[^<>]{0,200}href", re.IGNORECASE)
_LAZY = ("data-src", "data-lazy-src", "data-original", "data-lazy", "data-orig-src", "data-actualsrc", "data-url")
_LAZY_SETS = ("data-srcset", "data-lazy-srcset", "srcset")
# Addresses are compared in small letters: a search that ignores case takes four times as long.
_PLACEHOLDER = re.compile(
    r"(?:blank|placeholder|spacer|transparent|loading|lazy|1x1|grey|pixel)[\w.-]{0,20}\.(?:gif|png|svg)"
)
_DRAWING = re.compile(r"\.(?:gif|svg)(?:[?#]|$)", re.IGNORECASE)
_TRACKER = re.compile(
    r"(?:https?:)?//(?:feeds\.feedburner\.com/~[rf4]/|[\w.-]{0,60}doubleclick\.net/|pixel\.wp\.com/|stats\.wordpress\.com/"
    r"|feeds\.wordpress\.com/1\.0/|[\w.-]{0,60}google-analytics\.com/|[\w.-]{0,60}googletagmanager\.com/"
    r"|[\w.-]{0,60}scorecardresearch\.com/|[\w.-]{0,60}feedsportal\.com/|medium\.com/_/stat)"
)
_COUNTING_FILE = re.compile(r"/(?:(?:piwik|matomo)\.php|(?:pixel|tracking|count|beacon)\.gif)")
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_TINY = frozenset({"0", "1"})  # pixels
_MAX_PARAMETERS = 12  # of an object
_MAX_PLAYERS = 500  # of a text
_WIDEST = 1600  # pixels: a larger picture of a set is not needed


def rewrite_media(text: str) -> str:
    """Return HTML in which players are links, lazy pictures are pictures and tracking pixels are gone.

    >>> rewrite_media('<iframe src="https://player.vimeo.com/video/7" title="Talk"></iframe>')
    '<p><a href="https://vimeo.com/7">Talk</a></p>'
    >>> rewrite_media('<img src="data:," data-src="/a.png"> <img src="/t.gif" width=1 height=1>')
    '<img src="/a.png" src="data:," data-src="/a.png"> '
    """
    first = _MEDIA.search(text)
    return text if first is None else _MediaRewriter(text).rewrite(first.start())


class _MediaRewriter:
    """Goes through the tags of a text once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._shown: set[str] = set()  # addresses of pictures and links of players written so far
        self._players = 0
        self._source: str | None = None  # the best address of the `source` elements of an open picture
        self._in_noscript = False
        self._is_noscript_shown = False  # its text, too

    @cached_property
    def _last_svg_end(self) -> int:
        return max(map(self._text.rfind, ("</svg>", "</SVG>"))) + len("</svg>")

    @cached_property
    def _last_noscript_end(self) -> int:
        return max(map(self._text.rfind, ("</noscript", "</NOSCRIPT")))

    def rewrite(self, start: int) -> str:
        """Return the text with its media rewritten, the first of which begins at `start`."""
        parts: list[str] = []
        done = 0
        for found in _MEDIA.finditer(self._text, start):
            if found.start() < done:
                continue
            if not self._in_noscript or self._is_noscript_shown:
                parts.append(self._text[done : found.start()])
            done = found.end()
            if found[2] is None:
                continue
            closing, tag = bool(found[1]), found[2].lower()
            if tag == "noscript":
                if closing or not self._in_noscript:  # each is searched for its end once
                    self._in_noscript = not closing and done <= self._last_noscript_end
                    self._is_noscript_shown = self._in_noscript and self._has_link(done)
            elif tag == "picture":
                self._source = None
                parts.append("" if self._in_noscript else found[0])
            elif closing:
                continue
            elif tag == "object":  # its tag goes: a paragraph would nest in a paragraph through it
                parts.append("" if self._has_player(done) else self._link_player(self._read_object(found[3], done)))
            elif tag in ("iframe", "embed", "amp-iframe"):
                parts.append(self._link_player(_read_attributes(found[3])))
                done = self._skip_content(tag, found)
            elif tag == "svg":
                end = None if found[3].endswith("/") else _SVG_END.search(self._text, done, self._last_svg_end)
                if end is not None:
                    hidden = self._in_noscript and not self._is_noscript_shown
                    parts.append("" if hidden else _describe_drawing(self._text[done : end.start()]))
                    done = end.end()
            elif tag == "source":
                sources = _read_attributes(found[3])
                self._source = self._source or _choose_from_set(sources.get("srcset") or sources.get("data-srcset"))
                parts.append("" if self._in_noscript else found[0])
            elif (player := _PLAYERS.get(tag.partition("-")[2])) is not None:
                attributes = _read_attributes(found[3])
                if key := attributes.get("videoid") or attributes.get("data-videoid"):
                    parts.append(self._link_player({**attributes, "src": player + key}))
            else:
                written = f"<img{found[3]}>" if tag in _PICTURES else found[0]
                parts.append(self._rewrite_picture(written, _read_attributes(found[3])))
        parts.append("" if self._in_noscript else self._text[done:])
        return "".join(parts)

    def _has_link(self, start: int) -> bool:
        """Say whether a `noscript` has a link, as to a poll; most others only ask for scripts."""
        end = _NOSCRIPT_END.search(self._text, start)
        return end is not None and _LINK.search(self._text, start, end.start()) is not None

    def _has_player(self, start: int) -> bool:
        """Say whether an `object` holds another element for its player, for browsers that do not know it."""
        found = _OBJECT_END.search(self._text, start, start + 4_000)
        return found is not None and found[1] is not None

    def _read_object(self, attributes: str, start: int) -> dict[str, str]:
        """Return the attributes of an `object`; its address may stand in a parameter."""
        found = _read_attributes(attributes)
        end = _OBJECT_END.search(self._text, start, start + 4_000)
        if not found.get("data") and end is not None:
            parameters = islice(_PARAM.finditer(self._text, start, end.start()), _MAX_PARAMETERS)
            given = [_read_attributes(one[1]) for one in parameters]
            addresses = {one.get("name", "").lower(): one.get("value", "") for one in given}
            found["data"] = next((addresses[name] for name in ("movie", "src", "url") if addresses.get(name)), "about:")
        return found

    def _skip_content(self, tag: str, start: re.Match[str]) -> int:
        """Return the end of an element's content, which only shows where the element is unknown."""
        if tag != "iframe" or start[3].endswith("/"):
            return start.end()
        end = _IFRAME.search(self._text, start.end(), start.end() + 1_000)
        return end.end() if end is not None and end[1] else start.end()

    def _link_player(self, attributes: dict[str, str]) -> str:
        """Return the link of a player; inside `noscript` only if the one that a script would load is not written."""
        self._players += 1
        link = _link_player(attributes) if self._players <= _MAX_PLAYERS else ""
        if self._in_noscript and link in self._shown:
            return ""
        self._shown.add(link)
        return link

    def _rewrite_picture(self, tag: str, attributes: dict[str, str]) -> str:
        """Return the tag of a picture with its real address, or nothing for a pixel that only tracks readers.

        A picture inside `noscript` is written if the one that a script would load is not.
        """
        written = attributes.get("src", "")
        lazy = next((attributes[name] for name in _LAZY if attributes.get(name)), None)
        address = None if not written or _is_placeholder(written, lazy) else written
        chosen = address if address and not (lazy and self._in_noscript) else None
        chosen = chosen or lazy or _choose_from_sets(attributes) or self._source or address
        if chosen is None:
            is_empty = not written and not attributes.get("alt")
            return "" if is_empty or written[:5].lower() == "data:" or self._in_noscript else tag
        if _is_tracker(chosen, attributes) or (self._in_noscript and chosen in self._shown):
            return ""
        self._shown.add(chosen)
        return tag if chosen == written else f'<img src="{escape(chosen)}"{tag[4:]}'


def _describe_drawing(content: str) -> str:
    """Return the texts and links of a drawing, which the cleaner would remove with it.

    >>> _describe_drawing("<title>Rivers</title><style>a{}</style><a xlink:href='/rhine'><text>Rhine</text></a>")
    ' Rivers <a href="/rhine"> Rhine </a> '
    """
    parts: list[str] = []
    done = 0
    for found in _SVG_TAG.finditer(content):
        if found.start() < done:
            continue
        parts.append(content[done : found.start()])
        done, name = found.end(), found[2].lower()
        if name in ("style", "script") and not found[1] and not found[3].endswith("/"):
            end = content.find(f"</{found[2]}", done)
            done = len(content) if end < 0 else end
        elif name != "a":
            parts.append(" ")
        elif found[1]:
            parts.append("</a>")
        else:
            attributes = _read_attributes(found[3])
            parts.append(f'<a href="{escape(attributes.get("xlink:href") or attributes.get("href", ""))}">')
    words = " ".join("".join((*parts, content[done:])).split())
    return f" {words} " if words else ""


def _read_attributes(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in _ATTRIBUTE.findall(text[:20_000]):
        value = value.strip("\"'")
        if "&" in value or not value.isprintable():
            value = decode_references(value)
        found.setdefault(name.lower(), value.strip())
    return found


def _is_placeholder(address: str, lazy: str | None) -> bool:
    """Say whether a script replaces this picture: by its name, or a drawing before a photo that is loaded later."""
    is_drawing = lazy is not None and bool(_DRAWING.search(address)) and not _DRAWING.search(lazy)
    return is_drawing or _is_named_placeholder(address)


def _is_named_placeholder(address: str) -> bool:
    address = address.lower()
    return address.startswith(("data:", "about:blank")) or _PLACEHOLDER.search(address) is not None


def _choose_from_sets(attributes: dict[str, str]) -> str | None:
    return next((best for name in _LAZY_SETS if (best := _choose_from_set(attributes.get(name)))), None)


def _choose_from_set(value: str | None) -> str | None:
    """Return the largest picture of a srcset that is at most 1,600 pixels wide, else the smallest.

    >>> _choose_from_set("/s.jpg 400w, /m.jpg 1200w, /l.jpg 4000w"), _choose_from_set("/a.jpg, /b.jpg 2x")
    ('/m.jpg', '/b.jpg')
    """
    sized: list[tuple[float, str]] = []
    for candidate in re.split(r",\s+", (value or "")[:20_000]):
        address, _, size = candidate.strip().strip(",").partition(" ")
        number = size.strip().rstrip("wx")
        if address and not _is_named_placeholder(address):
            sized.append((float(number) if number.replace(".", "", 1).isdecimal() else 1.0, address))
    fitting = [one for one in sized if one[0] <= _WIDEST]
    return max(fitting)[1] if fitting else min(sized)[1] if sized else None


def _is_tracker(address: str, attributes: dict[str, str]) -> bool:
    """Say whether a picture is a tracking pixel: at most one pixel large, hidden, or of a known counter."""
    style = attributes.get("style")
    sides = [attributes[name].rstrip("px;/ ") for name in ("width", "height") if name in attributes]
    sides += _SIDE_IN_STYLE.findall(style) if style else ()
    if sides and _TINY.issuperset(sides):
        return True
    address = address.lower()
    is_counter = _TRACKER.match(address) is not None or _COUNTING_FILE.search(address) is not None
    return is_counter or (style is not None and _HIDDEN.search(style) is not None)


def _link_player(attributes: dict[str, str]) -> str:
    """Return a link to what an embedded page shows, with its title and thumbnail if they are known."""
    names = ("src", "data", "data-src", "data-lazy-src", "data-litespeed-src", "data-cmp-src")
    address = next((attributes[name] for name in names if attributes.get(name, "about:")[:6] != "about:"), None)
    if address is None or address.startswith(("data:", "javascript:")) or _is_tracker(address, attributes):
        return ""
    page, name, thumbnail = _find_page(address)
    title = attributes.get("title") or name
    picture = f'<img src="{escape(thumbnail)}" alt=""> ' if thumbnail else ""
    return f'<p><a href="{escape(page)}">{picture}{escape(title, quote=False)}</a></p>'


def _find_page(address: str) -> tuple[str, str, str | None]:
    """Return page, name and thumbnail of a player: of a known one, else its own address and host."""
    try:
        parts = urlsplit(address if "://" in address[:10] else f"https:{address}" if address[:2] == "//" else address)
        host = (parts.hostname or "").removeprefix("www.")
    except ValueError:
        return address, "Embedded page", None
    path = [part for part in parts.path.split("/") if part]
    key = path[-1] if path else ""
    if host in ("youtube.com", "youtube-nocookie.com") and path[:1] in (["embed"], ["v"]) and len(path) == 2:
        if key == "videoseries" and (lists := parse_qs(parts.query).get("list")):
            return f"https://www.youtube.com/playlist?list={lists[0]}", "YouTube playlist", None
        return f"https://www.youtube.com/watch?v={key}", "YouTube video", f"https://i.ytimg.com/vi/{key}/hqdefault.jpg"
    if host == "player.vimeo.com" and path[:1] == ["video"] and len(path) > 1:
        return f"https://vimeo.com/{path[1]}", "Vimeo video", None
    if host in ("dailymotion.com", "geo.dailymotion.com") and path[:2] == ["embed", "video"]:
        page = f"https://www.dailymotion.com/video/{key}"
        return page, "Dailymotion video", f"https://www.dailymotion.com/thumbnail/video/{key}"
    if host == "open.spotify.com" and path[:1] == ["embed"]:
        return f"https://open.spotify.com/{'/'.join(path[1:])}", "Spotify", None
    if host == "w.soundcloud.com" and (tracks := parse_qs(parts.query).get("url")):
        return tracks[0], "SoundCloud", None
    if host == "archive.org" and path[:1] == ["embed"]:
        return f"https://archive.org/details/{'/'.join(path[1:])}", "Internet Archive", None
    if host == "embed.podcasts.apple.com":
        return parts._replace(netloc="podcasts.apple.com", scheme="https").geturl(), "Apple Podcasts", None
    if path[:2] == ["videos", "embed"]:  # PeerTube
        return parts._replace(path=f"/videos/watch/{key}", query="").geturl(), f"Video on {host}", None
    return address, f"Embedded page: {host}" if host else "Embedded page", None
