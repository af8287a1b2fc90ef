"""Endpoints of accounts, which owners manage, and of each user's own API tokens."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from headwater.credentials import hash_password, hash_secret, make_secret
from headwater.errors import InputError
from headwater.store.maintenance.trash import move_api_token_to_trash, move_user_to_trash
from headwater.store.readers import accounts
from headwater.store.readers.accounts import (
    add_api_token,
    find_user,
    list_api_tokens,
)
from headwater.times import parse_time_zone
from headwater.web.api.api_types import (
    IdParameters,
    ListPage,
    ListParameters,
    RemovedView,
    ShortText,
    Time,
    decode_cursor,
    paginate,
)
from headwater.web.api.endpoint import ADMIN, ApiCall, EndpointGroup, RequestBody, ResponseBody
from headwater.web.auth.password_login import WrongPassword

account_group = EndpointGroup("people", "Accounts, and the tokens that give programs access to them.")

UserName = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\u0000-\u001f\u007f]*$")]
Password = Annotated[str, Meta(min_length=8, max_length=1000)]
Role = Literal["owner", "reader"]
TimeZone = Annotated[
    str,
    Meta(max_length=100, description="such as Europe/Vienna; empty: the server's. It sets the time of daily digests"),
]
Scope = Literal["read", "write", "admin"]


class UserView(ResponseBody, frozen=True):
    id: int
    name: str
    role: str
    created: Time
    has_password: bool
    time_zone: Annotated[str | None, Meta(description="null: the server's")]


def validate_time_zone(given: str) -> str:
    """Return the name of a time zone; empty stays empty. Raise InputError for an unknown one."""
    return parse_time_zone(given).key if given else ""


@account_group.get("/users", ADMIN)
async def list_users(call: ApiCall, parameters: ListParameters) -> ListPage[UserView]:
    """List the accounts in the order in which they were created."""
    after = decode_cursor(parameters.cursor, int)
    rows = [user for user in await call.store.read(accounts.list_users) if after is None or user.id > after[0]]
    return paginate(rows[: parameters.limit + 1], parameters.limit, UserView.from_row, lambda user: (user.id,))


class UserRequest(RequestBody, frozen=True):
    name: UserName
    password: Password
    role: Role = "reader"


@account_group.post("/users", ADMIN, status=201)
async def add_user(call: ApiCall, body: UserRequest) -> UserView:
    """Create an account."""
    kept = await asyncio.to_thread(hash_password, body.password)
    return UserView.from_row(await call.store.write(accounts.add_user, body.name, kept, call.now, role=body.role))


@account_group.get("/users/{id}", ADMIN)
async def show_user(call: ApiCall, parameters: IdParameters) -> UserView:
    """Show an account."""
    return UserView.from_row(await call.store.read(find_user, parameters.id))


class UserChange(RequestBody, frozen=True):
    """Fields that are left out keep their values; a new password ends all sessions of the account."""

    name: UserName | UnsetType = UNSET
    role: Role | UnsetType = UNSET
    password: Password | UnsetType = UNSET
    time_zone: TimeZone | UnsetType = UNSET


@account_group.patch("/users/{id}", ADMIN)
async def change_user(call: ApiCall, parameters: IdParameters, body: UserChange) -> UserView:
    """Change an account's name, role, password or time zone."""
    changes: dict[str, str] = {}
    for name in ("name", "role"):
        if not isinstance(value := getattr(body, name), UnsetType):
            changes[name] = value
    if not isinstance(body.time_zone, UnsetType):
        changes["time_zone"] = validate_time_zone(body.time_zone)
    if not isinstance(body.password, UnsetType):
        changes["password"] = await asyncio.to_thread(hash_password, body.password)
    found = await call.store.read(find_user, parameters.id)
    return UserView.from_row(await call.store.write(accounts.change_user, found.id, **changes) if changes else found)


@account_group.delete("/users/{id}", ADMIN)
async def remove_user(call: ApiCall, parameters: IdParameters) -> RemovedView:
    """Remove an account and its private data; its sessions and tokens end immediately."""
    await call.store.read(find_user, parameters.id)
    return RemovedView(undo=await call.store.write(move_user_to_trash, parameters.id, by=call.remover))


# the caller's own account


class MyAccountView(ResponseBody, frozen=True):
    """Your account, and the scopes of this session or token."""

    user: UserView
    scopes: list[str]
    by: str


@account_group.get("/me")
async def show_me(call: ApiCall) -> MyAccountView:
    """Show your account."""
    return MyAccountView(user=UserView.from_row(call.user), scopes=sorted(call.who.scopes), by=call.who.by)


class MyAccountChange(RequestBody, frozen=True):
    """Fields that are left out keep their values."""

    time_zone: TimeZone | UnsetType = UNSET


@account_group.patch("/me")
async def change_me(call: ApiCall, body: MyAccountChange) -> UserView:
    """Change your time zone."""
    if isinstance(body.time_zone, UnsetType):
        return UserView.from_row(call.user)
    return UserView.from_row(
        await call.store.write(accounts.change_user, call.user.id, time_zone=validate_time_zone(body.time_zone))
    )


class PasswordChange(RequestBody, frozen=True):
    old: Annotated[str, Meta(max_length=1000)]
    new: Password


@account_group.post("/me/password")
async def change_password(call: ApiCall, body: PasswordChange) -> None:
    """Change your password and end all your sessions."""
    try:
        await call.site.login.check_password(call.request, call.user.name, body.old)
    except WrongPassword as error:
        raise InputError("The old password is wrong.", "old") from error
    changed = await asyncio.to_thread(hash_password, body.new)
    await call.store.write(accounts.change_user, call.user.id, password=changed)


class ApiTokenView(ResponseBody, frozen=True):
    id: int
    label: str
    scopes: list[str]
    created: Time
    last_used: float | None


@account_group.get("/tokens")
async def list_tokens(call: ApiCall, parameters: ListParameters) -> ListPage[ApiTokenView]:
    """List your API tokens, without the secrets."""
    after = decode_cursor(parameters.cursor, int)
    rows = [one for one in await call.store.read(list_api_tokens, call.user.id) if after is None or one.id > after[0]]
    return paginate(
        sorted(rows, key=lambda one: one.id)[: parameters.limit + 1],
        parameters.limit,
        ApiTokenView.from_row,
        lambda one: (one.id,),
    )


class ApiTokenRequest(RequestBody, frozen=True):
    label: ShortText
    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=3)]


class CreatedApiToken(ResponseBody, frozen=True):
    """The new token, which is shown only once."""

    token: str
    about: ApiTokenView


@account_group.post("/tokens", status=201)
async def make_token(call: ApiCall, body: ApiTokenRequest) -> CreatedApiToken:
    """Create an API token; its scopes are limited to those of this session or token."""
    if lacking := set(body.scopes) - call.who.scopes:
        raise InputError(f"You lack the scopes {', '.join(sorted(lacking))}. Leave them out.", "scopes")
    secret = make_secret()
    made = await call.store.write(add_api_token, call.user.id, hash_secret(secret), body.label, body.scopes, call.now)
    return CreatedApiToken(token=secret, about=ApiTokenView.from_row(made))


@account_group.delete("/tokens/{id}")
async def revoke_token(call: ApiCall, parameters: IdParameters) -> RemovedView:
    """Revoke one of your API tokens immediately."""
    return RemovedView(
        undo=await call.store.write(move_api_token_to_trash, call.user.id, parameters.id, by=call.remover)
    )
