"""Hashes and checks passwords and tokens.

Passwords are stored as argon2 hashes. Tokens are random, so their SHA-256 is enough. Neither is ever logged.
"""

from __future__ import annotations

import hashlib
import secrets

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from headwater.errors import InputError

MIN_LENGTH, MAX_LENGTH = 8, 1000  # characters of a password
_HASHER = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)  # OWASP's minimum for argon2id, about 20 ms
# The hash of a random password that nobody knows, with the parameters above: to compute one costs 20 ms at every start.
_UNUSED_HASH = "$argon2id$v=19$m=19456,t=2,p=1$6J27R1wIfBl2YdH+Ohzgyg$7i42kRYjqrpEZgoWDQEL7FxgW12AwQEO1KFRu29kHtU"


def hash_password(password: str) -> str:
    """Hash a password; raises InputError if it is too short or too long. Takes about 20 ms of CPU."""
    if len(password) < MIN_LENGTH:
        raise InputError(f"The password is too short: use at least {MIN_LENGTH} characters.", "password")
    if len(password) > MAX_LENGTH:
        raise InputError(f"The password is too long: use at most {MAX_LENGTH} characters.", "password")
    return _HASHER.hash(password)


def verify_password(kept: str | None, password: str) -> bool:
    """Whether the password matches. Without a hash it takes as long to fail, so that names cannot be guessed."""
    try:
        return _HASHER.verify(kept or _UNUSED_HASH, password[: MAX_LENGTH + 1]) and kept is not None
    except (Argon2Error, InvalidHashError):
        return False


def make_secret() -> str:
    """Make a random token of letters, digits, - and _."""
    return secrets.token_urlsafe(32)


def hash_secret(secret: str) -> bytes:
    """Hash a token for storage."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
