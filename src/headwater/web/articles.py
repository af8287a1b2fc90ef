"""An item's text as a page may show it: cleaned once more, pictures through our own address and only when looked at.

What the store holds is safe since it was read; cleaning again here means that a mistake there, or a database written by
somebody else, still cannot put a script into a page.
"""

from __future__ import annotations

from collections.abc import Callable

import nh3
from markupsafe import Markup

from headwater.formats.html import get_nh3_cleaner
from headwater.web.frame import followable_link

_TAGS = nh3.ALLOWED_TAGS - {"img", "map", "area"} | {"address", "figcaption", "figure", "section", "tfoot"}
_ATTRIBUTES = {
    "*": {"dir", "lang", "title"},
    "a": {"href"},
    "img": {"src", "alt", "width", "height"},
    "ol": {"start"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan", "scope"},
    "time": {"datetime"},
}
_FIXED = {"img": {"loading": "lazy", "decoding": "async", "referrerpolicy": "no-referrer"}}


def clean_for_page(content: str | None, picture: Callable[[str], str | None]) -> Markup:
    """Safe HTML. `picture` gives our own address for a picture's, None if it is not to be shown."""
    if not content:
        return Markup("")

    def allowed(tag: str, name: str, value: str) -> str | None:
        if (tag, name) == ("img", "src"):
            return picture(value) if followable_link(value) else None
        if (tag, name) == ("a", "href"):
            return followable_link(value)
        if name in ("width", "height"):
            return value if value.isdecimal() and len(value) <= 4 else None
        return value

    safe = get_nh3_cleaner(None).clean(content)
    return Markup(
        nh3.clean(
            safe,
            tags=_TAGS | {"img"},
            attributes=_ATTRIBUTES,
            attribute_filter=allowed,
            set_tag_attribute_values=_FIXED,
            link_rel="noopener noreferrer",
            url_schemes={"http", "https"},
            url_relative="pass_through",
        )
    )
