"""The JSON API as a part of the application: who may do what, answers, errors, the description and its page."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from headwater.errors import HeadwaterError, Held, InputError, NotFound, QueryError, StoreError
from headwater.web.api import (
    deliveries,
    discovering,
    feeds,
    items,
    jobs,
    people,
    published,
    quality,
    queries,
    refreshes,
    removals,
    scheduler,
    search,
    settings,
    subscriptions,
)
from headwater.web.api.access import admitted
from headwater.web.api.endpoint import Call, Document, Endpoint, Noun
from headwater.web.api.openapi import PREFIX, Error, Problem, describe, details
from headwater.web.api.reading import body, parameters
from headwater.web.forms import Refused
from headwater.web.frame import Frame

NOUNS: tuple[Noun, ...] = (
    feeds.noun,
    refreshes.noun,
    subscriptions.noun,
    items.noun,
    search.noun,
    discovering.noun,
    queries.noun,
    quality.noun,
    scheduler.noun,
    deliveries.noun,
    published.noun,
    people.noun,
    removals.noun,
    settings.noun,
    jobs.noun,
)

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]
log = structlog.get_logger()
_encode = msgspec.json.Encoder().encode


def api(frame: Frame) -> Mount:
    """The routes under /api. They answer for wrong addresses and methods themselves, in JSON."""

    @cache
    def description() -> bytes:
        return _encode(describe(NOUNS, frame.base))

    async def openapi(request: Request) -> Response:
        return Response(description(), media_type="application/json")

    async def page(request: Request) -> Response:
        return frame.page(request, "api.html", nouns=NOUNS, prefix=PREFIX)

    async def nothing(request: Request) -> Response:
        return nothing_here()

    v1 = PREFIX.removeprefix("/api")
    return Mount(
        "/api",
        routes=[
            Route("/", page),
            Route("/openapi.json", openapi),
            *(Route(v1 + path, _methods(frame, found), methods=METHODS) for path, found in _by_path().items()),
            Route("/{path:path}", nothing, methods=METHODS),
        ],
    )


def _by_path() -> dict[str, dict[str, Endpoint]]:
    paths: dict[str, dict[str, Endpoint]] = {}
    for noun in NOUNS:
        for endpoint in noun.endpoints:
            paths.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    # A word in a path wins over a parameter: /items/counts is not the item “counts”.
    return dict(sorted(paths.items(), key=lambda one: [part.startswith("{") for part in one[0].split("/")]))


def _methods(frame: Frame, endpoints: dict[str, Endpoint]) -> Any:
    async def answer(request: Request) -> Response:
        endpoint = endpoints.get("GET" if request.method == "HEAD" else request.method)
        if endpoint is None:
            allowed = ", ".join(sorted(endpoints))
            said = f"{request.method} is not for this address; it takes {allowed}."
            return _problem(405, Problem(message=said), {"Allow": allowed})
        try:
            return await _answer(frame, endpoint, request)
        except HeadwaterError as error:
            return refusal(error)
        except Exception:
            log.exception("api_failed", endpoint=endpoint.name)
            return _problem(500, Problem(message="Something went wrong here. The server's log says more."))

    return answer


async def _answer(frame: Frame, endpoint: Endpoint, request: Request) -> Response:
    who = await admitted(request, endpoint.scope)
    given: dict[str, Any] = {}
    if endpoint.asked is not None:
        given["asked"] = parameters(endpoint, request)
    elif request.query_params:
        raise InputError(f"There is no parameter “{next(iter(request.query_params))[:100]}” here; there is none.")
    if endpoint.given is not None:
        given["given"] = await body(endpoint, request)
    result = await endpoint.handler(Call(frame, request, who, frame.clock()), **given)
    if isinstance(result, Document):
        return Response(result.body, endpoint.status, media_type=result.type)
    if endpoint.answer is None:
        return Response(status_code=endpoint.status)
    return Response(_encode(result), endpoint.status, media_type="application/json")


def nothing_here() -> Response:
    """For an address under /api that is none; routes do not see those with a line break in them."""
    return _problem(404, Problem(message="There is nothing at this address; /api lists all there is."))


def refusal(error: HeadwaterError) -> Response:
    """An error raised on purpose, as an answer."""
    message, field = str(error), getattr(error, "field", None) or None
    if isinstance(error, Refused):
        more = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
        return _problem(error.status, Problem(message=message), more)
    if isinstance(error, NotFound):
        return _problem(404, Problem(message=message))
    if isinstance(error, Held):
        wait = max(1, round(error.until - time.time()))
        return _problem(409, Problem(message=message), {"Retry-After": str(wait)})
    if isinstance(error, QueryError):
        return _problem(400, Problem(message=_script(error), field="text", details=details(error.messages)))
    if isinstance(error, InputError):
        return _problem(400, Problem(message=message, field=field))
    if not isinstance(error, StoreError):
        log.error("api_failed", error=repr(error))
    return _problem(503, Problem(message=message))


def _script(error: QueryError) -> str:
    """The first mistake of a script as a sentence; all of them are in the details."""
    told = [one for one in details(error.messages) if not one.warning]
    if not told:
        return str(error)
    more = f" ({len(told) - 1} more below)" if len(told) > 1 else ""
    return f"The script has a mistake in line {told[0].line}, column {told[0].column}: {told[0].message}{more}."


def _problem(status: int, problem: Problem, headers: dict[str, str] | None = None) -> Response:
    return Response(_encode(Error(error=problem)), status, headers, media_type="application/json")
