"""Defines the exceptions that Headwater raises on purpose, as one tree.

Expected endings of a fetch (304, 410, a time-out) are `Outcome` values, not exceptions. Each branch calls for another
reaction of the caller:

    HeadwaterError
    ├── InputError           wrong input: show the sentence, change the input
    │   ├── NotAFeed         the document is not a feed; `what` names its kind
    │   ├── AddressError     the address is not allowed (scheme, control characters, private, port)
    │   ├── Unreachable      the address gave no response; `ending` says why (dns, tls, timeout, …)
    │   ├── QueryError       the query script has mistakes; carries every message with its position
    │   ├── TraceError       a trace or a setting of the lab is wrong
    │   └── SettingsError    a setting is unknown, invalid or contradicts another
    ├── NotFound             there is no such feed, query, item or name
    ├── RefreshHeld          the server's Retry-After forbids a refresh for now
    ├── BudgetExhausted      the requests of this minute are used up: try again later
    ├── StoreError           the database is locked, newer than the program, full or unreachable
    ├── LeaseLost            another process holds the lease now; the write was refused
    ├── ClusterError         the machines do not fit together: an old server, two clusters, a wrong clock
    └── StrategyError        a strategy or estimator broke its contract; the caller falls back

Every message is a whole sentence that names the error, the place and the remedy.
"""


class HeadwaterError(Exception):
    """The root of all exceptions raised on purpose."""


class InputError(HeadwaterError):
    """Wrong input. `field` names the field of a form, a request or the settings, if it is in one."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class NotAFeed(InputError):
    """The document is not a feed. `what` is one of: empty, html, login, truncated, unknown, …"""

    def __init__(self, message: str, what: str = "unknown") -> None:
        super().__init__(message)
        self.what = what


class AddressError(InputError):
    """The address is not allowed."""


class Unreachable(InputError):
    """The address gave no response; `ending` is the `Ending` that says why."""

    def __init__(self, message: str, ending: str = "connection") -> None:
        super().__init__(message)
        self.ending = ending


class QueryError(InputError):
    """The query script has mistakes; `messages` are values with line, column and hint."""

    def __init__(self, message: str, messages: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.messages = messages


class TraceError(InputError):
    """A trace or a setting of the lab is wrong."""


class SettingsError(InputError):
    """A setting is unknown, invalid or contradicts another; `field` names it."""


class NotFound(HeadwaterError):
    """There is no such feed, query, item or name."""


class RefreshHeld(HeadwaterError):
    """The server's Retry-After forbids a refresh; `until` says how long."""

    def __init__(self, message: str, until: float) -> None:
        super().__init__(message)
        self.until = until


class BudgetExhausted(HeadwaterError):
    """The budget of this minute is used up; `seconds` is how long to wait, if that is known."""

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = 60.0 if seconds is None else max(seconds, 1.0)
        super().__init__(
            f"The server has used up its requests of this minute (`budget`). Try again in {self.seconds:.0f} seconds."
        )


class StoreError(HeadwaterError):
    """The database is locked, newer than the program, full or unreachable.

    The message names the file or the server. `public` names neither, because strangers read it too.
    """

    def __init__(
        self, message: str, public: str = "The database does not answer. The server's log has the details."
    ) -> None:
        super().__init__(message)
        self.public = public


class LeaseLost(HeadwaterError):
    """Another process holds the lease now; a write under the old epoch was refused."""


class ClusterError(HeadwaterError):
    """The machines of a cluster do not fit together."""


class StrategyError(HeadwaterError):
    """A strategy or estimator broke its contract."""
