"""Why feeds fail and what helps, in words for those who run a server, not for those who wrote it."""

from __future__ import annotations

from headwater.model import Ending

# Why feeds fail, in a few words, and what a person can do about it.
FAILURE_ADVICE: dict[Ending, tuple[str, str]] = {
    Ending.GONE: (
        "Gone for good (410)",
        "Their publishers ended them. Remove them; what they brought can stay if you pause them instead.",
    ),
    Ending.THROTTLED: (
        "Asked to wait (429, 503)",
        "Their servers want fewer requests and are left alone as long as they said. Nothing to do; fewer feeds of one "
        "site, or a smaller budget for one host, make it rarer.",
    ),
    Ending.MISSING: (
        "Not found (404)",
        "The address is wrong or the feed has moved. Look at its site for a new one and move the feed there.",
    ),
    Ending.DENIED: (
        "Not allowed (401, 403)",
        "Their servers refuse us. Some want a login or shut out all programs; a contact address in the settings helps "
        "with others.",
    ),
    Ending.BROKEN: (
        "Their server is broken (5xx)",
        "It mostly ends by itself; they are tried again, less and less often.",
    ),
    Ending.UNREADABLE: (
        "No feed at this address",
        "A page came instead of a feed, often a login or a parked domain. Paste the site's address under Discover to "
        "find the feed it has now.",
    ),
    Ending.REDIRECTS: ("Redirects that lead nowhere", "The server sends us in circles, or to where we do not go."),
    Ending.TOO_LARGE: ("Too large", "The document is larger than is taken. Ask the publisher for a shorter one."),
    Ending.TIMEOUT: ("No answer in time", "The server is slow or down; they are tried again, less and less often."),
    Ending.DNS: ("No such host", "The name does not exist (any more), or your name server does not answer."),
    Ending.TLS: (
        "Certificate trouble",
        "The server's certificate has run out or is another's. Its operator must renew it.",
    ),
    Ending.CONNECTION: ("No connection", "The server refuses or breaks off connections; they are tried again."),
    Ending.BLOCKED: (
        "A private address",
        "Feeds on your own network are only fetched with --allow-private (allow_private in headwater.toml).",
    ),
}
