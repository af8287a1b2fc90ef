"""Retries work with NATS after growing pauses, and explains each failure in a sentence.

The log has the sentence at the beginning of a problem and once a minute, reports of this process until it is over.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import orjson
import structlog

from headwater.cluster.transport import nats_errors
from headwater.cluster.transport.nats_connection import redact_address
from headwater.cluster.transport.nats_errors import JetStreamRefusal, NatsUnavailable, PublishRefused
from headwater.cluster.transport.nats_publisher import AckTimeout, parse_refusal
from headwater.errors import ClusterError, HeadwaterError
from headwater.loops import RepeatFilter, boot_clock

T = TypeVar("T")

FIRST_WAIT, MAX_WAIT = 0.1, 5.0  # seconds between two tries
PROBLEM_SECONDS = 60.0  # after which a failure that was not repeated is no longer reported
INFO_SECONDS = 2.0  # that JetStream may take to answer

log = structlog.get_logger()


class NatsRetry:
    """The failures of one connection."""

    def __init__(self, link: Any) -> None:
        self._link = link
        self._last_server = ""
        self._troubles: dict[str, tuple[str, float]] = {}  # work → the sentence, and when it failed last
        self._repeat_filters: dict[str, RepeatFilter] = {}

    @property
    def problem(self) -> str | None:
        """The first present failure; None if nothing was tried for a while."""
        now = boot_clock()
        return next((sentence for sentence, at in self._troubles.values() if now < at + PROBLEM_SECONDS), None)

    async def run_once(self, what: str, stream: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do some work with a stream; log a failure and raise it as a sentence."""
        try:
            done = await work()
        except Exception as error:
            problem = await self.record_failure(what, stream, error)
            if problem is error:
                raise
            raise problem from error
        self.record_success(what)
        return done

    async def retry_until_done(
        self,
        what: str,
        stream: str,
        work: Callable[[], Awaitable[T]],
        *,
        until: Callable[[HeadwaterError], bool] = lambda problem: False,
    ) -> T:
        """Retry some work until it succeeds, or until a problem for which `until` holds.

        With jitter: while a cluster of NATS has no leader, every try fails at once.
        """
        wait = FIRST_WAIT
        while True:
            try:
                return await self.run_once(what, stream, work)
            except HeadwaterError as problem:
                if until(problem):
                    raise
            await asyncio.sleep(wait * random.uniform(0.5, 1.5))
            wait = min(2 * wait, MAX_WAIT)

    async def record_failure(self, what: str, stream: str, error: Exception) -> HeadwaterError:
        """Log a failure, and return it explained."""
        problem = await self.explain_error(stream, error)
        self._troubles[what] = str(problem), boot_clock()
        if self._repeat_filters.setdefault(what, RepeatFilter()).is_news(str(problem)):
            log.warning("nats_unavailable", what=what, error=str(problem))
        return problem

    def record_success(self, what: str) -> None:
        """Note that some work succeeded."""
        if self._troubles.pop(what, None) is not None:
            self._repeat_filters.pop(what).reset()
            log.info("nats_available", what=what)

    async def explain_error(self, stream: str, error: Exception) -> HeadwaterError:
        """Explain an error of some work with a stream."""
        from nats.errors import NoRespondersError
        from nats.js.errors import APIError, NoStreamResponseError

        refusal = error.refusal if isinstance(error, PublishRefused) else None
        if isinstance(error, APIError) and error.err_code is not None:
            refusal = JetStreamRefusal(error.err_code, error.description or "")
        if refusal is not None:
            kind: type[ClusterError] = (
                NatsUnavailable if refusal.code in (*nats_errors.NO_JETSTREAM, nats_errors.NO_LEADER) else ClusterError
            )
            return kind(nats_errors.explain_refusal(refusal, stream, self._server))
        if isinstance(error, HeadwaterError):
            return error
        if isinstance(error, TimeoutError | NoRespondersError | APIError | NoStreamResponseError):
            return await self._explain_silence(stream, error)
        return ClusterError(f"NATS at {self._server}: {error or type(error).__name__}.")

    async def _explain_silence(self, stream: str, error: Exception) -> HeadwaterError:
        """Explain why nobody answered: find out whether JetStream is there."""
        from nats.errors import Error, NoRespondersError

        if not self._link.is_connected:
            return NatsUnavailable(f"NATS at {self._server} cannot be reached; we try again until it can.")
        try:
            answer = await self._link.request("$JS.API.INFO", b"", timeout=INFO_SECONDS)
        except NoRespondersError:
            return NatsUnavailable(nats_errors.explain_no_jetstream(self._server))
        except (Error, TimeoutError):
            return NatsUnavailable(
                f"NATS at {self._server} did not answer about {stream} ({error or type(error).__name__}). Look at its "
                "log; we try again until it does."
            )
        found = orjson.loads(answer.data).get("error")
        if found is not None:
            return NatsUnavailable(nats_errors.explain_refusal(parse_refusal(found), stream, self._server))
        if isinstance(error, AckTimeout):
            return NatsUnavailable(nats_errors.explain_stuck_stream(stream, self._server))
        return NatsUnavailable(
            f"The stream {stream} of NATS at {self._server} does not answer: it is being made anew, or has no leader "
            "at this moment. We try again until it does."
        )

    @property
    def _server(self) -> str:
        """The address of the present or last server."""
        url = self._link.connected_url
        if url is not None:
            self._last_server = redact_address(url.geturl())
        return self._last_server
