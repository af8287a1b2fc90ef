"""Declares endpoints: handlers whose signature states parameters, body and response.

    @feeds.patch("/feeds/{id}", scope="write")
    async def change_feed(call: ApiCall, parameters: IdParameters, body: FeedChange) -> FeedView:
        '''Change a feed's title, weight, tags or address, or pause it.'''

`parameters` are those in path and query, `body` is that of the request, and the return type is the response; each is a
msgspec struct. The same types parse requests (`parameters`), encode responses and become the OpenAPI description
(`openapi`), so the description cannot differ from the code. The first line of the docstring is the summary.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self, get_type_hints

import msgspec
from starlette.requests import Request

from headwater.node.aggregator import Aggregator
from headwater.store.content.feeds import find_feed
from headwater.store.maintenance.trash_entries import Remover
from headwater.store.readers.accounts import User
from headwater.store.readers.subscriptions import require_subscription
from headwater.store.store import Store
from headwater.web.auth.authentication import Forbidden, Identity, NotSignedIn, require_identity
from headwater.web.auth.cross_site import RequestRefused
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
