"""Describes the API in OpenAPI 3.1, from the endpoints' own types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from headwater import __version__
from headwater.language.diagnostics import Message
from headwater.web.api.endpoint import OPML, Endpoint, EndpointGroup, RawBody, ResponseBody

PREFIX = "/api/v1"
_REF = "#/components/schemas/{name}"


class ErrorBody(ResponseBody, frozen=True):
    """An error: a sentence, the `field` of the request that it is about, and the errors of a script (`details`)."""

    message: str
    field: str | None = None
    details: list[ErrorDetail] | None = None


class ErrorDetail(ResponseBody, frozen=True):
    """One error in a script of the query language, and its position."""

    line: int
    column: int
    message: str
    hint: str | None = None
    warning: bool = False


class ErrorResponse(ResponseBody, frozen=True):
    """The body of every response with a status of 400 or above."""

    error: ErrorBody


def script_messages(messages: tuple[object, ...]) -> list[ErrorDetail]:
    """Return the errors and warnings of a script with their positions."""
    return [
        ErrorDetail(line=one.line, column=one.column, message=one.text, hint=one.hint, warning=one.warning)
        for one in messages
        if isinstance(one, Message)
    ]


def describe_api(nouns: Iterable[EndpointGroup], base: str) -> dict[str, Any]:
    """Return the OpenAPI description of all endpoints."""
    nouns = list(nouns)
    endpoints = [endpoint for noun in nouns for endpoint in noun.endpoints]
    types = {_type_key(kind): kind for endpoint in endpoints for kind in _list_types(endpoint)}
    types[_type_key(ErrorResponse)] = ErrorResponse
    schemas, components = msgspec.json.schema_components(types.values(), ref_template=_REF)
    named = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(PREFIX + endpoint.path, {})[endpoint.method.lower()] = _describe_operation(
            endpoint, named, components
        )
    parameter_types = {endpoint.parameters.__name__ for endpoint in endpoints if endpoint.parameters is not None}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headwater",
            "version": __version__,
            "description": "Everything that the web pages can do. Times are seconds since 1970 (UTC).",
        },
        "servers": [{"url": base}],
        "tags": [{"name": noun.name, "description": noun.about} for noun in nouns],
        "security": [{"token": []}, {"session": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "an API token with the scopes read, write or admin",
                },
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "headwater_session",
                    "description": "the session of a browser; changes are accepted from the server's own pages only",
                },
            },
            "schemas": {name: schema for name, schema in components.items() if name not in parameter_types},
        },
    }


def _type_key(kind: Any) -> str:
    return str(kind)


def _list_types(endpoint: Endpoint) -> list[Any]:
    kinds = (endpoint.parameters, endpoint.body, endpoint.answer)
    return [kind for kind in kinds if kind is not None and kind is not RawBody]


def _describe_operation(endpoint: Endpoint, named: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "tags": [endpoint.noun],
        "x-scope": endpoint.scope,
        "responses": _describe_responses(endpoint, named),
    }
    if endpoint.description:
        operation["description"] = endpoint.description
    if endpoint.parameters is not None:
        operation["parameters"] = _describe_parameters(endpoint, components[endpoint.parameters.__name__])
    if endpoint.body is RawBody:
        content = {OPML: {"schema": {"type": "string"}}}
        operation["requestBody"] = {"required": True, "content": content}
    elif endpoint.body is not None:
        schema = named[_type_key(endpoint.body)]
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return operation


def _describe_parameters(endpoint: Endpoint, schema: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for name, one in schema["properties"].items():
        inside = name in endpoint.path_names
        one = _drop_null(one)
        description = one.pop("description", None)
        parameter = {
            "name": name,
            "in": "path" if inside else "query",
            "required": inside or name in schema.get("required", ()),
            "schema": one,
        }
        found.append(parameter | ({"description": description} if description else {}))
    return found


def _drop_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without null: a parameter is left out instead."""
    schema = dict(schema)
    if "anyOf" in schema:
        (left,) = [one for one in schema.pop("anyOf") if one != {"type": "null"}]
        schema |= left
    if schema.get("default", 0) is None:
        del schema["default"]
    return schema


def _describe_responses(endpoint: Endpoint, named: dict[str, Any]) -> dict[str, Any]:
    if endpoint.answer is None:
        good: dict[str, Any] = {"description": "done"}
    elif endpoint.answer is RawBody:
        good = {"description": "the document", "content": {OPML: {"schema": {"type": "string"}}}}
    else:
        schema = named[_type_key(endpoint.answer)]
        good = {"description": "the result", "content": {"application/json": {"schema": schema}}}
    bad = {"application/json": {"schema": named[_type_key(ErrorResponse)]}}
    descriptions = {
        "400": "the request is invalid",
        "401": "not signed in, or the token is invalid",
        "403": "the user or the token lacks the permission",
    }
    if endpoint.path_names:
        descriptions["404"] = "not found, or not visible to you"
    if endpoint.body is not None:
        descriptions |= {"413": "the body is too large", "415": "the body has the wrong content type"}
    descriptions |= {"default": "another error"}
    return {str(endpoint.status): good} | {
        code: {"description": text, "content": bad} for code, text in descriptions.items()
    }
