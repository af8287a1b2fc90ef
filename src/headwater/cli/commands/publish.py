"""`headwater publish`: make published feeds private or public, and manage their tokens."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from headwater.cli.console.command import command, make_group
from headwater.cli.console.output import out
from headwater.cli.views.trash import print_undo_hint
from headwater.publish import channels
from headwater.store.maintenance.trash_entries import Remover
from headwater.store.publishing import private_feeds
from headwater.store.publishing.private_feeds import list_feed_tokens, load_public_access, set_private

if TYPE_CHECKING:
    from headwater.publish.channels import NewFeedToken
    from headwater.settings import Settings
    from headwater.store.store import Store

FeedPath = Annotated[str, typer.Argument(metavar="feeds/NAME|tags/TAG", help="A query feed or a tag.")]

top = typer.Typer()
publish = make_group("Make published feeds private or public, and manage their tokens.")
top.add_typer(publish, name="publish")


def _render_private_feeds(found: dict[str, Any]) -> None:
    out.print("Private:" if found["private"] else "Everything is public.")
    for path in found["private"]:
        labels = [token.label or "(no label)" for token in found["tokens"] if token.path == path]
        out.print(f"  {escape(path)}  {escape(', '.join(labels)) or 'no tokens: nobody can read it'}")


@command(publish, "list", view=_render_private_feeds, example="headwater publish list --json")
async def list_private_feeds(store: Store) -> dict[str, Any]:
    """List private feeds and their tokens. Everything else is public."""
    return {
        "private": sorted((await store.read(load_public_access)).private),
        "tokens": await store.read(list_feed_tokens),
    }


def _render_access(result: dict[str, Any]) -> None:
    out.print(f"{escape(result['path'])} is {'private' if result['private'] else 'public'} now.")


@command(publish, "private", view=_render_access, example="headwater publish private feeds/quakes")
async def make_private(store: Store, where: FeedPath) -> dict[str, Any]:
    """Make a feed private: only tokens can read it."""
    path = await channels.find_path(store, where)
    await store.write(set_private, path, True)
    return {"path": path, "private": True}


@command(publish, "public", view=_render_access, example="headwater publish public feeds/quakes")
async def make_public(store: Store, where: FeedPath) -> dict[str, Any]:
    """Make a feed public: everybody can read it."""
    path = channels.parse_path(where)
    await store.write(set_private, path, False)
    return {"path": path, "private": False}


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
