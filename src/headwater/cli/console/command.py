"""Declares commands: a typed function returns a value, and its view shows that value.

    @command(feeds, "list", view=render_feed_list, example="headwater feeds list --tag news")
    async def list_feeds(store: Store, tag: Tag = None) -> list[FeedRow]: ...

A parameter named `store`, `settings` or `fetcher` is not an option: it is opened for the command and closed afterwards.
With --json the value is printed as JSON, else the view prints it. A function that returns None has printed already.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import Any, TypeVar

import typer
from typer.core import TyperGroup

from headwater.cli.console.options import PARAMETERS, current_settings, take_shared_options, wants_json
from headwater.cli.console.output import EXIT_STOPPED, fail, print_json

F = TypeVar("F", bound=Callable[..., Any])

RESOURCES = ("settings", "store", "fetcher")


class CommandGroup(TyperGroup):
    """A group of commands that reports wrong options as JSON too; Typer prints them on standard error only."""

    _wants_json = False  # a group within another has no command line of its own

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
            message = getattr(error, "format_message", None)  # only Typer's own errors have it
            if message is not None and self._wants_json:
                print_json({"error": message()})
            raise


def make_group(help: str) -> typer.Typer:
    """Make a group of commands that takes the shared options too."""
    group = typer.Typer(
        cls=CommandGroup, help=help, no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False
    )

    def begin(ctx: typer.Context) -> None:
        """Only takes the options."""

    group.callback(help=help)(_add_shared_options(begin))
    return group


def command(
    group: typer.Typer,
    name: str,
    *,
    view: Callable[[Any], None] | None = None,
    as_json: Callable[[Any], Any] | None = None,
    exit_code: Callable[[Any], int] | None = None,
    settings_options: Sequence[str] = (),
    help: str | None = None,
    example: str = "",
) -> Callable[[F], F]:
    """Register a command.

    `as_json` turns the value into what --json prints. `exit_code` finds a failure in it. `settings_options` are options
    of the command that are settings; the settings it gets contain them.
    """
    epilog = (f"Examples:  {example}" if "·" in example else f"Example:  {example}") if example else None

    def register(function: F) -> F:
        runner = _make_runner(function, tuple(settings_options))

        @functools.wraps(function)
        def run_and_show(**given: Any) -> None:
            value = runner(**given)
            if wants_json() and (value is not None or as_json):
                print_json(as_json(value) if as_json else value)
            elif view is not None:
                view(value)
            if exit_code is not None and (code := exit_code(value)):
                raise SystemExit(code)

        _set_signature(run_and_show, _make_signature(function))
        group.command(name, help=help, epilog=epilog)(_add_shared_options(run_and_show))
        return function

    return register


def _make_runner(function: Callable[..., Any], settings_options: tuple[str, ...]) -> Callable[..., Any]:
    """Return a function that opens the command's resources and runs it, on an event loop if it is a coroutine."""
    wanted = [name for name in RESOURCES if name in inspect.signature(function).parameters]

    async def run_with_resources(**options: Any) -> Any:
        from headwater.cli.console.resources import open_fetcher, open_store

        settings = current_settings(**{name: options.get(name) for name in settings_options})
        async with AsyncExitStack() as stack:
            given: dict[str, Any] = {"settings": settings}
            if "store" in wanted or "fetcher" in wanted:
                given["store"] = await stack.enter_async_context(open_store(settings))
            if "fetcher" in wanted:
                given["fetcher"] = await stack.enter_async_context(open_fetcher(settings, given["store"]))
            return await function(**{name: given[name] for name in wanted}, **options)

    def run(**options: Any) -> Any:
        if inspect.iscoroutinefunction(function):
            from headwater.cli.console.resources import run_async

            return run_async(run_with_resources(**options))
        if "settings" in wanted:
            settings = current_settings(**{name: options.get(name) for name in settings_options})
            return function(settings=settings, **options)
        return function(**options)

    return run


def _make_signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the options of a command: its parameters without the resources, with evaluated annotations."""
    parameters = [
        parameter.replace(
            kind=inspect.Parameter.KEYWORD_ONLY,
            annotation=_evaluate(parameter.annotation, function),
        )
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in RESOURCES
    ]
    return inspect.Signature(parameters)


def _evaluate(annotation: Any, function: Callable[..., Any]) -> Any:
    return eval(annotation, function.__globals__) if isinstance(annotation, str) else annotation


def _add_shared_options(function: F) -> F:
    """Return the function with the shared options added to its own; they are kept for `current_settings`."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapped(*args: Any, **options: Any) -> Any:
        take_shared_options(options, at_root="ctx" in options and options["ctx"].parent is None)
        try:
            return function(*args, **options)
        except KeyboardInterrupt:  # Typer would exit silently
            fail("Stopped.", EXIT_STOPPED)

    own = [one.replace(annotation=_evaluate(one.annotation, function)) for one in signature.parameters.values()]
    _set_signature(wrapped, inspect.Signature([*own, *PARAMETERS]))
    return wrapped  # type: ignore[return-value]


def _set_signature(function: Any, signature: inspect.Signature) -> None:
    """Let Typer see these parameters instead of those of the wrapped function."""
    function.__signature__ = signature
    function.__annotations__ = {name: one.annotation for name, one in signature.parameters.items()}
    del function.__wrapped__
