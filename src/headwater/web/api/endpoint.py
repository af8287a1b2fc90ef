"""Declares endpoints: handlers whose signature states parameters, body and response.

    @feeds.patch("/feeds/{id}", scope="write")
    async def change_feed(call: ApiCall, parameters: IdParameters, body: FeedChange) -> FeedView:
        '''Change a feed's title, weight, tags or address, or pause it.'''

`parameters` are those in path and query, `body` is that of the request, and the return type is the response; each is a
msgspec struct. The same types parse requests, encode responses and become the OpenAPI description
(`openapi`), so the description cannot differ from the code. The first line of the docstring is the summary.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self, get_type_hints

import msgspec
from msgspec import inspect as kinds
from starlette.requests import Request

from headwater.errors import InputError
from headwater.node.aggregator import Aggregator
from headwater.store.content.feeds import find_feed
from headwater.store.maintenance.trash_entries import Remover
from headwater.store.readers.accounts import User
from headwater.store.readers.subscriptions import require_subscription
from headwater.store.store import Store
from headwater.web.auth.authentication import Forbidden, Identity, NotSignedIn, require_identity
from headwater.web.auth.cross_site import RequestRefused
from headwater.web.request_body import read_body
from headwater.web.site import Site

READ, WRITE, ADMIN = "read", "write", "admin"
OPML = "text/x-opml"


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of a request: fields named in the path are path parameters, the others query parameters."""


class RequestBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request."""


class ResponseBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a response. Its fields are a contract, so it is declared apart from the row that it shows."""

    @classmethod
    def from_row(cls, row: object, **others: Any) -> Self:
        """Make the body from the row's attributes of the same names; `others` are the fields that differ."""
        names = [name for name in cls.__struct_fields__ if name not in others]
        return cls(**{name: getattr(row, name) for name in names}, **others)


class RawBody(msgspec.Struct, frozen=True):
    """A request or response body that is not JSON."""

    body: bytes
    type: str = OPML


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One authenticated request, and the services that a handler needs."""

    site: Site
    request: Request
    who: Identity
    now: float

    @property
    def user(self) -> User:
        return self.who.user

    @property
    def store(self) -> Store:
        return self.site.store

    @property
    def aggregator(self) -> Aggregator:
        return self.site.aggregator

    @property
    def remover(self) -> Remover:
        """The caller, as the user who removes something and may restore it."""
        return Remover(self.user.id, self.now)


Handler = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint: method, path, scope, and the types of its handler's signature."""

    method: str
    path: str
    scope: str
    noun: str
    handler: Handler
    status: int
    parameters: type[Parameters] | None
    body: Any
    answer: Any

    @property
    def name(self) -> str:
        return self.handler.__name__

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.handler) or "").partition("\n")[0]

    @property
    def description(self) -> str:
        return (inspect.getdoc(self.handler) or "").partition("\n")[2].strip()

    @property
    def path_names(self) -> set[str]:
        return {part[1:-1] for part in self.path.split("/") if part.startswith("{")}


@dataclass(slots=True)
class EndpointGroup:
    """A group of endpoints, with the sentence that introduces it in the documentation."""

    name: str
    about: str
    endpoints: list[Endpoint] = field(default_factory=list)

    def get(self, path: str, scope: str = READ) -> Callable[[Handler], Handler]:
        return self._declare("GET", path, scope, 200)

    def post(self, path: str, scope: str = WRITE, status: int = 200) -> Callable[[Handler], Handler]:
        return self._declare("POST", path, scope, status)

    def put(self, path: str, scope: str = WRITE) -> Callable[[Handler], Handler]:
        return self._declare("PUT", path, scope, 200)

    def patch(self, path: str, scope: str = WRITE) -> Callable[[Handler], Handler]:
        return self._declare("PATCH", path, scope, 200)

    def delete(self, path: str, scope: str = WRITE) -> Callable[[Handler], Handler]:
        return self._declare("DELETE", path, scope, 204)

    def _declare(self, method: str, path: str, scope: str, status: int) -> Callable[[Handler], Handler]:
        def register(handler: Handler) -> Handler:
            hints = get_type_hints(handler, include_extras=True)
            answer = hints["return"]
            nothing = answer is type(None)
            self.endpoints.append(
                Endpoint(
                    method,
                    path,
                    scope,
                    self.name,
                    handler,
                    204 if nothing else 200 if status == 204 else status,
                    hints.get("parameters"),
                    hints.get("body"),
                    None if nothing else answer,
                )
            )
            return handler

        return register


async def require_scope(request: Request, scope: str) -> Identity:
    """Return the caller's identity. Raise RequestRefused (401 or 403) if the scope is missing."""
    try:
        return await require_identity(request, scope)
    except NotSignedIn as error:
        raise RequestRefused(str(error), 401) from error
    except Forbidden as error:
        raise RequestRefused(str(error), 403) from error


def require_owner(call: ApiCall, does: str) -> None:
    """Raise RequestRefused (403) unless an owner calls, for endpoints that only partly need an owner."""
    if not call.user.is_owner:
        raise RequestRefused(f"Only an owner {does}.", 403)


async def require_visible_feed(call: ApiCall, feed_id: int) -> None:
    """Raise NotFound for a feed that the caller may not see, in the same words as for one that does not exist."""
    if call.user.is_owner:
        await call.store.read(find_feed, feed_id)
    else:
        await call.store.read(require_subscription, call.user.id, feed_id)


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
