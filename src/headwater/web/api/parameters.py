"""Parses the parameters and bodies of API requests into their declared types."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect as kinds
from starlette.requests import Request

from headwater.errors import InputError
from headwater.web.api.endpoint import OPML, Endpoint, Parameters, RawBody
from headwater.web.auth.cross_site import RequestRefused
from headwater.web.request_body import read_body

MAX_BODY_BYTES = 20_000_000  # an OPML list of 36,515 feeds has 8 MB, a script in JSON up to 13
_AT = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in )?\$\.?(?P<at>[^`]*)`)?$", re.DOTALL)
_PLACE = re.compile(r"\[[^\]]*\]")
_NAMED = re.compile(r"field `([^`]*)`")
_EXPECTED = re.compile(
    r"Expected `(?P<kind>[^`]+)`(?:, got `(?P<got>[^`]+)`"
    r"|(?P<length> of length)? (?P<bound>[<>]=?) (?P<limit>[-+.e0-9]+))?"
)
_KINDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?([eE][-+]?[0-9]{1,2})?")


def read_parameters(endpoint: Endpoint, request: Request) -> Any:
    """Return the parameters in path and query. Raise InputError for unknown, repeated or invalid ones."""
    assert endpoint.parameters is not None
    given: dict[str, Any] = {}
    known = _parameter_fields(endpoint.parameters)
    for name, text in [*request.path_params.items(), *request.query_params.multi_items()]:
        if name not in known:
            raise InputError(f"Unknown parameter “{name[:100]}”. Use {', '.join(known)}.", name[:100])
        if name in given:
            raise InputError(f"The parameter {name} is repeated. Send it once.", name)
        given[name] = _convert_parameter(text, known[name], name)
    return _decode_body(lambda: msgspec.convert(given, endpoint.parameters))


@cache
def _parameter_fields(parameters: type[Parameters]) -> dict[str, kinds.Type]:
    return {field.encode_name: field.type for field in kinds.type_info(parameters).fields}  # type: ignore[attr-defined]


def _convert_parameter(text: str, kind: kinds.Type, name: str) -> Any:
    """Return the text as a value of its type. msgspec's own conversion accepts more than the description says."""
    if isinstance(kind, kinds.UnionType):
        kind = next(one for one in kind.types if not isinstance(one, kinds.NoneType))
    if isinstance(kind, kinds.Metadata):
        kind = kind.type
    if isinstance(kind, kinds.BoolType):
        if text not in ("true", "false"):
            raise InputError(f"{name} must be true or false.", name)
        return text == "true"
    if isinstance(kind, kinds.IntType):
        if not _WHOLE.fullmatch(text):
            raise InputError(f"{name} must be a whole number.", name)
        return int(text)
    if isinstance(kind, kinds.FloatType):
        if not _NUMBER.fullmatch(text):
            raise InputError(f"{name} must be a number.", name)
        return float(text)
    return text


async def read_request_body(endpoint: Endpoint, request: Request) -> Any:
    """Return the body as a value of its type. Nothing is read beyond the size limit."""
    raw_wanted = endpoint.body is RawBody
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not raw_wanted and media_type != "application/json":
        raise RequestRefused("The body must be JSON. Send it with Content-Type: application/json.", 415)
    raw = await read_body(request, MAX_BODY_BYTES, f"The body is larger than {MAX_BODY_BYTES // 1_000_000} MB.")
    if raw_wanted:
        return RawBody(raw, media_type or OPML)
    return _decode_body(lambda: msgspec.json.decode(raw, type=endpoint.body))


def _decode_body(read: Any) -> Any:
    try:
        return read()
    except msgspec.ValidationError as error:
        raise _explain_validation_error(str(error)) from error
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InputError(f"The body is not valid JSON: {error}.") from error
    except RecursionError as error:
        raise InputError("The body is nested too deeply.") from error


def _explain_validation_error(message: str) -> InputError:
    """Return msgspec's message as a sentence, with the field it is about.

    >>> str(_explain_validation_error("Expected `int | null`, got `str` - at `$.weight`"))
    'weight must be a whole number or null, not a text.'
    >>> str(_explain_validation_error("Expected `str` of length >= 1 - at `$.tag`"))
    'tag must have a length of at least 1.'
    >>> _explain_validation_error("… - at `$.tags[...]`").field
    'tags'
    >>> _explain_validation_error("Object missing required field `url`").field
    'url'
    """
    found = _AT.match(message)
    assert found is not None
    what, at = found["what"], _PLACE.sub("", found["at"] or "")
    expected, named = _EXPECTED.fullmatch(what), _NAMED.search(what)
    name = ".".join(part for part in (at, named[1] if named else "") if part)
    what = what.replace("`", "").rstrip(".")
    if expected is not None:
        sentence = f"{name or 'The body'} must {_describe_expected(expected)}"
    else:
        sentence = what if named or not name else f"{name}: {what[:1].lower()}{what[1:]}"
    return InputError(f"{sentence}.", name)


def _describe_expected(expected: re.Match[str]) -> str:
    kind, got = (
        " or ".join(_KINDS.get(one, one) for one in (expected[part] or "").split(" | ")) for part in ("kind", "got")
    )
    if expected["bound"] is None:
        return f"be {kind}, not {got}" if got else f"be {kind}"
    bound = f"{_BOUNDS[expected['bound']]} {float(expected['limit']):.15g}"
    return f"have a length of {bound}" if expected["length"] else f"be {kind} of {bound}"
