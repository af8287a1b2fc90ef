"""What every command shares: the options --data, --database, --allow-private and --json, output, and errors.

The options are accepted before and after the command's name and by environment; commands ask `settings()` and
`as_json()` and never see how they were given.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, is_dataclass
from types import MappingProxyType
from typing import Annotated, Any, NoReturn, TypeVar

import msgspec
import orjson
import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from headwater.settings import Settings, load_settings

F = TypeVar("F", bound=Callable[..., Any])
MAX_INTEGER = 2**63 - 1  # the largest number that databases know
EXIT_STOPPED = 130  # the exit code of what Ctrl-C ends, as shells have it

out = Console(soft_wrap=True)
err = Console(stderr=True, soft_wrap=True)

_PANEL = "Everywhere"
_SHARED: dict[str, Any] = {
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
    "as_json": Annotated[bool | None, typer.Option("--json", help="Print JSON for machines.", rich_help_panel=_PANEL)],
}
_given: ContextVar[Mapping[str, Any]] = ContextVar("given", default=MappingProxyType({}))


def _add_shared_options(function: F) -> F:
    """The same function with the shared options added to what it takes; they end up in `_given`."""
    signature = inspect.signature(function, eval_str=True)
    extra = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in _SHARED.items()
    ]

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        shared = {name: kwargs.pop(name, None) for name in _SHARED}
        at_root = "ctx" in kwargs and kwargs["ctx"].parent is None  # a new command line begins here
        outer = {} if at_root else _given.get()
        _given.set({**outer, **{name: value for name, value in shared.items() if value is not None}})
        try:
            return function(*args, **kwargs)
        except KeyboardInterrupt:  # here, since typer would end without a word
            fail("Stopped.", EXIT_STOPPED)

    wrapped.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), *extra]
    )
    return wrapped  # type: ignore[return-value]


class CommandGroup(TyperGroup):
    """Commands that tell machines too what is wrong with their words: typer tells it on standard error alone."""

    _wants_json = False  # those within another have no command line of their own

    def main(self, args: Sequence[str] | None = None, *more: Any, **options: Any) -> Any:
        self._wants_json = "--json" in (sys.argv[1:] if args is None else args)
        return super().main(args, *more, **options)

    def make_context(self, *args: Any, **extra: Any) -> Any:
        with self._report_usage_errors():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        with self._report_usage_errors():
            return super().invoke(ctx)

    @contextmanager
    def _report_usage_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            message = getattr(error, "format_message", None)  # of what typer says itself
            if message is not None and self._wants_json:
                print_json({"error": message()})
            raise


def make_group(help: str) -> typer.Typer:
    """A group of commands that takes the shared options too."""
    app = typer.Typer(
        cls=CommandGroup, help=help, no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False
    )

    def begin(ctx: typer.Context) -> None:
        """Only there to take the options."""

    app.callback(help=help)(_add_shared_options(begin))
    return app


def add_command(app: typer.Typer, name: str, **options: Any) -> Callable[[F], F]:
    """Register a command with the shared options; `epilog` holds its examples."""

    def register(function: F) -> F:
        app.command(name, **options)(_add_shared_options(function))
        return function

    return register


def current_settings(**more: Any) -> Settings:
    """The settings in force for this command."""
    given = {name: value for name, value in _given.get().items() if name != "as_json"}
    return load_settings(**given, **more)


def wants_json() -> bool:
    return bool(_given.get().get("as_json"))


def format_count(number: int, what: str) -> str:
    """
    >>> format_count(1, "feed"), format_count(2000, "feed")
    ('1 feed', '2,000 feeds')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def to_plain_value(value: Any) -> Any:
    """Values of the model as what JSON knows."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def print_json(value: Any) -> None:
    options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    sys.stdout.buffer.write(orjson.dumps(value, default=to_plain_value, option=options) + b"\n")
    sys.stdout.buffer.flush()


def fail(message: str, code: int = 1) -> NoReturn:
    """Say what is wrong on standard error, for machines also as JSON where they read, and end with `code`."""
    if wants_json():
        print_json({"error": message})
    err.print("[red]error:[/red]" if err.is_terminal else "error:", Text(message))
    raise SystemExit(code)
