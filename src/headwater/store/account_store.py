"""The store's side of accounts: `store.accounts`. Every method is one transaction of its own.

Passwords come as hashes (`credentials.hash_password`), sessions and tokens as digests.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headwater.store.database.database import Database
from headwater.store.maintenance import trash
from headwater.store.people import READER, ApiToken, Remover, Session, User
from headwater.store.readers import accounts


class AccountStore:
    """Who may use the server."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[User]:
        """In the order in which they came."""
        return await self._database.read(accounts.list_users)

    async def find(self, ref: int | str) -> User:
        """By id (an int) or name; NotFound."""
        return await self._database.read(accounts.find_user, ref)

    async def owner(self) -> User:
        """The first owner: to whom belongs what is added without saying for whom."""
        return await self._database.read(accounts.find_owner)

    async def password(self, name: str) -> tuple[User | None, str | None]:
        """An account with the hash of its password, for `credentials.verify_password`; None, None if there is none."""
        return await self._database.read(accounts.find_password_hash, name)

    async def add(self, name: str, password: str | None, now: float, *, role: str = READER) -> User:
        """InputError where the name is taken or cannot be."""
        return await self._database.write(accounts.add_user, name, role, password, now)

    async def claim(self, name: str, password: str) -> User | None:
        """Name the owner and set the first password, which ends open mode; None if there is one already."""
        return await self._database.write(accounts.claim_ownership, name, password)

    async def change(self, user_id: int, **changes: Any) -> User:
        """name, role, password (all sessions end), time_zone or settings. The last owner stays one: InputError."""
        return await self._database.write(accounts.change_user, user_id, changes)

    async def remove(self, user_id: int, *, by: Remover) -> int:
        """The account and all that is only theirs; feeds that nobody else reads are left alone.

        It is kept, but for its sessions: the number by which it is taken back.
        """
        return await self._database.write(trash.move_user_to_trash, user_id, by)

    # sessions

    async def sign_in(self, hash: bytes, user_id: int, kind: str, label: str, now: float, expires: float) -> None:
        await self._database.write(accounts.start_session, hash, user_id, kind, label, now, expires)

    async def signed_in(self, hash: bytes, kind: str, now: float) -> Session | None:
        """The session, unless it has ended."""
        return await self._database.read(accounts.find_session, hash, kind, now)

    async def prolong(self, hash: bytes, now: float, expires: float) -> None:
        await self._database.write(accounts.extend_session, hash, now, expires)

    async def sign_out(self, hash: bytes) -> None:
        await self._database.write(accounts.end_session, hash)

    async def sign_out_everywhere(self, user_id: int, *, besides: bytes | None = None) -> int:
        """How many sessions were ended."""
        return await self._database.write(accounts.end_all_sessions, user_id, besides)

    async def sessions(self, user_id: int, now: float) -> list[Session]:
        """The last used first."""
        return await self._database.read(accounts.list_sessions, user_id, now)

    # tokens

    async def add_token(self, user_id: int, hash: bytes, label: str, scopes: Iterable[str], now: float) -> ApiToken:
        """`scopes` are read, write, admin; InputError for others."""
        return await self._database.write(accounts.add_api_token, user_id, hash, label, list(scopes), now)

    async def token_user(self, hash: bytes) -> tuple[User, ApiToken] | None:
        return await self._database.read(accounts.find_token_user, hash)

    async def token_used(self, token_id: int, now: float) -> None:
        await self._database.write(accounts.record_token_use, token_id, now)

    async def tokens(self, user_id: int) -> list[ApiToken]:
        return await self._database.read(accounts.list_api_tokens, user_id)

    async def revoke_token(self, user_id: int, token_id: int, *, by: Remover) -> int:
        """The number by which it is taken back; NotFound also where it is somebody else's."""
        return await self._database.write(trash.move_api_token_to_trash, user_id, token_id, by)
