"""`headwater users`: manage accounts. It asks for no password: access to the data folder is enough."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.prompt import Prompt

from headwater.cli.console.command import command, make_group
from headwater.cli.console.output import err, out, print_undo_hint
from headwater.credentials import hash_password, hash_secret, make_secret
from headwater.errors import InputError
from headwater.store.maintenance.trash_entries import Remover
from headwater.store.readers import accounts
from headwater.store.readers.accounts import (
    OWNER,
    READ,
    READER,
    WRITE,
    User,
    add_api_token,
    change_user,
    check_role,
    claim_ownership,
    find_user,
)
from headwater.store.readers.readership import count_subscriptions
from headwater.times import format_relative

if TYPE_CHECKING:
    from headwater.store.store import Store

UserName = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
PasswordStdin = Annotated[bool, typer.Option("--password-stdin", help="Read the password from standard input.")]

top = typer.Typer()
users = make_group("Manage accounts.")
top.add_typer(users, name="users")


def _user_as_json(result: tuple[User, str]) -> dict[str, Any]:
    user = result[0]
    return {
        "id": user.id,
        "name": user.name,
        "role": user.role,
        "created": user.created,
        "has_password": user.has_password,
        "time_zone": user.time_zone,
    }


def _render_change(result: tuple[User, str]) -> None:
    user, change = result
    out.print(escape(f"{user.name} ({user.role}) {change}."))


@command(
    users,
    "add",
    view=_render_change,
    as_json=_user_as_json,
    example="headwater users add ada --password-stdin < secret.txt",
)
async def add_user(
    store: Store,
    name: UserName,
    password_stdin: PasswordStdin = False,
    role: Annotated[str | None, typer.Option(help="owner or reader.")] = None,
) -> tuple[User, str]:
    """Add a user. The first one with a password becomes the owner and ends open mode."""
    if role is not None:
        check_role(role)
    hashed = hash_password(_read_password(password_stdin))
    user = await store.write(claim_ownership, name, hashed) if role != READER else None
    if user is None:
        user = await store.write(accounts.add_user, name, hashed, time.time(), role=role or READER)
    return user, "was added"


def _render_users(found: list[tuple[User, int]]) -> None:
    for user, subscriptions in found:
        note = "" if user.has_password else "  without a password"
        since = format_relative(user.created, time.time())
        out.print(escape(f"{user.name}  {user.role}  {subscriptions} subscriptions  since {since}{note}"))


@command(
    users,
    "list",
    view=_render_users,
    as_json=lambda found: [_user_as_json((user, "")) | {"subscriptions": count} for user, count in found],
    example="headwater users list --json",
)
async def list_users(store: Store) -> list[tuple[User, int]]:
    """List all users."""
    counts = await store.read(count_subscriptions)
    return [(user, counts[user.id]) for user in await store.read(accounts.list_users)]


@command(users, "password", view=_render_change, as_json=_user_as_json, example="headwater users password ada")
async def set_password(store: Store, name: UserName, password_stdin: PasswordStdin = False) -> tuple[User, str]:
    """Set a password. All sessions of the user end."""
    hashed = hash_password(_read_password(password_stdin))
    user = await store.read(find_user, name)
    return await store.write(change_user, user.id, password=hashed), "has a new password"


@command(users, "role", view=_render_change, as_json=_user_as_json, example="headwater users role ada owner")
async def set_role(
    store: Store, name: UserName, role: Annotated[str, typer.Argument(metavar="owner|reader")]
) -> tuple[User, str]:
    """Make somebody an owner, who may do everything, or a reader."""
    user = await store.read(find_user, name)
    changed = await store.write(change_user, user.id, role=role)
    return changed, f"is {'an' if changed.role == OWNER else 'a'} {changed.role} now"


@command(
    users,
    "time-zone",
    view=_render_change,
    as_json=_user_as_json,
    example="headwater users time-zone ada Europe/Vienna",
)
async def set_time_zone(
    store: Store,
    name: UserName,
    zone: Annotated[
        str, typer.Argument(metavar="[ZONE]", show_default=False, help="Such as Europe/Vienna; blank: the server's.")
    ] = "",
) -> tuple[User, str]:
    """Set the time zone of somebody's digests."""
    user = await store.read(find_user, name)
    changed = await store.write(change_user, user.id, time_zone=zone)
    return changed, f"has the time zone {changed.time_zone or 'of the server'} now"


def _render_removed_user(result: tuple[User, int]) -> None:
    user, number = result
    _render_change((user, "was removed"))
    print_undo_hint([number])


@command(
    users,
    "remove",
    view=_render_removed_user,
    as_json=lambda result: _user_as_json((result[0], "")) | {"undo": result[1]},
    example="headwater users remove ada",
)
async def remove_user(store: Store, name: UserName) -> tuple[User, int]:
    """Remove a user. Feeds that nobody else reads are no longer refreshed.

    The account can be restored for a day (headwater removed).
    """
    from headwater.store.maintenance.trash import move_user_to_trash

    user = await store.read(find_user, name)
    return user, await store.write(move_user_to_trash, user.id, by=Remover(None, time.time()))


def _render_token(result: dict[str, Any]) -> None:
    out.print(result.get("token") or f"Token {result['revoked']} was revoked.", markup=False)
    print_undo_hint([result["undo"]] if "undo" in result else [])


@command(
    users,
    "token",
    view=_render_token,
    example="headwater users token ada --label phone --scope read --scope write",
)
async def make_token(
    store: Store,
    name: UserName,
    label: Annotated[str, typer.Option(help="A label, to recognise it.")] = "",
    scope: Annotated[list[str] | None, typer.Option(help="read, write or admin; may be repeated.")] = None,
    revoke: Annotated[int | None, typer.Option(help="Revoke the token of this number instead.")] = None,
) -> dict[str, Any]:
    """Make an API token and print it. It is shown once and stored only as a hash."""
    user = await store.read(find_user, name)
    now = time.time()
    if revoke is not None:
        from headwater.store.maintenance.trash import move_api_token_to_trash

        number = await store.write(move_api_token_to_trash, user.id, revoke, by=Remover(None, now))
        return {"revoked": revoke, "undo": number}
    secret = make_secret()
    token = await store.write(add_api_token, user.id, hash_secret(secret), label, scope or [READ, WRITE], now)
    return {"id": token.id, "user": user.name, "scopes": token.scopes, "token": secret}


def _read_password(from_input: bool) -> str:
    """Read a password: the first line of standard input, or typed twice on a terminal."""
    if from_input or not sys.stdin.isatty():
        password = sys.stdin.readline().rstrip("\r\n")
        if not password:
            raise InputError("Standard input is empty: its first line should be the password.")
        return password
    password = Prompt.ask("Password", password=True, console=err)
    if Prompt.ask("Confirm password", password=True, console=err) != password:
        raise InputError("The two passwords differ.")
    return password
