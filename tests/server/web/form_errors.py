"""Checks how a page shows an invalid form."""

from __future__ import annotations

import re

FIELD = r'<(?:input|select|textarea) [^>]*name="{name}"[^>]*>'


def read_field_error(page: str, at: str, /, **kept: str) -> str:
    """Return a page's only error message, which must stand at the field `at` and be linked to it.

    The fields in `kept` must hold the submitted values, and the page must not contain a password.
    """
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
