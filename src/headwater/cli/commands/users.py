"""`headwater users`: accounts, by whoever has the data folder."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.prompt import Prompt

from headwater import times
from headwater.cli.commands.trash import print_undo_hint
from headwater.cli.console.command import add_command, current_settings, err, make_group, out, print_json, wants_json
from headwater.cli.console.resources import open_store, run_async
from headwater.credentials import hash_password, hash_secret, make_secret
from headwater.errors import InputError
from headwater.store.maintenance.trash import move_api_token_to_trash, move_user_to_trash
from headwater.store.maintenance.trash_rows import Remover
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
from headwater.store.readers.subscriptions import list_subscriptions
from headwater.store.store import Store

UserName = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
PasswordStdin = Annotated[bool, typer.Option("--password-stdin", help="Read the password from standard input.")]


def register(app: typer.Typer) -> None:
    users = make_group("Who may use the server.")
    add_command(users, "add", epilog="Example:  headwater users add ada --password-stdin < secret.txt")(add_user)
    add_command(users, "list", epilog="Example:  headwater users list --json")(list_users)
    add_command(users, "password", epilog="Example:  headwater users password ada")(set_password)
    add_command(users, "role", epilog="Example:  headwater users role ada owner")(set_role)
    add_command(users, "time-zone", epilog="Example:  headwater users time-zone ada Europe/Vienna")(set_time_zone)
    add_command(users, "remove", epilog="Example:  headwater users remove ada")(remove_user)
    add_command(users, "token", epilog="Example:  headwater users token ada --label phone --scope read --scope write")(
        make_token
    )
    app.add_typer(users, name="users")


def add_user(
    name: UserName,
    password_stdin: PasswordStdin = False,
    role: Annotated[str | None, typer.Option(help="owner or reader.")] = None,
) -> None:
    """Add a user. The first one with a password is the owner, and ends open mode."""
    if role is not None:
        check_role(role)
    hashed = hash_password(_read_password(password_stdin))

    async def work() -> User:
        async with open_store(current_settings()) as store:
            if role != READER:
                owner = await store.write(claim_ownership, name, hashed)
                if owner is not None:
                    return owner
            return await store.write(accounts.add_user, name, hashed, time.time(), role=role or READER)

    _report_change(run_async(work()), "was added")


def list_users() -> None:
    """Show all users."""

    async def work() -> tuple[list[User], dict[int, int]]:
        async with open_store(current_settings()) as store:
            every = await store.read(accounts.list_users)
            return every, {one.id: len(await store.read(list_subscriptions, one.id)) for one in every}

    found, feeds = run_async(work())
    if wants_json():
        print_json([_user_as_json(one) | {"subscriptions": feeds[one.id]} for one in found])
        return
    for one in found:
        note = "" if one.has_password else "  without a password"
        since = times.format_relative(one.created, time.time())
        out.print(escape(f"{one.name}  {one.role}  {feeds[one.id]} subscriptions  since {since}{note}"))


def set_password(name: UserName, password_stdin: PasswordStdin = False) -> None:
    """Set a password; every session of the user ends."""
    hashed = hash_password(_read_password(password_stdin))

    async def work() -> User:
        async with open_store(current_settings()) as store:
            user = await store.read(find_user, name)
            return await store.write(change_user, user.id, password=hashed)

    _report_change(run_async(work()), "has a new password")


def set_role(name: UserName, role: Annotated[str, typer.Argument(metavar="owner|reader")]) -> None:
    """Make somebody an owner, who may do everything, or a reader."""

    async def work() -> User:
        async with open_store(current_settings()) as store:
            user = await store.read(find_user, name)
            return await store.write(change_user, user.id, role=role)

    changed = run_async(work())
    _report_change(changed, f"is {'an' if changed.role == OWNER else 'a'} {changed.role} now")


def set_time_zone(
    name: UserName,
    zone: Annotated[
        str, typer.Argument(metavar="[ZONE]", show_default=False, help="Like Europe/Vienna; without: the server's.")
    ] = "",
) -> None:
    """Say in which time zone somebody lives: digests of their queries come by it."""

    async def work() -> User:
        async with open_store(current_settings()) as store:
            user = await store.read(find_user, name)
            return await store.write(change_user, user.id, time_zone=zone)

    changed = run_async(work())
    _report_change(changed, f"lives by {changed.time_zone or 'the time zone of the server'} now")


def remove_user(name: UserName) -> None:
    """Remove a user with all that is only theirs. Feeds that nobody else reads are no longer refreshed.

    For a day the account can be brought back (headwater removed).
    """

    async def work() -> tuple[User, int]:
        async with open_store(current_settings()) as store:
            user = await store.read(find_user, name)
            return user, await store.write(move_user_to_trash, user.id, by=Remover(None, time.time()))

    user, undo = run_async(work())
    if wants_json():
        print_json(_user_as_json(user) | {"undo": undo})
    else:
        _report_change(user, "was removed")
        print_undo_hint([undo])


def make_token(
    name: UserName,
    label: Annotated[str, typer.Option(help="What it is for.")] = "",
    scope: Annotated[list[str] | None, typer.Option(help="read, write or admin; may be given several times.")] = None,
    revoke: Annotated[int | None, typer.Option(help="Revoke the token of this number instead.")] = None,
) -> None:
    """Make an API token and print it. It is shown this once and kept only as a hash."""
    secret = make_secret()

    async def work(store: Store) -> dict[str, Any]:
        user = await store.read(find_user, name)
        if revoke is not None:
            undo = await store.write(move_api_token_to_trash, user.id, revoke, by=Remover(None, time.time()))
            return {"revoked": revoke, "undo": undo}
        made = await store.write(
            add_api_token, user.id, hash_secret(secret), label, scope or [READ, WRITE], time.time()
        )
        return {"id": made.id, "user": user.name, "scopes": made.scopes, "token": secret}

    async def with_store() -> dict[str, Any]:
        async with open_store(current_settings()) as store:
            return await work(store)

    done = run_async(with_store())
    if wants_json():
        print_json(done)
    else:
        out.print(done.get("token") or f"Token {revoke} was revoked.", markup=False)
        print_undo_hint([done["undo"]] if "undo" in done else [])


def _read_password(from_input: bool) -> str:
    """From a pipe its first line, from a terminal what is typed twice, unseen."""
    if from_input or not sys.stdin.isatty():
        given = sys.stdin.readline().rstrip("\r\n")
        if not given:
            raise InputError("Standard input has no password: it should be its first line.")
        return given
    first = Prompt.ask("Password", password=True, console=err)
    if Prompt.ask("The same again", password=True, console=err) != first:
        raise InputError("The two passwords are not the same.")
    return first


def _user_as_json(user: User) -> dict[str, Any]:
    return {
        "id": user.id,
        "name": user.name,
        "role": user.role,
        "created": user.created,
        "has_password": user.has_password,
        "time_zone": user.time_zone,
    }


def _report_change(user: User, what: str) -> None:
    if wants_json():
        print_json(_user_as_json(user))
    else:
        out.print(escape(f"{user.name} ({user.role}) {what}."))
