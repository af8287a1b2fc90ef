"""Connects to NATS, checks its version, and explains in sentences why it cannot."""

from __future__ import annotations

import asyncio
import random
import re
from typing import Any

import structlog

from headwater.errors import ClusterError

OLDEST_VERSION = (2, 10)
CONNECT_SECONDS = 60.0  # to wait for a server at the start
_SECRET = re.compile("//.*@")

log = structlog.get_logger()


def redact_address(url: str) -> str:
    """Return an address without user, password and files of certificates."""
    return ",".join(_SECRET.sub("//", one.strip().partition("?")[0]) for one in url.split(","))


async def connect_nats(url: str, name: str, *, patience: float = CONNECT_SECONDS) -> Any:
    """Connect to `nats://user:password@host:4222` or `tls://…?ca=FILE`, or to several with commas between.

    The connection reconnects by itself. A server that is not there yet is waited for; ClusterError for a problem that
    waiting does not mend.
    """
    try:
        from nats.errors import Error as NatsError

        from headwater.cluster.transport import nats_tls
    except ImportError as error:
        raise ClusterError("NATS needs one more package: install headwater[cluster].") from error
    given = nats_tls.parse_address(url)
    heard: list[Exception] = []

    async def hear(error: Exception) -> None:
        heard[:] = [*heard[-1:], error]
        if link is not None:
            log.warning("nats_error", error=nats_tls.explain_tls_error(error) or _describe_error(error))

    link: Any = None
    end, wait = asyncio.get_running_loop().time() + patience, 0.25
    while True:
        try:
            client = nats_tls.StrictTlsClient(insists=given.context is not None)
            await client.connect(
                list(given.servers),
                name=name,
                tls=given.context,
                max_reconnect_attempts=1,
                reconnect_time_wait=1,
                connect_timeout=5,
                error_cb=hear,
            )
            link = client
            break
        except (NatsError, OSError, TimeoutError, ValueError) as error:
            says = " ".join(map(_describe_error, [error, *heard[-1:]]))
            causes = [*heard, *await nats_tls.find_tls_errors(given)]
            if blamed := next(filter(None, map(nats_tls.explain_tls_error, causes)), None):
                raise ClusterError(f"NATS at {redact_address(url)} {blamed}") from error
            if "uthorization" in says or "uthentication" in says:
                raise ClusterError(
                    f"NATS at {redact_address(url)} refused our credentials. Check user and password in the address, "
                    "or the permissions of this role."
                ) from error
            if asyncio.get_running_loop().time() + wait > end:
                raise ClusterError(
                    f"NATS at {redact_address(url)} cannot be reached ({says}). Check that it runs and that the "
                    "address is right."
                ) from error
            log.warning("nats_not_reached", server=redact_address(url), error=says, again_in=round(wait, 2))
            await asyncio.sleep(wait * random.uniform(0.75, 1.25))
            wait = min(2 * wait, 5.0)
    link.options["max_reconnect_attempts"] = -1  # from here on it is waited for, however long
    version = (link.connected_server_version.major, link.connected_server_version.minor)
    if version < OLDEST_VERSION:
        await link.close()
        raise ClusterError(
            f"NATS at {redact_address(url)} is version {version[0]}.{version[1]}; Headwater needs 2.10 or newer."
        )
    return link


def _describe_error(error: Exception) -> str:
    return str(error) or type(error).__name__
