"""Routes API requests to endpoints and turns results and errors into JSON responses."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from headwater.errors import BudgetExhausted, HeadwaterError, InputError, NotFound, QueryError, RefreshHeld, StoreError
from headwater.store.queries.query_ownership import LimitReached, NotYours
from headwater.web.api import (
    account_endpoints,
    feed_endpoints,
    item_endpoints,
    publication_endpoints,
    quality_endpoints,
    query_endpoints,
    refresh_endpoints,
    server_endpoints,
    subscription_endpoints,
)
from headwater.web.api.endpoint import (
    READ,
    ApiCall,
    Endpoint,
    EndpointGroup,
    RawBody,
    read_parameters,
    read_request_body,
    require_scope,
)
from headwater.web.api.openapi import PREFIX, ErrorBody, ErrorResponse, describe_api, script_messages
from headwater.web.auth.authentication import Forbidden, require_identity
from headwater.web.auth.cross_site import RequestRefused
from headwater.web.shared.failure_advice import report_store_error
from headwater.web.site import Site

GROUPS: tuple[EndpointGroup, ...] = (
    feed_endpoints.feed_group,
    refresh_endpoints.refresh_group,
    subscription_endpoints.subscription_group,
    item_endpoints.item_group,
    item_endpoints.search_group,
    feed_endpoints.discovery_group,
    query_endpoints.query_group,
    quality_endpoints.quality_group,
    quality_endpoints.scheduler_group,
    publication_endpoints.delivery_group,
    publication_endpoints.publication_group,
    account_endpoints.account_group,
    server_endpoints.removal_group,
    server_endpoints.settings_group,
    server_endpoints.job_group,
)

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]
log = structlog.get_logger()
_encode_json = msgspec.json.Encoder().encode


def build_api(site: Site) -> Mount:
    """Return the routes under /api, which answer unknown paths and methods in JSON too."""

    @cache
    def description() -> bytes:
        return _encode_json(describe_api(GROUPS, site.base_url))

    async def openapi(request: Request) -> Response:
        return Response(description(), media_type="application/json")

    async def page(request: Request) -> Response:
        await require_identity(request, READ)
        return site.render_page(request, "api_page.html", nouns=GROUPS, prefix=PREFIX)

    async def nothing(request: Request) -> Response:
        return answer_unknown_path()

    v1 = PREFIX.removeprefix("/api")
    return Mount(
        "/api",
        routes=[
            Route("/", page),
            Route("/openapi.json", openapi),
            *(
                Route(v1 + path, _answer_by_method(site, found), methods=METHODS)
                for path, found in _group_by_path().items()
            ),
            Route("/{path:path}", nothing, methods=METHODS),
        ],
    )


def _group_by_path() -> dict[str, dict[str, Endpoint]]:
    paths: dict[str, dict[str, Endpoint]] = {}
    for noun in GROUPS:
        for endpoint in noun.endpoints:
            paths.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    # Fixed parts of a path come before parameters: /items/counts is not the item “counts”.
    return dict(sorted(paths.items(), key=lambda one: [part.startswith("{") for part in one[0].split("/")]))


def _answer_by_method(site: Site, endpoints: dict[str, Endpoint]) -> Any:
    async def answer(request: Request) -> Response:
        endpoint = endpoints.get("GET" if request.method == "HEAD" else request.method)
        if endpoint is None:
            allowed = ", ".join(sorted(endpoints))
            message = f"{request.method} is not allowed here. Use {allowed}."
            return _error_response(405, ErrorBody(message=message), {"Allow": allowed})
        try:
            return await _call_endpoint(site, endpoint, request)
        except HeadwaterError as error:
            return answer_error(error)
        except Exception:
            log.exception("api_failed", endpoint=endpoint.name)
            return _error_response(500, ErrorBody(message="Internal error. The server's log has the details."))

    return answer


async def _call_endpoint(site: Site, endpoint: Endpoint, request: Request) -> Response:
    who = await require_scope(request, endpoint.scope)
    arguments: dict[str, Any] = {}
    if endpoint.parameters is not None:
        arguments["parameters"] = read_parameters(endpoint, request)
    elif request.query_params:
        name = next(iter(request.query_params))[:100]
        raise InputError(f"Unknown parameter “{name}”: this endpoint has no parameters.")
    if endpoint.body is not None:
        arguments["body"] = await read_request_body(endpoint, request)
    result = await endpoint.handler(ApiCall(site, request, who, site.clock()), **arguments)
    if isinstance(result, RawBody):
        return Response(result.body, endpoint.status, media_type=result.type)
    if endpoint.answer is None:
        return Response(status_code=endpoint.status)
    return Response(_encode_json(result), endpoint.status, media_type="application/json")


def answer_unknown_path() -> Response:
    """Return the 404 for an unknown path under /api; Starlette does not route paths with a line break."""
    return _error_response(404, ErrorBody(message="Unknown path. /api lists all endpoints."))


def answer_error(error: HeadwaterError) -> Response:
    """Return the response for an error of Headwater."""
    message, field = str(error), getattr(error, "field", None) or None
    if isinstance(error, RequestRefused):
        more = {"WWW-Authenticate": "Bearer"} if error.status == 401 else dict(error.headers)
        return _error_response(error.status, ErrorBody(message=message), more)
    if isinstance(error, NotFound):
        return _error_response(404, ErrorBody(message=message))
    if isinstance(error, RefreshHeld):
        wait = max(1, round(error.until - time.time()))
        return _error_response(409, ErrorBody(message=message), {"Retry-After": str(wait)})
    if isinstance(error, BudgetExhausted):
        return _error_response(503, ErrorBody(message=message), {"Retry-After": f"{error.seconds:.0f}"})
    if isinstance(error, QueryError):
        return _error_response(
            400, ErrorBody(message=_answer_script_error(error), field="text", details=script_messages(error.messages))
        )
    if isinstance(error, Forbidden | NotYours | LimitReached):
        return _error_response(403, ErrorBody(message=message, field=field))
    if isinstance(error, InputError):
        return _error_response(400, ErrorBody(message=message, field=field))
    if isinstance(error, StoreError):
        return _error_response(503, ErrorBody(message=report_store_error(error)))
    log.error("api_failed", error=repr(error))
    return _error_response(503, ErrorBody(message=message))


def _answer_script_error(error: QueryError) -> str:
    """Return the first error of a script as a sentence; the details list all of them."""
    errors = [one for one in script_messages(error.messages) if not one.warning]
    if not errors:
        return str(error)
    more = f" ({len(errors) - 1} more below)" if len(errors) > 1 else ""
    return f"Error in the script, line {errors[0].line}, column {errors[0].column}: {errors[0].message}{more}."


def _error_response(status: int, problem: ErrorBody, headers: dict[str, str] | None = None) -> Response:
    return Response(_encode_json(ErrorResponse(error=problem)), status, headers, media_type="application/json")
