"""`headwater publish`: choose who may read published feeds, and manage their tokens."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from headwater.cli.console.command import command, make_group
from headwater.cli.console.output import out, print_undo_hint
from headwater.publish import channels
from headwater.store.maintenance.trash_entries import Remover
from headwater.store.publishing import private_feeds
from headwater.store.publishing.private_feeds import (
    list_feed_tokens,
    list_restricted_paths,
    load_public_access,
    set_visibility,
)

if TYPE_CHECKING:
    from headwater.publish.channels import NewFeedToken
    from headwater.settings import Settings
    from headwater.store.store import Store

FeedPath = Annotated[
    str, typer.Argument(metavar="feeds/NAME|tags/TAG|feeds.opml", help="A query feed, a tag, or the list of feeds.")
]

top = typer.Typer()
publish = make_group("Choose who may read published feeds, and manage their tokens.")
top.add_typer(publish, name="publish")


def _render_published(found: dict[str, Any]) -> None:
    for heading in ("public", "shared", "private"):
        if not found[heading]:
            continue
        out.print(f"{heading.capitalize()}:")
        for path in found[heading]:
            labels = [token.label or "(no label)" for token in found["tokens"] if token.path == path]
            out.print(f"  {escape(path)}{'  ' if labels else ''}{escape(', '.join(labels))}")
    out.print("Everything else is private." if found["public"] else "Nothing is public: headwater publish public FEED")


@command(publish, "list", view=_render_published, example="headwater publish list --json")
async def list_published(store: Store) -> dict[str, Any]:
    """List the feeds that were made public, shared with all accounts or private, and their tokens.

    Everything else is private.
    """
    restricted = await store.read(list_restricted_paths)
    return {
        "public": sorted((await store.read(load_public_access)).public),
        "shared": [path for path, visibility in restricted.items() if visibility == "shared"],
        "private": [path for path, visibility in restricted.items() if visibility == "private"],
        "tokens": await store.read(list_feed_tokens),
    }


def _render_access(result: dict[str, Any]) -> None:
    shared = " and shared with all accounts" if result.get("shared") else ""
    out.print(f"{escape(result['path'])} is {'private' if result['private'] else 'public'}{shared} now.")


@command(publish, "private", view=_render_access, example="headwater publish private feeds/quakes")
async def make_private(store: Store, where: FeedPath) -> dict[str, Any]:
    """Make a feed private: its owner and holders of a token can read it."""
    return await _set_visibility(store, where, "private")


@command(publish, "shared", view=_render_access, example="headwater publish shared feeds/quakes")
async def make_shared(store: Store, where: FeedPath) -> dict[str, Any]:
    """Share a query feed with all accounts of the server."""
    return await _set_visibility(store, where, "shared")


@command(publish, "public", view=_render_access, example="headwater publish public feeds/quakes")
async def make_public(store: Store, where: FeedPath) -> dict[str, Any]:
    """Make a feed public: everybody can read it."""
    return await _set_visibility(store, where, "public")


async def _set_visibility(store: Store, where: str, visibility: str) -> dict[str, Any]:
    path = await channels.find_path(store, where)
    await store.write(set_visibility, path, visibility)
    return {"path": path, "private": visibility != "public"} | ({"shared": True} if visibility == "shared" else {})


def _render_token(token: NewFeedToken) -> None:
    out.print(token.url, markup=False)
    if not token.private:
        out.print(f"{escape(token.path)} is public. Make it private with headwater publish private.")


@command(publish, "token", view=_render_token, example="headwater publish token feeds/quakes --label phone")
async def make_feed_token(
    settings: Settings,
    store: Store,
    where: FeedPath,
    label: Annotated[str, typer.Option(help="A label, to revoke this token alone.")] = "",
) -> NewFeedToken:
    """Make a token for a private feed and print the address with it. It is shown once and stored only as a hash."""
    base = settings.public_url or f"http://{settings.host}:{settings.port}"
    return await channels.create_feed_token(store, where, label, base, time.time())


def _render_revoked(result: tuple[int, int]) -> None:
    out.print(f"{result[0]} revoked.")
    print_undo_hint([result[1]])


@command(
    publish,
    "revoke",
    view=_render_revoked,
    as_json=lambda result: {"revoked": result[0], "undo": result[1]},
    example="headwater publish revoke feeds/quakes --label phone",
)
async def revoke_feed_tokens(
    store: Store,
    where: FeedPath,
    label: Annotated[str | None, typer.Option(help="Only the tokens with this label.")] = None,
) -> tuple[int, int]:
    """Revoke tokens of a feed."""
    path = channels.parse_path(where)
    return await store.write(private_feeds.revoke_feed_tokens, path, label, by=Remover(None, time.time()))
