"""`headwater users`: accounts, by whoever has the data folder."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.prompt import Prompt

from headwater import when
from headwater.cli.common import as_json, command, err, group, out, print_json, settings
from headwater.cli.removed import how_to_undo
from headwater.cli.work import opened, run
from headwater.credentials import digest, hash_password, new_secret
from headwater.errors import InputError
from headwater.store.accounts import check_role
from headwater.store.people import OWNER, READ, READER, WRITE, Remover, User
from headwater.store.store import Store

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
FromInput = Annotated[bool, typer.Option("--password-stdin", help="Read the password from standard input.")]


def register(app: typer.Typer) -> None:
    users = group("Who may use the server.")
    command(users, "add", epilog="Example:  headwater users add ada --password-stdin < secret.txt")(add)
    command(users, "list", epilog="Example:  headwater users list --json")(list_)
    command(users, "password", epilog="Example:  headwater users password ada")(password)
    command(users, "role", epilog="Example:  headwater users role ada owner")(role)
    command(users, "time-zone", epilog="Example:  headwater users time-zone ada Europe/Vienna")(time_zone)
    command(users, "remove", epilog="Example:  headwater users remove ada")(remove)
    command(users, "token", epilog="Example:  headwater users token ada --label phone --scope read --scope write")(
        token
    )
    app.add_typer(users, name="users")


def add(
    name: Name,
    password_stdin: FromInput = False,
    role: Annotated[str | None, typer.Option(help="owner or reader.")] = None,
) -> None:
    """Add a user. The first one with a password is the owner, and ends open mode."""
    if role is not None:
        check_role(role)
    hashed = hash_password(_password(password_stdin))

    async def work() -> User:
        async with opened(settings()) as store:
            if role != READER:
                owner = await store.accounts.claim(name, hashed)
                if owner is not None:
                    return owner
            return await store.accounts.add(name, hashed, time.time(), role=role or READER)

    _done(run(work()), "was added")


def list_() -> None:
    """Show all users."""

    async def work() -> tuple[list[User], dict[int, int]]:
        async with opened(settings()) as store:
            every = await store.accounts.all()
            return every, {one.id: len(await store.reading.subscriptions(one.id)) for one in every}

    found, feeds = run(work())
    if as_json():
        print_json([_plain(one) | {"subscriptions": feeds[one.id]} for one in found])
        return
    for one in found:
        note = "" if one.has_password else "  without a password"
        since = when.relative(one.created, time.time())
        out.print(escape(f"{one.name}  {one.role}  {feeds[one.id]} subscriptions  since {since}{note}"))


def password(name: Name, password_stdin: FromInput = False) -> None:
    """Set a password; every session of the user ends."""
    hashed = hash_password(_password(password_stdin))

    async def work() -> User:
        async with opened(settings()) as store:
            user = await store.accounts.find(name)
            return await store.accounts.change(user.id, password=hashed)

    _done(run(work()), "has a new password")


def role(name: Name, role: Annotated[str, typer.Argument(metavar="owner|reader")]) -> None:
    """Make somebody an owner, who may do everything, or a reader."""

    async def work() -> User:
        async with opened(settings()) as store:
            user = await store.accounts.find(name)
            return await store.accounts.change(user.id, role=role)

    changed = run(work())
    _done(changed, f"is {'an' if changed.role == OWNER else 'a'} {changed.role} now")


def time_zone(
    name: Name,
    zone: Annotated[
        str, typer.Argument(metavar="[ZONE]", show_default=False, help="Like Europe/Vienna; without: the server's.")
    ] = "",
) -> None:
    """Say in which time zone somebody lives: digests of their queries come by it."""

    async def work() -> User:
        async with opened(settings()) as store:
            user = await store.accounts.find(name)
            return await store.accounts.change(user.id, time_zone=zone)

    changed = run(work())
    _done(changed, f"lives by {changed.time_zone or 'the time zone of the server'} now")


def remove(name: Name) -> None:
    """Remove a user with all that is only theirs. Feeds that nobody else reads are no longer refreshed.

    For a day the account can be brought back (headwater removed).
    """

    async def work() -> tuple[User, int]:
        async with opened(settings()) as store:
            user = await store.accounts.find(name)
            return user, await store.accounts.remove(user.id, by=Remover(None, time.time()))

    user, undo = run(work())
    if as_json():
        print_json(_plain(user) | {"undo": undo})
    else:
        _done(user, "was removed")
        how_to_undo([undo])


def token(
    name: Name,
    label: Annotated[str, typer.Option(help="What it is for.")] = "",
    scope: Annotated[list[str] | None, typer.Option(help="read, write or admin; may be given several times.")] = None,
    revoke: Annotated[int | None, typer.Option(help="Revoke the token of this number instead.")] = None,
) -> None:
    """Make an API token and print it. It is shown this once and kept only as a hash."""
    secret = new_secret()

    async def work(store: Store) -> dict[str, Any]:
        user = await store.accounts.find(name)
        if revoke is not None:
            undo = await store.accounts.revoke_token(user.id, revoke, by=Remover(None, time.time()))
            return {"revoked": revoke, "undo": undo}
        made = await store.accounts.add_token(user.id, digest(secret), label, scope or [READ, WRITE], time.time())
        return {"id": made.id, "user": user.name, "scopes": made.scopes, "token": secret}

    async def with_store() -> dict[str, Any]:
        async with opened(settings()) as store:
            return await work(store)

    done = run(with_store())
    if as_json():
        print_json(done)
    else:
        out.print(done.get("token") or f"Token {revoke} was revoked.", markup=False)
        how_to_undo([done["undo"]] if "undo" in done else [])


def _password(from_input: bool) -> str:
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


def _plain(user: User) -> dict[str, Any]:
    return {
        "id": user.id,
        "name": user.name,
        "role": user.role,
        "created": user.created,
        "has_password": user.has_password,
        "time_zone": user.time_zone,
    }


def _done(user: User, what: str) -> None:
    if as_json():
        print_json(_plain(user))
    else:
        out.print(escape(f"{user.name} ({user.role}) {what}."))
