"""People: who has an account, and the tokens of the API. Each manages their own tokens; owners manage accounts."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from headwater.credentials import digest, hash_password, new_secret, verify_password
from headwater.errors import InputError
from headwater.store.people import ApiToken, User
from headwater.web.api.endpoint import ADMIN, Answer, Call, Given, Noun
from headwater.web.api.values import Line, Listed, One, Page, Removed, Time, page, place
from headwater.when import zone

noun = Noun("people", "Accounts, and the tokens by which programs use them.")

Name = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\u0000-\u001f\u007f]*$")]
Password = Annotated[str, Meta(min_length=8, max_length=1000)]
Role = Literal["owner", "reader"]
TimeZone = Annotated[
    str, Meta(max_length=100, description="like Europe/Vienna; empty: the server's. Digests of your queries go by it")
]
Scope = Literal["read", "write", "admin"]


class UserView(Answer, frozen=True):
    id: int
    name: str
    role: str
    created: Time
    has_password: bool
    time_zone: Annotated[str | None, Meta(description="null: the server's")]


def view(user: User) -> UserView:
    return UserView(
        id=user.id,
        name=user.name,
        role=user.role,
        created=user.created,
        has_password=user.has_password,
        time_zone=user.time_zone,
    )


def checked_zone(given: str) -> str:
    """The time zone, if there is one of the name; empty stays empty."""
    return zone(given).key if given else ""


@noun.get("/users", ADMIN)
async def list_users(call: Call, asked: Listed) -> Page[UserView]:
    """List the accounts, in the order in which they came."""
    after = place(asked.cursor, int)
    rows = [user for user in await call.store.accounts.all() if after is None or user.id > after[0]]
    return page(rows[: asked.limit + 1], asked.limit, view, lambda user: (user.id,))


class NewUser(Given, frozen=True):
    name: Name
    password: Password
    role: Role = "reader"


@noun.post("/users", ADMIN, status=201)
async def add_user(call: Call, given: NewUser) -> UserView:
    """Make an account."""
    kept = await asyncio.to_thread(hash_password, given.password)
    return view(await call.store.accounts.add(given.name, kept, call.now, role=given.role))


@noun.get("/users/{id}", ADMIN)
async def show_user(call: Call, asked: One) -> UserView:
    """Show an account."""
    return view(await call.store.accounts.find(asked.id))


class UserChange(Given, frozen=True):
    """What is left out stays as it is; a new password ends all sessions of the account."""

    name: Name | UnsetType = UNSET
    role: Role | UnsetType = UNSET
    password: Password | UnsetType = UNSET
    time_zone: TimeZone | UnsetType = UNSET


@noun.patch("/users/{id}", ADMIN)
async def change_user(call: Call, asked: One, given: UserChange) -> UserView:
    """Change an account's name, role, password or time zone."""
    changes: dict[str, str] = {}
    for name in ("name", "role"):
        if not isinstance(value := getattr(given, name), UnsetType):
            changes[name] = value
    if not isinstance(given.time_zone, UnsetType):
        changes["time_zone"] = checked_zone(given.time_zone)
    if not isinstance(given.password, UnsetType):
        changes["password"] = await asyncio.to_thread(hash_password, given.password)
    found = await call.store.accounts.find(asked.id)
    return view(await call.store.accounts.change(found.id, **changes) if changes else found)


@noun.delete("/users/{id}", ADMIN)
async def remove_user(call: Call, asked: One) -> Removed:
    """Remove an account and all that is only theirs; its sessions and tokens end at once."""
    await call.store.accounts.find(asked.id)
    return Removed(undo=await call.store.accounts.remove(asked.id, by=call.remover))


# oneself


class Me(Answer, frozen=True):
    """Who you are here, and what this session or token may do."""

    user: UserView
    scopes: list[str]
    by: str


@noun.get("/me")
async def show_me(call: Call) -> Me:
    """Say who you are."""
    return Me(user=view(call.user), scopes=sorted(call.who.scopes), by=call.who.by)


class MyChange(Given, frozen=True):
    """What is left out stays as it is."""

    time_zone: TimeZone | UnsetType = UNSET


@noun.patch("/me")
async def change_me(call: Call, given: MyChange) -> UserView:
    """Change what is your own: the time zone."""
    if isinstance(given.time_zone, UnsetType):
        return view(call.user)
    return view(await call.store.accounts.change(call.user.id, time_zone=checked_zone(given.time_zone)))


class NewPassword(Given, frozen=True):
    old: Annotated[str, Meta(max_length=1000)]
    new: Password


@noun.post("/me/password")
async def change_password(call: Call, given: NewPassword) -> None:
    """Change your password; all your sessions end."""
    _, kept = await call.store.accounts.password(call.user.name)
    if not await asyncio.to_thread(verify_password, kept, given.old):
        raise InputError("The old password is another.", "old")
    changed = await asyncio.to_thread(hash_password, given.new)
    await call.store.accounts.change(call.user.id, password=changed)


class TokenView(Answer, frozen=True):
    id: int
    label: str
    scopes: list[str]
    created: Time
    last_used: float | None


def view_token(token: ApiToken) -> TokenView:
    return TokenView(
        id=token.id, label=token.label, scopes=list(token.scopes), created=token.created, last_used=token.last_used
    )


@noun.get("/tokens")
async def list_tokens(call: Call, asked: Listed) -> Page[TokenView]:
    """List your tokens; a token itself is never shown again."""
    after = place(asked.cursor, int)
    rows = [one for one in await call.store.accounts.tokens(call.user.id) if after is None or one.id > after[0]]
    return page(sorted(rows, key=lambda one: one.id)[: asked.limit + 1], asked.limit, view_token, lambda one: (one.id,))


class NewApiToken(Given, frozen=True):
    label: Line
    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=3)]


class MadeToken(Answer, frozen=True):
    """The token, shown this once."""

    token: str
    about: TokenView


@noun.post("/tokens", status=201)
async def make_token(call: Call, given: NewApiToken) -> MadeToken:
    """Make a token for a program. It can do no more than you can, and no more than what makes it."""
    if lacking := set(given.scopes) - call.who.scopes:
        raise InputError(f"You cannot give what you do not have: {', '.join(sorted(lacking))}.", "scopes")
    secret = new_secret()
    made = await call.store.accounts.add_token(call.user.id, digest(secret), given.label, given.scopes, call.now)
    return MadeToken(token=secret, about=view_token(made))


@noun.delete("/tokens/{id}")
async def revoke_token(call: Call, asked: One) -> Removed:
    """Make a token of yours worthless, at once."""
    return Removed(undo=await call.store.accounts.revoke_token(call.user.id, asked.id, by=call.remover))
