"""Checks passwords and the setup code, for pages and Google Reader clients, and slows guessing down."""

from __future__ import annotations

import asyncio
import hmac
import math
from collections import OrderedDict

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
from headwater.web.auth.client_address import is_loopback, visitor_address
from headwater.web.auth.cross_site import RequestRefused

FREE_ATTEMPTS = 5  # failures that cost nothing: people mistype
FIRST_WAIT, LONGEST_WAIT = 2.0, 900.0  # seconds of waiting
FORGET_AFTER = 3600.0  # seconds without a failure after which all is forgotten
MAX_REMEMBERED_KEYS = 100_000  # keys that are remembered


class LoginThrottle:
    """Failures by key, such as ("name", "ada") or ("address", "192.0.2.1")."""

    def __init__(self) -> None:
        self._failures: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()

    def seconds_to_wait(self, now: float, *keys: tuple[str, str]) -> float:
        """Return the seconds until the next attempt is allowed; 0.0 if it is.

        >>> throttle = LoginThrottle()
        >>> for _ in range(6): throttle.record_failure(0.0, ("name", "ada"))
        >>> throttle.seconds_to_wait(0.5, ("name", "ada")), throttle.seconds_to_wait(10.0, ("name", "ada"))
        (1.5, 0.0)
        """
        return max((self._wait_for_key(now, key) for key in keys), default=0.0)

    def _wait_for_key(self, now: float, key: tuple[str, str]) -> float:
        failures, last = self._failures.get(key, (0, 0.0))
        if failures <= FREE_ATTEMPTS or now - last > FORGET_AFTER:
            return 0.0
        pause = min(FIRST_WAIT * 2.0 ** min(failures - FREE_ATTEMPTS - 1, 30), LONGEST_WAIT)
        return max(0.0, last + pause - now)

    def record_failure(self, now: float, *keys: tuple[str, str]) -> None:
        for key in keys:
            failures, last = self._failures.pop(key, (0, now))
            self._failures[key] = (1 if now - last > FORGET_AFTER else failures + 1, now)
        while len(self._failures) > MAX_REMEMBERED_KEYS:
            self._failures.popitem(last=False)

    def record_success(self, *keys: tuple[str, str]) -> None:
        for key in keys:
            self._failures.pop(key, None)


class WrongPassword(RequestRefused):
    """A wrong name, password or setup code; the sentence does not say which of name and password is wrong."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message, 403, field)


class TooManyAttempts(RequestRefused):
    """Too many failures; `seconds` is how long to wait."""

    def __init__(self, seconds: float, field: str = "") -> None:
        self.seconds = math.ceil(seconds)
        message = f"Too many failed attempts. Try again in {self.seconds} seconds."
        super().__init__(message, 429, field, {"Retry-After": str(self.seconds)})


class PasswordLogin:
    """Checks passwords and the setup code, and slows guessing down."""

    def __init__(self, authenticator: Authenticator) -> None:
        self.authenticator = authenticator
        self.setup_code = make_secret()[:24]  # shown in the log while the owner has no password
        self._throttle = LoginThrottle()

    async def check_password(self, request: Request, name: str, password: str, *, by_token: bool = False) -> User:
        """Return the user. Raises WrongPassword or TooManyAttempts. With `by_token`, an API token that may read and
        write counts as a password."""
        keys = (("name", fold_name(name[:200])), ("address", visitor_address(request) or ""))
        self._require_no_wait(keys)
        store = self.authenticator.store
        user, kept = await store.read(find_password_hash, name[:200])
        if by_token and user is not None:
            found = await store.read(find_token_user, hash_secret(password))
            if found is not None and found[0].id == user.id and {READ, WRITE} <= set(found[1].scopes):
                return user
            if kept is None and user.is_owner and is_loopback(request) and await self.authenticator.is_open():
                return user
        if await asyncio.to_thread(verify_password, kept, password) and user is not None:
            self._throttle.record_success(*keys)
            return user
        self._throttle.record_failure(self.authenticator.clock(), *keys)
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
        keys = (("address", visitor_address(request) or ""), ("code", ""))
        self._require_no_wait(keys)
        if not hmac.compare_digest(code.encode("utf-8", "replace"), self.setup_code.encode()):
            self._throttle.record_failure(self.authenticator.clock(), *keys)
            raise WrongPassword(
                "This is not the link that the server's log shows; it holds until the server starts again."
            )

    async def register_reader(self, request: Request, name: str, password: str) -> User:
        """Register a reader (never an owner), if registration is open."""
        if not self.authenticator.settings.registration:
            raise WrongPassword("Registration is closed. Ask the owner for an account.")
        keys = (("registration", visitor_address(request) or ""),)
        self._require_no_wait(keys)
        self._throttle.record_failure(self.authenticator.clock(), *keys)  # so that nobody makes a thousand accounts
        hashed = await asyncio.to_thread(hash_password, password)
        return await self.authenticator.store.write(add_user, name, hashed, self.authenticator.clock())

    def _require_no_wait(self, keys: tuple[tuple[str, str], ...]) -> None:
        wait = self._throttle.seconds_to_wait(self.authenticator.clock(), *keys)
        if wait > 0:
            raise TooManyAttempts(wait)
