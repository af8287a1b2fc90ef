"""What Headwater raises on purpose.

Expected endings of a fetch (304, 410, a time-out) are `Outcome` values, never exceptions.
What is left is grouped by what the caller can do about it:

    HeadwaterError
    ├── InputError           somebody gave us something wrong: show the sentence, change the input
    │   ├── NotAFeed         the document is no feed; `what` says what it is instead
    │   ├── AddressError     the address cannot be used (scheme, control characters, private, port)
    │   ├── Unreachable      the address gave no answer; `ending` says how (dns, tls, timeout, …)
    │   ├── QueryError       a query script; carries every message with its position
    │   ├── TraceError       a trace or a setting of the lab
    │   └── SettingsError    configuration that contradicts itself or names something unknown
    ├── NotFound             a feed, query, item or name that is not here
    ├── Held                 a server's own word (Retry-After) forbids a refresh until a moment
    ├── StoreError           the database: locked, newer than we are, full, unreachable
    ├── LeaseLost            another machine does this now: a write of ours was refused
    ├── ClusterError         the machines do not fit together: servers too old, two clusters, a clock that is wrong
    └── StrategyError        a strategy or estimator broke its contract; the caller falls back

Every message is a whole sentence that says what is wrong, where, and what to do.
"""


class HeadwaterError(Exception):
    """Root of everything raised on purpose."""


class InputError(HeadwaterError):
    """Somebody gave us something wrong; `field` is where, if in one field of a form, a request or the settings."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class NotAFeed(InputError):
    """The document is no feed. `what` is one of: empty, html, login, truncated, unknown, …"""

    def __init__(self, message: str, what: str = "unknown") -> None:
        super().__init__(message)
        self.what = what


class AddressError(InputError):
    """The address cannot be used."""


class Unreachable(InputError):
    """The address gave no answer; `ending` is the `Ending` that says how."""

    def __init__(self, message: str, ending: str = "connection") -> None:
        super().__init__(message)
        self.ending = ending


class QueryError(InputError):
    """A query script that cannot be taken; `messages` are values with line, column and hint."""

    def __init__(self, message: str, messages: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.messages = messages


class TraceError(InputError):
    """A trace, or a setting of the lab."""


class SettingsError(InputError):
    """Configuration that contradicts itself or names something unknown; `field` is the setting that is wrong."""


class NotFound(HeadwaterError):
    """A feed, query, item or name that is not here."""


class RefreshHeld(HeadwaterError):
    """A server's own word (Retry-After) forbids a refresh; `until` says how long."""

    def __init__(self, message: str, until: float) -> None:
        super().__init__(message)
        self.until = until


class StoreError(HeadwaterError):
    """The database is locked, newer than we are, full or unreachable."""


class LeaseLost(HeadwaterError):
    """Another machine does this now; a write under the old epoch was refused."""


class ClusterError(HeadwaterError):
    """The parts of a cluster do not fit together."""


class StrategyError(HeadwaterError):
    """A strategy or estimator broke its contract."""
