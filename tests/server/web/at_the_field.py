"""What a page must show where a form was wrong."""

from __future__ import annotations

import re

FIELD = r'<(?:input|select|textarea) [^>]*name="{name}"[^>]*>'


def said_at(page: str, at: str, /, **kept: str) -> str:
    """The one sentence of a page about what is wrong, which must stand at the field `at` and be tied to it; the fields
    in `kept` must hold what was typed, and no password may be in the page."""
    name = "scope-read" if at == "scopes" else at
    [shown] = re.findall(FIELD.format(name=name), page)
    assert f'aria-invalid="true" aria-describedby="{at}-wrong" autofocus' in shown, shown
    after = page.partition(shown)[2]
    told = re.match(rf'(?s).{{0,900}}?<p class="note problem" id="{at}-wrong" role="alert">([^<]+)</p>', after)
    assert told, after[:1000]
    assert page.count("aria-invalid") == 1 or at == "text"
    assert page.count('role="alert"') == 1
    for field, value in kept.items():
        [found] = re.findall(FIELD.format(name=field), page)
        assert f'value="{value}"' in found or f"<option selected>{value}</option>" in page, (field, found)
    assert not re.search(r'<input [^>]*type="password"[^>]*value=', page)
    return told[1]
