"""Refuses changes sent by other sites or under foreign host names.

Browsers say who sent a request: `Sec-Fetch-Site`, or `Origin` where that header is missing. A request that changes
something passes if one of them names this server. Forms therefore carry no tokens. The host check stops DNS rebinding:
a stranger's name that points at this server would count as the same site.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from headwater.errors import HeadwaterError

HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:@/?#\\\s]+)(?::\d*)?")


class RequestRefused(HeadwaterError):
    """A request that is not carried out; `field` is the wrong field of its form, if there is one."""

    def __init__(
        self, message: str, status: int = 403, field: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.field = field
        self.headers = dict(headers or {})


def check_host(request: HTTPConnection, names: Collection[str]) -> None:
    """Refuse a host name that is neither localhost, an IP address nor one of the server's names."""
    host = read_host(request)
    if host != "localhost" and host not in names and not _is_ip_address(host):
        raise RequestRefused(
            f"The server does not accept changes under the name “{host[:100]}”: add it to the setting `names`."
        )


def read_host(request: HTTPConnection) -> str:
    """Return the host name that the client asked for, without its port.

    Starlette puts the server's own address in place of a malformed header, which would pass every check.
    """
    given = request.headers.get("host") or request.url.netloc
    found = HOST.fullmatch(given.lower())
    return given if found is None else found[1]


def check_same_site(request: HTTPConnection) -> None:
    """Refuse a request that another site sent, or that does not say which site sent it."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is None and origin is None:
        raise RequestRefused(
            "The request has neither the header Sec-Fetch-Site nor Origin, so it may come from another site. Use a "
            "browser of 2020 or later, configure proxies to pass both headers on, or send an API token."
        )
    if site is not None:
        same = site in ("same-origin", "none")
    else:
        same = urlsplit(origin or "").netloc == request.headers.get("host")
    if not same:
        raise RequestRefused("Another site sent this request. Nothing was changed.")


def _is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
