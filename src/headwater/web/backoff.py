"""Guessing is slowed down: after a few failures a name, or an address, has to wait, longer each time."""

from __future__ import annotations

from collections import OrderedDict

FREE_ATTEMPTS = 5  # failures that cost nothing: people mistype
FIRST_WAIT, LONGEST_WAIT = 2.0, 900.0  # seconds of waiting
FORGET_AFTER = 3600.0  # seconds without a failure after which all is forgotten
MOST_KEYS = 100_000  # keys that are remembered


class LoginThrottle:
    """Failures by key, such as ("name", "ada") or ("address", "192.0.2.1")."""

    def __init__(self) -> None:
        self._failures: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()

    def seconds_to_wait(self, now: float, *keys: tuple[str, str]) -> float:
        """How many seconds the next try has to wait; 0.0 if it need not.

        >>> backoff = LoginThrottle()
        >>> for _ in range(6): backoff.failed(0.0, ("name", "ada"))
        >>> backoff.wait(0.5, ("name", "ada")), backoff.wait(10.0, ("name", "ada")), backoff.wait(0.5, ("name", "bo"))
        (1.5, 0.0, 0.0)
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
        while len(self._failures) > MOST_KEYS:
            self._failures.popitem(last=False)

    def record_success(self, *keys: tuple[str, str]) -> None:
        for key in keys:
            self._failures.pop(key, None)
