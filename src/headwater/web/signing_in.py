"""Checking a name and a password, slowly for those who guess. The pages and the Google Reader API both come here."""

from __future__ import annotations

import asyncio
import hmac
import math

from starlette.requests import Request

from headwater.credentials import digest, hash_password, new_secret, verify_password
from headwater.errors import InputError
from headwater.store.accounts import name_key
from headwater.store.people import READ, WRITE, User
from headwater.web.backoff import Backoff
from headwater.web.session import Visitors, is_loopback, visitor


class Wrong(InputError):
    """Name and password do not belong together; nobody learns which of them is wrong."""


class TooSoon(InputError):
    """Too many failures; `seconds` is how long to wait."""

    def __init__(self, seconds: float, field: str = "") -> None:
        self.seconds = math.ceil(seconds)
        super().__init__(f"Too many failed attempts. Try again in {self.seconds} seconds.", field)


class Door:
    """Who knows the password, or the code of the first start, comes in."""

    def __init__(self, visitors: Visitors) -> None:
        self.visitors = visitors
        self.code = new_secret()[:24]  # shown in the log while the owner has no password
        self._backoff = Backoff()

    async def enter(self, request: Request, name: str, password: str, *, by_token: bool = False) -> User:
        """The user; Wrong or TooSoon. With `by_token` an API token that may read and write is a password too."""
        keys = (("name", name_key(name[:200])), ("address", visitor(request) or ""))
        self._check(keys)
        store = self.visitors.store
        user, kept = await store.accounts.password(name[:200])
        if by_token and user is not None:
            found = await store.accounts.token_user(digest(password))
            if found is not None and found[0].id == user.id and {READ, WRITE} <= set(found[1].scopes):
                return user
            if kept is None and user.is_owner and is_loopback(request) and await self.visitors.open_mode():
                return user
        if await asyncio.to_thread(verify_password, kept, password) and user is not None:
            self._backoff.succeeded(*keys)
            return user
        self._backoff.failed(self.visitors.clock(), *keys)
        raise Wrong("Name and password do not belong together.")

    async def welcome(self, request: Request, code: str, name: str, password: str) -> User:
        """Make whoever has the code of the first start the owner. From the loopback no code is needed."""
        if not await self.visitors.open_mode():
            raise Wrong("The owner has a password already. Sign in.")
        if not is_loopback(request):
            self.check_code(request, code)
        owner = await self.visitors.store.accounts.claim(name, await asyncio.to_thread(hash_password, password))
        if owner is None:
            raise Wrong("The owner has a password already. Sign in.")
        return owner

    def check_code(self, request: Request, code: str) -> None:
        """Wrong or TooSoon."""
        keys = (("address", visitor(request) or ""), ("code", ""))
        self._check(keys)
        if not hmac.compare_digest(code.encode("utf-8", "replace"), self.code.encode()):
            self._backoff.failed(self.visitors.clock(), *keys)
            raise Wrong("This is not the link that the server's log shows; it holds until the server starts again.")

    async def register(self, request: Request, name: str, password: str) -> User:
        """A new reader, never an owner, where the operator opened registration."""
        if not self.visitors.access.registration:
            raise Wrong("Registration is closed. Ask the owner for an account.")
        keys = (("registration", visitor(request) or ""),)
        self._check(keys)
        self._backoff.failed(self.visitors.clock(), *keys)  # so that nobody makes a thousand accounts
        hashed = await asyncio.to_thread(hash_password, password)
        return await self.visitors.store.accounts.add(name, hashed, self.visitors.clock())

    def _check(self, keys: tuple[tuple[str, str], ...]) -> None:
        wait = self._backoff.wait(self.visitors.clock(), *keys)
        if wait > 0:
            raise TooSoon(wait)
