"""A sentence that tells what was just done, above a page, or what is wrong with a field, at that field.

What was done travels in the address and survives a reload.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse

_NUMBERS = re.compile("[0-9]{1,18}(,[0-9]{1,18}){0,99}")


@dataclass(frozen=True, slots=True)
class FlashMessage:
    """Something to say above the page, or at a field (`at`); the fields of the form keep what was `typed`. `undo` are
    the numbers, with commas between, of removals that a button beside it takes back."""

    text: str
    problem: bool = False
    at: str = ""
    undo: str = ""
    typed: Mapping[str, str] = field(default_factory=dict)


def make_field_error(error: Exception, form: Mapping[str, str], at: str = "") -> FlashMessage:
    """What is wrong with a form, at the field that the error names, else at `at`."""
    return FlashMessage(str(error), problem=True, at=getattr(error, "field", "") or at, typed=form)


def read_flash(request: Request, sentences: dict[str, str]) -> FlashMessage | None:
    """The note that `?said=KEY` asks for: only sentences of ours, or strangers could put theirs into our pages."""
    text = sentences.get(request.query_params.get("said", ""))
    undo = request.query_params.get("undo", "")
    return FlashMessage(text, undo=undo if _NUMBERS.fullmatch(undo) else "") if text else None


def redirect_with_flash(to: str, **query: object) -> RedirectResponse:
    """After a form: to the page that shows what became of it; what is None is left out."""
    told = {name: value for name, value in query.items() if value is not None}
    return RedirectResponse(f"{to}?{urlencode(told, safe=',')}" if told else to, 303)
