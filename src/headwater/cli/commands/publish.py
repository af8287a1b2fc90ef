"""`headwater publish`: which feeds are for everybody, and who else may read the others."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.markup import escape

from headwater.cli.commands.trash import print_undo_hint
from headwater.cli.console.command import add_command, current_settings, make_group, out, print_json, wants_json
from headwater.cli.console.resources import open_store, run_async
from headwater.publish import channels
from headwater.store.maintenance.trash_rows import Remover
from headwater.store.publishing import private_feeds
from headwater.store.publishing.private_feeds import list_feed_tokens, load_public_access, set_private

FeedPath = Annotated[str, typer.Argument(metavar="feeds/NAME|tags/TAG", help="A query feed or a tag.")]


def register(app: typer.Typer) -> None:
    publish = make_group("Who may read what is published. Everything is public unless made private.")
    add_command(publish, "list", epilog="Example:  headwater publish list --json")(list_private_feeds)
    add_command(publish, "private", epilog="Example:  headwater publish private feeds/quakes")(make_private)
    add_command(publish, "public", epilog="Example:  headwater publish public feeds/quakes")(make_public)
    add_command(publish, "token", epilog="Example:  headwater publish token feeds/quakes --label phone")(
        make_feed_token
    )
    add_command(publish, "revoke", epilog="Example:  headwater publish revoke feeds/quakes --label phone")(
        revoke_feed_tokens
    )
    app.add_typer(publish, name="publish")


def list_private_feeds() -> None:
    """Show what is private, and its tokens."""

    async def work() -> None:
        async with open_store(current_settings()) as store:
            private = sorted((await store.read(load_public_access)).private)
            given = await store.read(list_feed_tokens)
        if wants_json():
            print_json({"private": private, "tokens": given})
            return
        out.print("Private:" if private else "Everything is public.")
        for path in private:
            labels = [one.label or "(no label)" for one in given if one.path == path]
            out.print(f"  {escape(path)}  {escape(', '.join(labels)) or 'no tokens: nobody can read it'}")

    run_async(work())


def make_private(where: FeedPath) -> None:
    """Let nobody read a feed who has no token for it."""
    _set_private(where, True)


def make_public(where: FeedPath) -> None:
    """Let everybody read a feed."""
    _set_private(where, False)


def make_feed_token(
    where: FeedPath,
    label: Annotated[str, typer.Option(help="What the token is for, so that it can be revoked by itself.")] = "",
) -> None:
    """Make a token for a private feed and print the address with it. It is shown this once and kept only as a hash."""

    async def work() -> None:
        given = current_settings()
        base = given.public_url or f"http://{given.host}:{given.port}"
        async with open_store(given) as store:
            made = await channels.create_feed_token(store, where, label, base, time.time())
        if wants_json():
            print_json(made)
            return
        out.print(made.url, markup=False)
        if not made.private:
            out.print(f"{escape(made.path)} is public; “headwater publish private” closes it.")

    run_async(work())


def revoke_feed_tokens(
    where: FeedPath,
    label: Annotated[str | None, typer.Option(help="Only the tokens with this label.")] = None,
) -> None:
    """Make tokens of a feed worthless."""

    async def work() -> tuple[int, int]:
        async with open_store(current_settings()) as store:
            return await store.write(
                private_feeds.revoke_feed_tokens, channels.parse_path(where), label, by=Remover(None, time.time())
            )

    number, undo = run_async(work())
    if wants_json():
        print_json({"revoked": number, "undo": undo})
    else:
        out.print(f"{number} revoked.")
        print_undo_hint([undo])


def _set_private(where: str, private: bool) -> None:
    async def work() -> str:
        async with open_store(current_settings()) as store:
            path = await channels.find_path(store, where) if private else channels.parse_path(where)
            await store.write(set_private, path, private)
            return path

    path = run_async(work())
    if wants_json():
        print_json({"path": path, "private": private})
    else:
        out.print(f"{escape(path)} is {'private' if private else 'public'} now.")
