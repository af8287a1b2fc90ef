"""Slows guessing down, in every place where a secret can be guessed: passwords, tokens, the setup code.

    with throttle.count_attempt(("name", "ada"), ("address", "192.0.2.1")) as attempt:
        …                      # check the secret, which may take a while
        attempt.take_back()    # it was right

An attempt is counted before its secret is checked, so that a thousand parallel guesses are not all checked.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from starlette.requests import HTTPConnection

from headwater.web.auth.client_address import visitor_group
from headwater.web.auth.cross_site import RequestRefused

FREE_ATTEMPTS = 5  # failures that cost nothing: people mistype
FREE_TOKENS = 100  # of tokens, which nobody types: an app may send many requests at once
FIRST_WAIT, MAX_WAIT = 2.0, 900.0  # seconds of waiting
FORGET_AFTER = 3600.0  # seconds without a failure after which all is forgotten
MAX_REMEMBERED_KEYS = 100_000  # keys that are remembered
TOKEN = "token"

GuessKey = tuple[str, str]
"""The name that is guessed, or the visitor who guesses: ("name", "ada"), ("address", …), ("token", …)."""


class TooManyAttempts(RequestRefused):
    """Too many failures; `seconds` is how long to wait."""

    def __init__(self, seconds: float, field: str = "") -> None:
        self.seconds = math.ceil(seconds)
        message = f"Too many failed attempts. Try again in {self.seconds} seconds."
        super().__init__(message, 429, field, {"Retry-After": str(self.seconds)})


class GuessAttempt:
    """One attempt, counted as failed until it is taken back."""

    def __init__(self) -> None:
        self.succeeded = False

    def take_back(self) -> None:
        """Note that the secret was right."""
        self.succeeded = True


class GuessThrottle:
    """Counts failed and running attempts by key. An application has one."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures: OrderedDict[GuessKey, tuple[int, float]] = OrderedDict()

    @contextmanager
    def count_attempt(self, *keys: GuessKey) -> Iterator[GuessAttempt]:
        """Count an attempt while its secret is checked, and afterwards unless it is taken back.

        Raises TooManyAttempts, before anything is checked, if one of the keys has to wait.

        >>> now = [0.0]
        >>> throttle = GuessThrottle(lambda: now[0])
        >>> for _ in range(6):
        ...     with throttle.count_attempt(("name", "ada")): pass
        >>> throttle.seconds_to_wait(("name", "ada"))
        2.0
        """
        wait = self.seconds_to_wait(*keys)
        if wait > 0:
            raise TooManyAttempts(wait)
        before = {key: self._failures.get(key, (0, 0.0))[1] for key in keys}
        now = self._clock()
        self._record(keys, now)
        attempt = GuessAttempt()
        try:
            yield attempt
        finally:
            if attempt.succeeded:
                self._take_back(before, now)

    def seconds_to_wait(self, *keys: GuessKey) -> float:
        """Return the seconds until the next attempt is allowed; 0.0 if it is."""
        return max((self._wait_for_key(key) for key in keys), default=0.0)

    def _wait_for_key(self, key: GuessKey) -> float:
        now, (failures, last) = self._clock(), self._failures.get(key, (0, 0.0))
        beyond = failures - (FREE_TOKENS if key[0] == TOKEN else FREE_ATTEMPTS)
        if beyond <= 0 or now - last > FORGET_AFTER:
            return 0.0
        return max(0.0, last + min(FIRST_WAIT * 2.0 ** min(beyond - 1, 30), MAX_WAIT) - now)

    def _record(self, keys: tuple[GuessKey, ...], now: float) -> None:
        for key in keys:
            failures, last = self._failures.pop(key, (0, now))
            self._failures[key] = (1 if now - last > FORGET_AFTER else failures + 1, now)
        while len(self._failures) > MAX_REMEMBERED_KEYS:
            self._failures.popitem(last=False)

    def _take_back(self, before: Mapping[GuessKey, float], at: float) -> None:
        """Forget the failures of a name, whose person is there; an address loses this attempt only, because somebody
        with an account of their own may guess the passwords of others. `before` has the times of the last failures."""
        for key, last_before in before.items():
            failures, last = self._failures.pop(key, (0, 0.0))
            if key[0] != "name" and failures > 1:
                self._failures[key] = (failures - 1, last_before if last == at else last)


def token_key(request: HTTPConnection) -> GuessKey:
    """Return the key under which unknown tokens of a visitor are counted."""
    return TOKEN, visitor_group(request)
