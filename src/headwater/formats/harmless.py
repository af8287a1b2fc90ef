"""Markup so plain that it need not be parsed to be made safe: one pass writes what nh3 would write, or gives up.

Most HTML in feeds is of a few dozen elements, nested as they should be, its links complete. For such, `Plain.cleaned`
writes the same bytes as nh3 in a fraction of the time. Whatever it is not sure of (elements that overlap, a host that
may be none, an attribute without quotes) is None, and nh3's business. That both agree is tested, not hoped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Set
from html.entities import html5
from typing import Final

from headwater.formats.joining import HOST, PLACE, as_cleaned, joined, marked
from headwater.formats.remembered import Remembered

_HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_PHRASING: Final = frozenset({
    "a", "abbr", "acronym", "audio", "b", "bdi", "big", "br", "cite", "code", "del", "dfn", "em", "font", "i", "img",
    "ins", "kbd", "mark", "q", "s", "samp", "small", "source", "span", "strike", "strong", "sub", "sup", "time",
    "track", "tt", "u", "var", "video", "wbr",
})  # fmt: skip
# Elements that HTML opens anew where they end too early. Others of phrasing end with what is around them.
_FORMATTING: Final = frozenset({
    "a", "b", "big", "code", "em", "font", "i", "s", "small", "strike", "strong", "tt", "u",
})  # fmt: skip
_UNFORMATTED: Final = _PHRASING - _FORMATTING
_FLOW: Final = _PHRASING | _HEADINGS | {
    "address", "article", "aside", "blockquote", "center", "details", "div", "dl", "figcaption", "figure", "footer",
    "header", "hr", "main", "nav", "ol", "p", "pre", "section", "summary", "table", "ul",
}  # fmt: skip
_AT_ROOT: Final = _FLOW | {"li"}
# What may stand in an element without HTML's parser moving or closing anything. Phrasing elements are not listed:
# what may stand in them is what may stand around them.
_INSIDE: Final[dict[str, frozenset[str]]] = {
    **dict.fromkeys(_FLOW - _PHRASING, _FLOW),
    **dict.fromkeys(("p", "pre"), _PHRASING),
    **dict.fromkeys(_HEADINGS, _FLOW - _HEADINGS),
    **dict.fromkeys(("ul", "ol"), frozenset({"li"})),
    "dl": frozenset({"dt", "dd"}),
    "table": frozenset({"thead", "tbody", "tfoot"}),
    **dict.fromkeys(("thead", "tbody", "tfoot"), frozenset({"tr"})),
    "tr": frozenset({"td", "th"}),
    **dict.fromkeys(("li", "dt", "dd", "td", "th"), _FLOW),
}
_OF_TABLES: Final = frozenset({"table", "thead", "tbody", "tfoot", "tr"})  # HTML moves what else stands in them
_ENDS_IMPLIED: Final = frozenset({"p", "li", "dt", "dd", "thead", "tbody", "tfoot", "tr", "td", "th"})
_VOIDS: Final = frozenset({"br", "hr", "img", "source", "track", "wbr"})
_HIDDEN_NAMES: Final = frozenset({"style", "script", "title", "iframe"})  # left out, and what is in them is no markup
_WRAPPERS: Final = frozenset({"html", "head", "body"})  # in a piece of a page their tags are nothing
_NAMES: Final = _PHRASING | frozenset(_INSIDE)
# All elements that HTML's parser knows by name, most of which it treats in some way of their own.
_OF_HTML: Final = _NAMES | _HIDDEN_NAMES | frozenset({
    "annotation-xml", "applet", "area", "audio", "base", "basefont", "bdo", "bgsound", "body", "button", "canvas",
    "caption", "col", "colgroup", "command", "data", "datalist", "dialog", "dir", "embed", "fieldset", "foreignobject",
    "form", "frame", "frameset", "head", "hgroup", "html", "image", "input", "isindex", "keygen", "label", "legend",
    "link", "listing", "map", "marquee", "math", "menu", "menuitem", "meta", "meter", "multicol", "nextid", "nobr",
    "noembed", "noframes", "noscript", "object", "optgroup", "option", "output", "param", "picture", "plaintext",
    "portal", "progress", "rb", "rp", "rt", "rtc", "ruby", "search", "select", "selectedcontent", "slot", "source",
    "spacer", "svg", "template", "textarea", "tfoot", "title", "track", "video", "xmp",
})  # fmt: skip
_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_ADDRESSES: Final = frozenset({"href", "src", "cite", "poster"})
_DEEPEST: Final = 100
_MANY: Final = 8_192  # tags remembered

_LONG: Final = 20_000  # characters: from here on regular expressions that repeat a group would take megabytes

# Groups are not repeated possessively (`)*+`): Python before 3.11.5 then takes what matched half for matched.
# Elements without attributes one after another, none within another: a quarter of all that comes, and nh3 writes it
# just as it is.
_FLAT_TEXT: Final = r"[^<>&\x00\x01\r\xa0]*+"
_FLAT: Final = re.compile(
    rf"(?!\ufeff){_FLAT_TEXT}(?:<(?:(p|div|h[1-6]|blockquote|b|i|em|strong|code)>{_FLAT_TEXT}</\1>|br>){_FLAT_TEXT})*"
)
# Values in quotes only: then a tag ends where it seems to.
_ATTRIBUTE: Final = re.compile(r"""[ \t\n]+([A-Za-z][A-Za-z0-9:_-]*+)(?:="([^"]*+)"|='([^']*+)')?""")
_TAG: Final = re.compile(
    r"""([A-Za-z][A-Za-z0-9]*+)((?:[ \t\n]++[A-Za-z][A-Za-z0-9:_-]*+(?:="[^"]*+"|='[^']*+')?)*)\s*(/?)"""
)
_NAME_ENDS: Final = re.compile(r"[ \t\n\f/]")
_UNKNOWN_NAME: Final = re.compile(r"[a-z][a-z0-9:_.-]*+")
_COMMENT: Final = re.compile(r"!--(?!-)(?:[^-]|-(?!-))*--")
_LINK: Final = re.compile(rf'a (href="https?://{HOST}(?:[/?#][!#-%\'-~]*+)?")(?: style="[^"]*+")?')
_LINK_FROM_ROOT: Final = re.compile(r'a href="(/(?!/)[A-Za-z0-9_~/-]*+(?:\.[a-z]{2,5})?)"')
_REFERENCE: Final = re.compile(r"&(?:#[0-9]{2,6};|#[xX][0-9a-fA-F]{2,5};|#|[A-Za-z0-9]+;?)?")
_CHANGING: Final = re.compile("&(?!amp;|lt;|gt;|nbsp;)")  # references that nh3 writes otherwise
_UNENDED: Final = tuple(name for name in html5 if name[-1] != ";")  # references that need no semicolon
_ESCAPED: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})

# Kinds of what stands between angle brackets.
_START: Final = 0
_END: Final = 1
_VOID: Final = 2
_HIDDEN: Final = 3
_TEXT: Final = 4
_UNKNOWN: Final = 5
_NOTHING: Final = 6
Tag = tuple[int, str, str, frozenset[str] | None, str]  # kind, name, as nh3 writes it, what may stand inside, its end
State = tuple[frozenset[str], bool, str]  # what is allowed, whether in a link, the end of the innermost element open
# The elements open: name, tag as written, and the state before and after. Flat, since one is made for every tag.
Around = list[tuple[str, str, frozenset[str], bool, str]]


class Unsure(LookupError):
    """It takes a parser of HTML to know what this is."""


class Plain:
    """Recognises harmless markup, given the attributes that each element may keep (`*`: all elements) and nh3."""

    def __init__(self, attributes: Mapping[str, Set[str]], clean: Callable[[str], str]) -> None:
        self._tags = _Tags({name: attributes["*"] | attributes.get(name, set()) for name in _NAMES}, clean)

    def cleaned(self, html: str, base: str | None) -> str | None:
        """The markup as nh3 writes it, its addresses joined to the base; None when it takes nh3 to know."""
        if len(html) < _LONG and _FLAT.fullmatch(html):
            return html
        if PLACE in html or "\0" in html or html[:1] == "\ufeff":
            return None
        if "\r" in html:
            html = html.replace("\r\n", "\n").replace("\r", "\n")
        try:
            found = "".join(self._pieces(html))
        except Unsure:
            return None
        if "\u00a0" in found:  # looked for in a fifth of the time that replacing takes to find none
            found = found.replace("\u00a0", "&nbsp;")
        return joined(found, base) if PLACE in found else found

    def _pieces(self, html: str, odd: bool = False) -> list[str]:
        """Tags and texts as nh3 writes them; the latter are looked into when there is something `odd` in one."""
        tags = self._tags
        start, *parts = html.split("<")
        odd = odd or html.count(">") > len(parts) or ("&" in html and _CHANGING.search(html) is not None)
        written = [_prose(start)]
        around: Around = []
        allowed, linked, ending = _AT_ROOT, False, ">"  # which no tag is
        tables = False
        unknown: list[tuple[str, int]] = []  # elements of no name that HTML knows, and how many were open around them
        following = iter(parts)
        for part in following:
            raw, bracket, text = part.partition(">")
            if raw == ending and bracket:  # the end of the innermost element, as nearly half of all tags are
                _, _, allowed, linked, ending = around.pop()
                if not tables and (not odd or ("&" not in text and ">" not in text)):
                    written.append("<")
                    written.append(part)
                    continue
                tag = f"<{raw}>"
            else:
                kind, name, tag, inside, its_end = tags[raw]
                if not bracket and kind != _TEXT:
                    raise Unsure
                if kind == _START:
                    if name not in allowed:
                        allowed, linked, ending = _made_way(name, around, written)
                    around.append((name, tag, allowed, linked, ending))
                    ending = its_end
                    if inside is not None:
                        allowed = inside
                        if name == "pre" and text[:1] == "\n":
                            raise Unsure  # HTML leaves out this line end
                        tables = tables or name == "table"
                    elif name == "a":
                        if linked:
                            raise Unsure  # links do not nest
                        linked = True
                elif kind == _VOID:
                    if name not in allowed:
                        allowed, linked, ending = _made_way(name, around, written)
                elif kind == _END:
                    if not _within(name, around):
                        tag = _stray(name, around)
                    elif name in _FORMATTING and around[-1][0] != name:
                        inner, again, (allowed, linked, ending) = _overlapping(name, around)
                        tag = f"</{inner}></{name}>"
                        if text:  # HTML opens the inner one anew for what is left of it
                            tag += again
                            around.append((inner, again, allowed, linked, ending))
                            linked, ending = linked or inner == "a", f"/{inner}"
                        else:
                            text = _after(inner, next(following, ""))
                    else:
                        allowed, linked, ending = _closed(name, around, written)
                elif kind == _HIDDEN:
                    if text and name == "iframe":
                        raise Unsure
                    text = _after(name, next(following, ""))
                elif kind == _TEXT:
                    if not odd:
                        return self._pieces(html, odd=True)
                    if around and around[-1][0] in _OF_TABLES:
                        raise Unsure  # HTML moves it
                    tag, text = "&lt;", part
                elif kind == _UNKNOWN:
                    if around and around[-1][0] in _OF_TABLES:
                        raise Unsure
                    if name[:1] == "/":
                        # With nothing left open in it, an element that is left out ends without a trace.
                        if not unknown or unknown.pop() != (name[1:], len(around)):
                            raise Unsure
                    elif name:
                        unknown.append((name, len(around)))
            if tables and text and around and around[-1][0] in _OF_TABLES and text.strip(" \t\n"):
                raise Unsure
            written.append(tag)
            written.append(_prose(text) if odd and ("&" in text or ">" in text) else text)
        written += [f"</{name}>" for name, *_ in reversed(around)]
        return written


class _Tags(Remembered[str, Tag]):
    """What stands between angle brackets → its kind, its name, and how nh3 writes it. Most recur."""

    def __init__(self, kept: Mapping[str, Set[str]], clean: Callable[[str], str]) -> None:
        super().__init__(self._tag, most=_MANY)
        self._kept = kept
        self._clean = clean

    def forget(self) -> None:
        """First the links, each of which is another: they would push out what recurs."""
        others = {raw: tag for raw, tag in self.items() if raw[:2] != "a "}
        self.clear()
        if len(others) < _MANY // 2:
            self.update(others)

    def _tag(self, raw: str) -> Tag:
        if link := _LINK.fullmatch(raw):  # by far the most
            return _START, "a", f'<a {link[1]} rel="noopener noreferrer">', None, "/a"
        if link := _LINK_FROM_ROOT.fullmatch(raw):
            return _START, "a", f'<a href="{PLACE}{link[1]}" rel="noopener noreferrer">', None, "/a"
        return self._end(raw) if raw[:1] == "/" else self._start(raw)

    def _end(self, raw: str) -> Tag:
        name = raw[1:].lower()
        if name == "br":
            return _VOID, name, "<br>", None, ""  # as browsers have it
        if name in _WRAPPERS:
            return _UNKNOWN, "", "", None, ""
        if _UNKNOWN_NAME.fullmatch(name) and self._leaves_out(name):
            return _UNKNOWN, f"/{name}", "", None, ""
        if name not in self._kept or name in _VOIDS - {"img"}:
            raise Unsure
        return _END, name, f"</{name}>", None, ""

    def _start(self, raw: str) -> Tag:
        if raw[:1] == "!" and _COMMENT.fullmatch(raw):
            return _NOTHING, "", "", None, ""
        if raw[:1] in ("!", "?"):
            raise Unsure
        if raw[:1] not in _LETTERS:
            return _TEXT, "", "", None, ""  # an angle bracket that opens nothing
        if '"' not in raw and "'" not in raw:
            name = _NAME_ENDS.split(raw, 1)[0].lower()
            if self._leaves_out(name):
                return _UNKNOWN, name, "", None, ""  # for HTML it ends with what is around it, if not before
        found = _TAG.fullmatch(raw) if len(raw) < _LONG else None
        if found is None:
            raise Unsure
        name = found[1].lower()
        if self._leaves_out(name):
            return _UNKNOWN, name, "", None, ""
        void = name in _VOIDS
        if name in _HIDDEN_NAMES and not found[3]:
            return _HIDDEN, name, "", None, ""
        if name == "link":
            return _NOTHING, "", "", None, ""
        if name in _WRAPPERS and not found[3]:
            return _UNKNOWN, "", "", None, ""
        if name not in self._kept or (found[3] and not void):
            raise Unsure
        attributes = self._attributes(found[2], self._kept[name]) if found[2] else ""
        if name == "a":
            attributes += ' rel="noopener noreferrer"'
        return _VOID if void else _START, name, f"<{name}{attributes}>", _INSIDE.get(name), f"/{name}"

    def _leaves_out(self, name: str) -> bool:
        """Whether nh3 leaves out tags of this name and no more; of MathML and SVG it leaves out the content."""
        return name not in _OF_HTML and self._clean(f"<{name}>x") == "x"

    def _attributes(self, text: str, kept: Set[str]) -> str:
        written: dict[str, str] = {}
        for name, double, single in _ATTRIBUTE.findall(text):
            name, value = name.lower(), double or single
            if name in kept:
                if name in written:
                    raise Unsure
                if name in _ADDRESSES:
                    address = marked(value)
                    if name == "cite" and address != value:
                        raise Unsure  # of some elements nh3 takes it for an address and of others not
                    if address is None:
                        address = as_cleaned(value, "'" if single else '"', self._clean)
                        if address is None:
                            raise Unsure
                        written[name] = address
                        continue
                    value = address
                written[name] = _prose(value).replace('"', "&quot;") if "&" in value or single else value
        return "".join([f' {name}="{value}"' for name, value in written.items() if value or name not in _ADDRESSES])


def _within(name: str, around: Around) -> bool:
    if len(around) > _DEEPEST:  # looking through all of them, each time, is how hostile markup would stall us
        raise Unsure
    return any(one[0] == name for one in around)


def _made_way(name: str, around: Around, written: list[str]) -> State:
    """The state after what HTML takes as read before this element: the end of a paragraph or of an item."""
    while around:
        opened, tag, allowed, linked, ending = around.pop()
        if name == "tr" and opened == "table":
            around += [(opened, tag, allowed, linked, ending), ("tbody", "<tbody>", _INSIDE["table"], linked, "/table")]
            written.append("<tbody>")
            return _INSIDE["tbody"], linked, "/tbody"
        written.append(f"</{opened}>")
        if opened not in _UNFORMATTED:
            if name in allowed and ((opened == "p" and name in _FLOW) or opened == name == "li"):
                return allowed, linked, ending
            break
    raise Unsure


def _closed(name: str, around: Around, written: list[str]) -> State:
    """The state once this element is closed, and before it those within whose end HTML takes as read."""
    while around[-1][0] != name:
        opened = around.pop()[0]
        if name in _PHRASING or (opened not in _ENDS_IMPLIED and opened not in _UNFORMATTED):
            raise Unsure
        written.append(f"</{opened}>")
    return around.pop()[2:]


def _overlapping(name: str, around: Around) -> tuple[str, str, State]:
    """The inner of two elements that overlap as in `<b><i></b></i>`, its tag, and the state once both are closed."""
    inner, tag, *_ = around.pop()
    outer = around.pop()
    if outer[0] != name or inner not in _FORMATTING:
        raise Unsure
    return inner, tag, outer[2:]


def _stray(name: str, around: Around) -> str:
    """What an end tag without its start leaves: nothing, but for paragraphs."""
    if name in _HEADINGS and any(one[0] in _HEADINGS for one in around):
        raise Unsure  # any heading's end closes any heading
    if name != "p":
        return ""
    if around and around[-1][0] in _OF_TABLES:
        raise Unsure
    return "<p></p>"


def _after(name: str, following: str) -> str:
    """The text after the end of an element, which must come next."""
    end, bracket, text = following.partition(">")
    if end != f"/{name}" or not bracket:
        raise Unsure
    return text


def _reference(raw: str) -> str:
    """A character reference, or a lonely ampersand and the letters after it, as nh3 writes it."""
    name = raw[1:]
    if name[:1] == "#":
        number = name[1:-1]
        if not number:
            raise Unsure
        code = int(number[1:], 16) if number[:1] in "xX" else int(number)
        if not (0x20 <= code < 0x7F or 0xA0 <= code < 0xD800 or 0xE000 <= code < 0xFDD0 or 0x1F000 <= code < 0x1FB00):
            raise Unsure
        return chr(code).translate(_ESCAPED)
    if name[-1:] == ";" and name in html5:
        return html5[name].translate(_ESCAPED)
    if name.startswith(_UNENDED):
        raise Unsure
    return f"&amp;{name}"


_REFERENCES: Final = Remembered(_reference, most=_MANY)


def _prose(text: str) -> str:
    """Text with its references resolved, and written as nh3 writes it."""
    if ">" in text:
        text = text.replace(">", "&gt;")
    return _REFERENCE.sub(_written, text) if "&" in text else text


def _written(found: re.Match[str]) -> str:
    return _REFERENCES[found[0]]
