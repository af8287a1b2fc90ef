"""Adds and finds users, their sessions and API tokens; passwords and secrets arrive here as hashes only."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import Connection, Row, bindparam, delete, func, insert, or_, select, update

from headwater.errors import InputError, NotFound
from headwater.store.schema.metadata import replace_unstorable
from headwater.store.schema.reader_tables import USER_IS_LIVE, api_token, session, subscription, user
from headwater.times import parse_time_zone

OWNER, READER = "owner", "reader"


ROLES = (OWNER, READER)


READ, WRITE, ADMIN = "read", "write", "admin"


SCOPES = (READ, WRITE, ADMIN)


@dataclass(frozen=True, slots=True)
class User:
    """An account. It does not contain the password's hash, so that printing a user reveals no secret."""

    id: int
    name: str
    role: str
    created: float
    has_password: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    time_zone: str | None = None  # None: the server's

    @property
    def is_owner(self) -> bool:
        """Tell whether the user administers the server."""
        return self.role == OWNER


@dataclass(frozen=True, slots=True)
class Session:
    """A session of a signed-in user; `kind` is page (a browser's cookie) or client (Google Reader API)."""

    user: User
    kind: str
    label: str
    created: float
    last_seen: float
    expires: float


@dataclass(frozen=True, slots=True)
class ApiToken:
    """An API token without its secret."""

    id: int
    user_id: int
    label: str
    scopes: tuple[str, ...]
    created: float
    last_used: float | None


MAX_NAME_LENGTH = 64
MAX_SESSIONS = 100  # of one person; the longest unused go first
_USERS = select(user).where(USER_IS_LIVE)
USE_INTERVAL = 60.0  # seconds before the time of the last use is written again


def fold_name(name: str) -> str:
    """Fold a name so that equal names compare equal.

    >>> fold_name("Ada") == fold_name("ADA")
    True
    """
    return unicodedata.normalize("NFKC", name).casefold()


def validate_name(name: str) -> str:
    """Return the name without surrounding blanks; InputError if it cannot be a user's name."""
    name = name.strip()
    if not name:
        raise InputError("A name is needed.", "name")
    if len(name) > MAX_NAME_LENGTH:
        raise InputError(f"A name has {MAX_NAME_LENGTH} characters at most.", "name")
    if not name.isprintable() or set(name) & set("/\\") or name != replace_unstorable(name):
        raise InputError("A name has letters, digits and signs, but no slashes and nothing invisible.", "name")
    return name


def _read_user(row: Row[Any]) -> User:
    return _build_user(row.id, row.name, row.role, row.created, row.password is not None, row.settings, row.time_zone)


def list_users(connection: Connection) -> list[User]:
    """List all users by id."""
    return [_read_user(row) for row in connection.execute(_USERS.order_by(user.c.id))]


def find_user(connection: Connection, ref: int | str) -> User:
    """Find a user by id (an int) or name; NotFound if there is none."""
    which = user.c.id == ref if isinstance(ref, int) else user.c.name_key == fold_name(ref)
    row = connection.execute(_USERS.where(which)).first()
    if row is None:
        raise NotFound(f"There is no user “{ref}”. “headwater users list” shows all.")
    return _read_user(row)


def find_owner(connection: Connection) -> User:
    """Find the first owner, to whom additions belong that name no user."""
    row = connection.execute(_USERS.where(user.c.role == OWNER).order_by(user.c.id).limit(1)).first()
    if row is None:
        raise NotFound("There is no owner.")
    return _read_user(row)


def find_password_hash(connection: Connection, name: str) -> tuple[User | None, str | None]:
    """Find a user by name, with the hash of the password; (None, None) if there is none."""
    row = connection.execute(_USERS.where(user.c.name_key == fold_name(name))).first()
    return (None, None) if row is None else (_read_user(row), row.password)


def add_user(connection: Connection, name: str, password: str | None, now: float, *, role: str = READER) -> User:
    """Add an account. InputError if the name is taken or cannot be one."""
    name = validate_name(name)
    check_role(role)
    _require_free_name(connection, name, None)
    values = {"name": name, "name_key": fold_name(name), "role": role, "password": password, "created": now}
    connection.execute(insert(user), values)
    return find_user(connection, name)


def claim_ownership(connection: Connection, name: str, password: str) -> User | None:
    """Give the owner a name and the first password; None if there is one already.

    Ends open mode, and all sessions and API tokens: anybody at the machine could make them.
    """
    first = find_owner(connection)
    if first.has_password:
        return None
    name = validate_name(name)
    _require_free_name(connection, name, first.id)
    values = {"name": name, "name_key": fold_name(name), "password": password}
    done = connection.execute(update(user).where(user.c.id == first.id, user.c.password.is_(None)).values(values))
    if not done.rowcount:
        return None
    _end_what_came_before(connection, first)
    return find_user(connection, first.id)


def change_user(connection: Connection, /, user_id: int, **changes: Any) -> User:
    """Change name, role, password (a hash; all sessions end, at the first one also all API tokens), time_zone (empty:
    the server's) or settings.

    InputError if the only owner would no longer be one.
    """
    now = find_user(connection, user_id)
    values = dict(changes)
    if "name" in values:
        values["name"] = validate_name(values["name"])
        values["name_key"] = fold_name(values["name"])
        _require_free_name(connection, values["name"], user_id)
    if "role" in values:
        check_role(values["role"])
        if now.is_owner and values["role"] != OWNER:
            _require_another_owner(connection)
    if "time_zone" in values:
        values["time_zone"] = parse_time_zone(values["time_zone"].strip()).key if values["time_zone"] else None
    if "settings" in values:
        values["settings"] = orjson.dumps(values["settings"]).decode()
    if "password" in values:
        _end_what_came_before(connection, now)
    if values:
        connection.execute(update(user).where(user.c.id == user_id).values(values))
    return find_user(connection, user_id)


def _end_what_came_before(connection: Connection, one: User) -> None:
    """End the sessions of an account that gets a password; before its first one anybody could make tokens, too."""
    end_all_sessions(connection, one.id)
    if not one.has_password:
        connection.execute(delete(api_token).where(api_token.c.user_id == one.id))


def require_removable(connection: Connection, user_id: int) -> User:
    """Find a user who can be removed; InputError for the only owner."""
    found = find_user(connection, user_id)
    if found.is_owner:
        _require_another_owner(connection)
    return found


def delete_user(connection: Connection, user_id: int) -> list[int]:
    """Delete an account for good, with all that is only theirs; returns the feeds they read, which may now be
    nobody's."""
    read = list(connection.execute(select(subscription.c.feed_id).where(subscription.c.user_id == user_id)).scalars())
    connection.execute(delete(user).where(user.c.id == user_id))
    return read


def check_role(role: str) -> None:
    """Raise InputError unless this is a role."""
    if role not in ROLES:
        raise InputError(f"There is no role “{role}”; there are {' and '.join(ROLES)}.", "role")


def _require_another_owner(connection: Connection) -> None:
    if (
        connection.execute(
            select(func.count()).select_from(user).where(user.c.role == OWNER, USER_IS_LIVE)
        ).scalar_one()
        < 2
    ):
        raise InputError("This is the only owner. Make somebody else an owner first.")


def _require_free_name(connection: Connection, name: str, besides: int | None) -> None:
    taken = connection.execute(select(user.c.id).where(user.c.name_key == fold_name(name), USER_IS_LIVE)).scalar()
    if taken is not None and taken != besides:
        raise InputError(f"There is a user “{name}” already. Choose another name.", "name")


def start_session(
    connection: Connection,
    hash: bytes,
    user_id: int,
    kind: str,
    label: str,
    now: float,
    expires: float,
    token_id: int | None = None,
) -> None:
    """Start a session; deletes expired ones, and the longest unused if the user has too many.

    One that is started with an API token (`token_id`) ends with it.
    """
    connection.execute(delete(session).where(session.c.expires <= now))
    mine = select(session.c.hash).where(session.c.user_id == user_id).order_by(session.c.last_seen.desc())
    old = connection.execute(mine.offset(MAX_SESSIONS - 1)).scalars().all()
    if old:
        connection.execute(delete(session).where(session.c.hash.in_(old)))
    values = {"hash": hash, "user_id": user_id, "kind": kind, "label": label[:200], "token_id": token_id}
    connection.execute(insert(session), values | {"created": now, "last_seen": now, "expires": expires})


def find_session(connection: Connection, hash: bytes, kind: str, now: float) -> Session | None:
    """Find a session by the hash of its secret; None if there is none or it has ended."""
    row = connection.execute(_SESSION_QUERY, {"hash": hash, "kind": kind, "now": now}).first()
    if row is None:
        return None
    *of, label, since, last_seen, expires = row
    return Session(_build_user(*of), kind, label, since, last_seen, expires)


# Run with every request, so they are built once.
_SELECT_USER = select(
    user.c.id, user.c.name, user.c.role, user.c.created, user.c.password.is_not(None), user.c.settings, user.c.time_zone
).where(USER_IS_LIVE)
_SESSION_QUERY = (
    _SELECT_USER.add_columns(session.c.label, session.c.created, session.c.last_seen, session.c.expires)
    .join_from(session, user, user.c.id == session.c.user_id)
    .where(
        session.c.hash == bindparam("hash"),
        session.c.kind == bindparam("kind"),
        session.c.expires > bindparam("now"),
        or_(session.c.token_id.is_(None), session.c.token_id.in_(select(api_token.c.id))),
    )
)
_TOKEN_QUERY = (
    _SELECT_USER.add_columns(
        api_token.c.id, api_token.c.label, api_token.c.scopes, api_token.c.created, api_token.c.last_used
    )
    .join_from(api_token, user, user.c.id == api_token.c.user_id)
    .where(api_token.c.hash == bindparam("hash"))
)


def _build_user(
    id: int, name: str, role: str, created: float, has_password: bool, settings: str | None, time_zone: str | None
) -> User:
    return User(id, name, role, created, bool(has_password), orjson.loads(settings) if settings else {}, time_zone)


def extend_session(connection: Connection, hash: bytes, now: float, expires: float) -> None:
    """Record that a session was used, and let it last until `expires`."""
    connection.execute(update(session).where(session.c.hash == hash).values(last_seen=now, expires=expires))


def end_session(connection: Connection, hash: bytes) -> None:
    """End a session."""
    connection.execute(delete(session).where(session.c.hash == hash))


def end_all_sessions(connection: Connection, user_id: int) -> int:
    """End the sessions of a user, and return how many there were."""
    return connection.execute(delete(session).where(session.c.user_id == user_id)).rowcount


def add_api_token(
    connection: Connection, user_id: int, hash: bytes, label: str, scopes: Iterable[str], now: float
) -> ApiToken:
    """Add an API token by the hash of its secret. InputError for unknown scopes or none."""
    wanted = [scope for scope in SCOPES if scope in (given := set(scopes))]
    if unknown := given - set(SCOPES):
        raise InputError(f"There is no scope “{min(unknown)}”; there are {', '.join(SCOPES)}.", "scopes")
    if not wanted:
        raise InputError(f"A token needs a scope at least: {', '.join(SCOPES)}.", "scopes")
    label = label.strip()[:200]
    values = {"hash": hash, "user_id": user_id, "label": label, "scopes": " ".join(wanted), "created": now}
    id, label = connection.execute(insert(api_token).returning(api_token.c.id, api_token.c.label), values).one()
    return ApiToken(id, user_id, label, tuple(wanted), now, None)


def find_token_user(connection: Connection, hash: bytes) -> tuple[User, ApiToken] | None:
    """Find the user and the API token by the hash of the token's secret; None if there is none."""
    row = connection.execute(_TOKEN_QUERY, {"hash": hash}).first()
    if row is None:
        return None
    *of, id, label, scopes, created, last_used = row
    owner = _build_user(*of)
    return owner, ApiToken(id, owner.id, label, tuple(scopes.split()), created, last_used)


def find_client(connection: Connection, hash: bytes, kind: str, now: float) -> Session | tuple[User, ApiToken] | None:
    """Find a session of this kind or, if there is none, an API token, by the hash of its secret."""
    return find_session(connection, hash, kind, now) or find_token_user(connection, hash)


def record_token_use(connection: Connection, token_id: int, now: float) -> None:
    """Record when an API token was last used."""
    connection.execute(update(api_token).where(api_token.c.id == token_id).values(last_used=now))


def list_api_tokens(connection: Connection, user_id: int) -> list[ApiToken]:
    """List the API tokens of a user."""
    rows = connection.execute(select(api_token).where(api_token.c.user_id == user_id).order_by(api_token.c.id))
    return [
        ApiToken(row.id, row.user_id, row.label, tuple(row.scopes.split()), row.created, row.last_used) for row in rows
    ]
