"""Gives advice for each kind of failure to people who run a server, and hides details from everybody else."""

from __future__ import annotations

import structlog

from headwater.errors import StoreError
from headwater.loops import RepeatFilter
from headwater.model import Ending

# Each ending: what failed, and what helps.
FAILURE_ADVICE: dict[Ending, tuple[str, str]] = {
    Ending.GONE: (
        "Permanently removed (410)",
        "The publisher ended the feed. Remove it, or pause it to keep its items.",
    ),
    Ending.THROTTLED: (
        "Asked to wait (429, 503)",
        "The server wants fewer requests; Headwater waits as long as it asks. A smaller host budget makes this rarer.",
    ),
    Ending.MISSING: (
        "Not found (404)",
        "The address is wrong or the feed has moved. Look for the new address on its site and change it.",
    ),
    Ending.DENIED: (
        "Not allowed (401, 403)",
        "The server refuses the request. Some want a login or block programs; a contact address in the settings "
        "helps with others.",
    ),
    Ending.BROKEN: (
        "Server error (5xx)",
        "This usually passes. Headwater retries less and less often.",
    ),
    Ending.UNREADABLE: (
        "Not a feed",
        "The address returns a page, often a login or a parked domain. Use Discover with the site's address to "
        "find its present feed.",
    ),
    Ending.REDIRECTS: ("Bad redirects", "The redirects form a loop, or lead to an address that is not allowed."),
    Ending.TOO_LARGE: ("Too large", "The document is over the size limit. Ask the publisher for a shorter one."),
    Ending.TIMEOUT: ("Timeout", "The server is slow or down. Headwater retries less and less often."),
    Ending.DNS: ("Could not be found (DNS)", "The host name does not exist, or your name server does not answer."),
    Ending.TLS: (
        "Certificate error",
        "The server's certificate has expired or belongs to another name. Its operator must renew it.",
    ),
    Ending.CONNECTION: ("No connection", "The server refuses or drops connections. Headwater retries."),
    Ending.BLOCKED: (
        "Private address",
        "Feeds on your own network need --allow-private (allow_private in headwater.toml).",
    ),
}


log = structlog.get_logger()
_repeats = RepeatFilter()


def report_store_error(error: StoreError) -> str:
    """Log the error, once a minute while it lasts, and return its public sentence."""
    if _repeats.is_news(str(error)):
        log.error("database_failed", error=str(error))
    return error.public
