"""Checks passwords and the setup code, for pages and Google Reader clients."""

from __future__ import annotations

import asyncio
import hmac

from starlette.requests import Request

from headwater.credentials import hash_password, hash_secret, make_secret, verify_password
from headwater.store.readers.accounts import (
    READ,
    WRITE,
    User,
    add_user,
    claim_ownership,
    find_password_hash,
    find_token_user,
    fold_name,
)
from headwater.web.auth.authentication import Authenticator
from headwater.web.auth.client_address import is_loopback, visitor_group
from headwater.web.auth.cross_site import RequestRefused, check_host
from headwater.web.auth.guess_throttle import GuessKey


class WrongPassword(RequestRefused):
    """A wrong name, password or setup code; the sentence does not say which of name and password is wrong."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message, 403, field)


class PasswordLogin:
    """Checks passwords and the setup code; the throttle of the authenticator counts every attempt."""

    def __init__(self, authenticator: Authenticator) -> None:
        self.authenticator = authenticator
        self.setup_code = make_secret()[:24]  # shown in the log while the owner has no password
        self._throttle = authenticator.throttle

    async def check_password(self, request: Request, name: str, password: str) -> User:
        """Return the user. Raises WrongPassword or TooManyAttempts."""
        with self._throttle.count_attempt(*_login_keys(request, name)) as attempt:
            user, kept = await self.authenticator.store.read(find_password_hash, name[:200])
            if not await asyncio.to_thread(verify_password, kept, password) or user is None:
                raise WrongPassword("Wrong name or password.")
            attempt.take_back()
            return user

    async def check_client(self, request: Request, name: str, password: str) -> tuple[User, int | None]:
        """Return the user of a reader app, who gives the password or an API token that may read and write, and the
        token's id. Raises WrongPassword, TooManyAttempts, or RequestRefused under a foreign host name."""
        if is_loopback(request):  # a web page may have pointed its own name at this machine
            check_host(request, self.authenticator.settings.own_names)
        with self._throttle.count_attempt(*_login_keys(request, name)) as attempt:
            store = self.authenticator.store
            user, kept = await store.read(find_password_hash, name[:200])
            found = await store.read(find_token_user, hash_secret(password))
            if user is not None and found is not None and found[0].id == user.id:
                if {READ, WRITE} <= set(found[1].scopes):
                    attempt.take_back()
                    return user, found[1].id
            elif await asyncio.to_thread(verify_password, kept, password) and user is not None:
                attempt.take_back()
                return user, None
            raise WrongPassword("Wrong name or password.")

    async def set_up_owner(self, request: Request, code: str, name: str, password: str) -> User:
        """Make the visitor with the setup code the owner. The loopback needs no code."""
        if not await self.authenticator.is_open():
            raise WrongPassword("The owner has a password already. Sign in.")
        if not is_loopback(request):
            self.check_setup_code(request, code)
        owner = await self.authenticator.store.write(
            claim_ownership, name, await asyncio.to_thread(hash_password, password)
        )
        if owner is None:
            raise WrongPassword("The owner has a password already. Sign in.")
        return owner

    def check_setup_code(self, request: Request, code: str) -> None:
        """Raise WrongPassword or TooManyAttempts for a wrong setup code."""
        with self._throttle.count_attempt(("address", visitor_group(request)), ("code", "")) as attempt:
            if not hmac.compare_digest(code.encode("utf-8", "replace"), self.setup_code.encode()):
                raise WrongPassword(
                    "This is not the link that the server's log shows; it holds until the server starts again."
                )
            attempt.take_back()

    async def register_reader(self, request: Request, name: str, password: str) -> User:
        """Register a reader (never an owner), if registration is open."""
        if not self.authenticator.settings.registration:
            raise WrongPassword("Registration is closed. Ask the owner for an account.")
        with self._throttle.count_attempt(("registration", visitor_group(request))):
            # Never taken back, so that nobody makes a thousand accounts.
            hashed = await asyncio.to_thread(hash_password, password)
            return await self.authenticator.store.write(add_user, name, hashed, self.authenticator.clock())


def _login_keys(request: Request, name: str) -> tuple[GuessKey, GuessKey]:
    return ("name", fold_name(name[:200])), ("address", visitor_group(request))
