"""`headwater publish`: which feeds are for everybody, and who else may read the others."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.markup import escape

from headwater.cli.common import as_json, command, group, out, print_json, settings
from headwater.cli.removed import how_to_undo
from headwater.cli.work import opened, run
from headwater.publish import tokens
from headwater.store.people import Remover

Where = Annotated[str, typer.Argument(metavar="feeds/NAME|tags/TAG", help="A query feed or a tag.")]


def register(app: typer.Typer) -> None:
    publish = group("Who may read what is published. Everything is public unless made private.")
    command(publish, "list", epilog="Example:  headwater publish list --json")(list_)
    command(publish, "private", epilog="Example:  headwater publish private feeds/quakes")(private)
    command(publish, "public", epilog="Example:  headwater publish public feeds/quakes")(public)
    command(publish, "token", epilog="Example:  headwater publish token feeds/quakes --label phone")(token)
    command(publish, "revoke", epilog="Example:  headwater publish revoke feeds/quakes --label phone")(revoke)
    app.add_typer(publish, name="publish")


def list_() -> None:
    """Show what is private, and its tokens."""

    async def work() -> None:
        async with opened(settings()) as store:
            private = sorted((await store.publishing.access()).private)
            given = await store.publishing.tokens()
        if as_json():
            print_json({"private": private, "tokens": given})
            return
        out.print("Private:" if private else "Everything is public.")
        for path in private:
            labels = [one.label or "(no label)" for one in given if one.path == path]
            out.print(f"  {escape(path)}  {escape(', '.join(labels)) or 'no tokens: nobody can read it'}")

    run(work())


def private(where: Where) -> None:
    """Let nobody read a feed who has no token for it."""
    _set(where, True)


def public(where: Where) -> None:
    """Let everybody read a feed."""
    _set(where, False)


def token(
    where: Where,
    label: Annotated[str, typer.Option(help="What the token is for, so that it can be revoked by itself.")] = "",
) -> None:
    """Make a token for a private feed and print the address with it. It is shown this once and kept only as a hash."""

    async def work() -> None:
        given = settings()
        base = given.public_url or f"http://{given.host}:{given.port}"
        async with opened(given) as store:
            made = await tokens.give(store, where, label, base, time.time())
        if as_json():
            print_json(made)
            return
        out.print(made.url, markup=False)
        if not made.private:
            out.print(f"{escape(made.path)} is public; “headwater publish private” closes it.")

    run(work())


def revoke(
    where: Where,
    label: Annotated[str | None, typer.Option(help="Only the tokens with this label.")] = None,
) -> None:
    """Make tokens of a feed worthless."""

    async def work() -> tuple[int, int]:
        async with opened(settings()) as store:
            return await store.publishing.revoke(tokens.named(where), label, by=Remover(None, time.time()))

    number, undo = run(work())
    if as_json():
        print_json({"revoked": number, "undo": undo})
    else:
        out.print(f"{number} revoked.")
        how_to_undo([undo])


def _set(where: str, private: bool) -> None:
    async def work() -> str:
        async with opened(settings()) as store:
            path = await tokens.path_of(store, where) if private else tokens.named(where)
            await store.publishing.set_private(path, private)
            return path

    path = run(work())
    if as_json():
        print_json({"path": path, "private": private})
    else:
        out.print(f"{escape(path)} is {'private' if private else 'public'} now.")
