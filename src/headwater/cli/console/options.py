"""Keeps the options that every command takes: --data, --database, --allow-private and --json.

They may stand before or after the name of a command, or come from the environment. Commands ask `current_settings` and
`wants_json`, and do not see where an option came from.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Annotated, Any

import typer

from headwater.settings import Settings, load_settings

_PANEL = "Shared options"
SHARED_OPTIONS: dict[str, Any] = {
    "data": Annotated[
        str | None, typer.Option("--data", metavar="DIR", help="The data folder.", rich_help_panel=_PANEL)
    ],
    "database": Annotated[
        str | None,
        typer.Option("--database", metavar="URL", help="sqlite:///FILE or postgresql://…", rich_help_panel=_PANEL),
    ],
    "allow_private": Annotated[
        bool | None,
        typer.Option("--allow-private", help="Allow feeds on private addresses.", rich_help_panel=_PANEL),
    ],
    "as_json": Annotated[bool | None, typer.Option("--json", help="Print JSON.", rich_help_panel=_PANEL)],
}
PARAMETERS = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
    for name, annotation in SHARED_OPTIONS.items()
]
_given: ContextVar[Mapping[str, Any]] = ContextVar("given", default=MappingProxyType({}))


def take_shared_options(options: dict[str, Any], *, at_root: bool) -> None:
    """Move the shared options out of a command's options; at the root a new command line begins."""
    shared = {name: options.pop(name, None) for name in SHARED_OPTIONS}
    outer = {} if at_root else _given.get()
    _given.set({**outer, **{name: value for name, value in shared.items() if value is not None}})


def current_settings(**options: Any) -> Settings:
    """Load the settings for the running command; `options` are settings that it takes itself."""
    given = {name: value for name, value in _given.get().items() if name != "as_json"}
    return load_settings(**given, **options)


def wants_json() -> bool:
    return bool(_given.get().get("as_json"))
