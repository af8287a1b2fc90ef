"""Generates requests to every route of an application, with every parameter that its code or description names.

Routes come from the application itself. Parameters of the API come from its OpenAPI description, those of pages and of
the Google Reader API from the calls that read them (`visit.query("find")`, `given.first_value("s")`).
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import groupby
from typing import Any

from starlette.routing import BaseRoute, Mount, Route

from headwater.publish.published_documents import FORMATS
from headwater.web.api.api_app import GROUPS
from headwater.web.api.openapi import describe_api
from headwater.web.app import find_page_groups
from headwater.web.greader import stream_ids
from headwater.web.greader.greader_app import LIKE_FRESHRSS

READERS = {"query", "integer", "field", "first_value", "list_values", "parse_number"}  # methods that read a parameter
EDGES = ("9" * 17, "é ☃ '\"<%")  # given to all parameters of a page or a Google Reader call at once
DESCRIPTION = describe_api(GROUPS, "http://127.0.0.1")
METHODS = ("GET", "PUT", "POST", "PATCH", "DELETE")
Sample = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class EveryRequest:
    """One request. `route` is the tested route, with its parameters in braces."""

    route: str
    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    form: Mapping[str, str] | None = field(default=None, hash=False)
    json: Any = field(default=None, hash=False)

    @property
    def name(self) -> str:
        body = f" {self.form}" if self.form else "" if self.json is None else f" {self.json}"
        query = "&".join(f"{name}={value}" for name, value in self.query)
        return f"{self.method} {self.path}{'?' if query else ''}{query}{body}"


def list_routes(routes: Iterable[BaseRoute], before: str = "") -> Iterator[tuple[str, str, Route]]:
    """Yield (method, path, route) of every route of an application, mounted ones too, but not the second address of
    the Google Reader API."""
    for route in routes:
        if isinstance(route, Mount) and route.path != LIKE_FRESHRSS:
            yield from list_routes(route.routes, before + route.path)
        elif isinstance(route, Route):
            path = before + route.path
            methods = [method for method in METHODS if method in (route.methods or ["GET"])]
            # Calls of Google Reader that only read may be sent by POST too.
            for method in methods[:1] if "reader" in path else methods:
                yield method, path, route


def list_requests(routes: Iterable[BaseRoute], sample: Sample) -> list[EveryRequest]:
    """Return every request, reading ones first and deleting ones last. `sample` has a value for each parameter of a
    path, by `{name}` or by the whole path."""
    handlers = {f"{one.method} {one.path}": one.handler for group in find_page_groups() for one in group.routes}
    found = [
        request
        for method, path, route in list_routes(routes)
        if method.lower() in DESCRIPTION["paths"].get(path, [method.lower()])  # all others are 405
        for request in _vary(method, path, handlers.get(f"{method} {path}", route.endpoint), sample)
    ]
    found += _list_document_requests(sample)
    return sorted(dict.fromkeys(found), key=lambda one: METHODS.index(one.method))


def choose_first_of_each_route(requests: Iterable[EveryRequest]) -> list[EveryRequest]:
    """Return the first request of each route and method."""
    by_route = sorted(requests, key=lambda one: (METHODS.index(one.method), one.route))
    return [next(same) for _, same in groupby(by_route, key=lambda one: (one.method, one.route))]


def _vary(method: str, route: str, handler: Callable[..., Any], sample: Sample) -> Iterator[EveryRequest]:
    """Yield the route without parameters, with each parameter alone, and with an edge value for all."""
    path, described = _fill(route, sample), DESCRIPTION["paths"].get(route, {}).get(method.lower())
    if described is not None:
        yield from _vary_described(method, route, path, described, sample)
        return
    yield EveryRequest(route, method, path)
    names = _read_names(handler)
    alone = [{name: sample.get(name, "1")} for name in names]
    for fields in (*alone, *(dict.fromkeys(names, edge) for edge in EDGES)):
        if method == "GET":
            yield EveryRequest(route, method, path, tuple(fields.items()))
        else:
            yield EveryRequest(route, method, path, form=fields)


def _vary_described(
    method: str, route: str, path: str, described: Mapping[str, Any], sample: Sample
) -> Iterator[EveryRequest]:
    contents = described.get("requestBody", {}).get("content", {})
    json = {} if "application/json" in contents else None
    yield EveryRequest(route, method, path, json=json)
    for parameter in described.get("parameters", ()):
        if parameter["in"] == "query":
            for value in _list_values(parameter["schema"], sample.get(parameter["name"])):
                yield EveryRequest(route, method, path, ((parameter["name"], value),), json=json)
    if json is not None:
        body = _resolve(contents["application/json"]["schema"])
        values = {name: _make_value(name, schema, sample) for name, schema in body.get("properties", {}).items()}
        needed = {name: values[name] for name in body.get("required", ())}
        for name, value in values.items():
            yield EveryRequest(route, method, path, json={**needed, name: value})


def _list_values(schema: Mapping[str, Any], sample: str | None) -> list[str]:
    """Return values of a parameter within its description, and one beyond."""
    if "enum" in schema:
        return [*schema["enum"], "x"]
    if schema["type"] == "boolean":
        return ["true", "false", "x"]
    if schema["type"] in ("integer", "number"):
        least = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
        return [sample or f"{least}", f"{schema['maximum']:.0f}", "x"]
    return [sample or "x", "x" * schema["maxLength"], ""]


def _make_value(name: str, schema: Mapping[str, Any], sample: Sample) -> Any:
    schema = _resolve(schema)
    for choice in schema.get("anyOf", ()):
        if choice.get("type") != "null":
            return _make_value(name, choice, sample)
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "boolean":
            return True
        case "integer" | "number":
            return int(sample.get(name, schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)))
        case "array":
            return [_make_value(name, schema.get("items", {}), sample)]
        case "object":
            return {}
    return sample.get(name, "x" * max(schema.get("minLength", 1), 1))


def _resolve(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = schema
    while "$ref" in found:
        found = DESCRIPTION["components"]["schemas"][found["$ref"].rpartition("/")[2]]
    return found


def _fill(route: str, sample: Sample) -> str:
    if route in sample:
        return sample[route]
    for name, value in sorted(sample.items(), key=lambda one: -len(one[0])):
        route = route.replace(name, value) if name.startswith("{") else route
    return route


def _read_names(handler: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters that a handler reads, itself or by functions that it calls."""
    names, waiting, seen = set[str](), [(handler.__module__, handler.__name__)], set[tuple[str, str]]()
    while waiting:
        if (one := waiting.pop()) in seen:
            continue
        seen.add(one)
        for node in ast.walk(_find_functions(one[0]).get(one[1], ast.Pass())):
            if isinstance(node, ast.Name | ast.Attribute):
                called = node.id if isinstance(node, ast.Name) else node.attr
                waiting += [(module, called) for module in (one[0], stream_ids.__name__)]
            elif isinstance(node, ast.Call) and (name := _find_parameter(node)) is not None:
                names.add(name)
    return sorted(names)


def _find_parameter(call: ast.Call) -> str | None:
    """Return the constant name in `visit.query("find")` or `visit.form.get("find")`."""
    if not (isinstance(call.func, ast.Attribute) and call.args and isinstance(call.args[0], ast.Constant)):
        return None
    owner, name = call.func.value, call.args[0].value
    of_form = call.func.attr == "get" and isinstance(owner, ast.Attribute) and owner.attr == "form"
    return name if (call.func.attr in READERS or of_form) and isinstance(name, str) else None


@cache
def _find_functions(module: str) -> dict[str, ast.AST]:
    tree = ast.parse(inspect.getsource(import_module(module)))
    return {one.name: one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}


def _list_document_requests(sample: Sample) -> Iterator[EveryRequest]:
    """List requests for published documents, which are served before the routes."""
    for path in (f"/feeds/{sample['{name}']}", f"/tags/{sample['{tag}']}", "/feeds", "/feeds/none"):
        for format in FORMATS:
            yield EveryRequest(f"{path}.{format}", "GET", f"{path}.{format}")
            for name in ("page", "upto", "token"):
                for value in ("1", EDGES[1]):
                    yield EveryRequest(f"{path}.{format}", "GET", f"{path}.{format}", ((name, value),))
