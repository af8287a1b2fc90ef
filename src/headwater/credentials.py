"""Passwords and secrets: how they are made, and what of them is kept.

Passwords are kept as argon2 hashes; tokens are random, so their SHA-256 is enough. Neither is ever logged.
"""

from __future__ import annotations

import hashlib
import secrets

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from headwater.errors import InputError

MIN_LENGTH, MAX_LENGTH = 8, 1000  # characters of a password
_HASHER = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)  # OWASP's least for argon2id: 20 ms
_UNUSED_HASH = _HASHER.hash(secrets.token_urlsafe())


def hash_password(password: str) -> str:
    """What is kept of a password; InputError where it is too short or absurdly long. Takes some 20 ms of CPU."""
    if len(password) < MIN_LENGTH:
        raise InputError(f"A password has {MIN_LENGTH} characters at least.", "password")
    if len(password) > MAX_LENGTH:
        raise InputError(f"A password has {MAX_LENGTH} characters at most.", "password")
    return _HASHER.hash(password)


def verify_password(kept: str | None, password: str) -> bool:
    """Whether it is the password. Without one it is wrong, and takes as long to be: names cannot be found out."""
    try:
        return _HASHER.verify(kept or _UNUSED_HASH, password[: MAX_LENGTH + 1]) and kept is not None
    except (Argon2Error, InvalidHashError):
        return False


def make_secret() -> str:
    """A token nobody can guess, of letters, digits, - and _ only."""
    return secrets.token_urlsafe(32)


def hash_secret(secret: str) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
