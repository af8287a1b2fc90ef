"""Patience with NATS: what fails is tried again with back-off, and what is in the way is said in a sentence.

It is said in the log when it begins and once a minute, and to whoever asks how this process is doing, until it is over.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import orjson
import structlog

from headwater.cluster import refusals
from headwater.cluster.acks import Unanswered, refusal
from headwater.cluster.link import shown
from headwater.cluster.refusals import NoAnswer, Refusal, Refused
from headwater.cluster.timing import awake
from headwater.errors import ClusterError, HeadwaterError
from headwater.node.saying import Saying

T = TypeVar("T")

FIRST, LONGEST = 0.1, 5.0  # seconds between two tries
FORGOTTEN = 60.0  # seconds after which something is no trouble that is not tried any more
ASK = 2.0  # seconds that JetStream is given to say that it is there

log = structlog.get_logger()


class Patience:
    """One for each connection."""

    def __init__(self, link: Any) -> None:
        self._link = link
        self._at = ""
        self._troubles: dict[str, tuple[str, float]] = {}  # what was said, and when last
        self._saying: dict[str, Saying] = {}

    @property
    def problem(self) -> str | None:
        """What is in the way at this moment; nothing, if nobody has tried anything for a while."""
        now = awake()
        return next((said for said, at in self._troubles.values() if now < at + FORGOTTEN), None)

    async def once(self, what: str, stream: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do something with a stream. What is in the way of it is said, and raised as a sentence."""
        try:
            done = await work()
        except Exception as error:
            problem = await self.trouble(what, stream, error)
            if problem is error:
                raise
            raise problem from error
        self.over(what)
        return done

    async def until_done(
        self,
        what: str,
        stream: str,
        work: Callable[[], Awaitable[T]],
        *,
        until: Callable[[HeadwaterError], bool] = lambda problem: False,
    ) -> T:
        """The same again and again; with jitter, because while a cluster of NATS has no leader it fails at once."""
        wait = FIRST
        while True:
            try:
                return await self.once(what, stream, work)
            except HeadwaterError as problem:
                if until(problem):
                    raise
            await asyncio.sleep(wait * random.uniform(0.5, 1.5))
            wait = min(2 * wait, LONGEST)

    async def trouble(self, what: str, stream: str, error: Exception) -> HeadwaterError:
        """Something has failed: it is said, and what it means is returned."""
        problem = await self.explained(stream, error)
        self._troubles[what] = str(problem), awake()
        if self._saying.setdefault(what, Saying()).worth(str(problem)):
            log.warning("nats_waits", what=what, error=str(problem))
        return problem

    def over(self, what: str) -> None:
        """It goes well, again or still."""
        if self._troubles.pop(what, None) is not None:
            self._saying.pop(what).over()
            log.info("nats_goes_on", what=what)

    async def explained(self, stream: str, error: Exception) -> HeadwaterError:
        """What an error means that came of something with a stream."""
        from nats.errors import NoRespondersError
        from nats.js.errors import APIError, NoStreamResponseError

        said = error.refusal if isinstance(error, Refused) else None
        if isinstance(error, APIError) and error.err_code is not None:
            said = Refusal(error.err_code, error.description or "")
        if said is not None:
            kind: type[ClusterError] = NoAnswer if said.code in (*refusals.OFF, refusals.NO_LEADER) else ClusterError
            return kind(refusals.sentence(said, stream, self._server))
        if isinstance(error, HeadwaterError):
            return error
        if isinstance(error, TimeoutError | NoRespondersError | APIError | NoStreamResponseError):
            return await self._silence(stream, error)
        return ClusterError(f"NATS at {self._server}: {error or type(error).__name__}.")

    async def _silence(self, stream: str, error: Exception) -> HeadwaterError:
        """Nobody answers: is it JetStream that is not there, or somebody behind it?"""
        from nats.errors import Error, NoRespondersError

        if not self._link.is_connected:
            return NoAnswer(f"NATS at {self._server} cannot be reached; we try again until it can.")
        try:
            answer = await self._link.request("$JS.API.INFO", b"", timeout=ASK)
        except NoRespondersError:
            return NoAnswer(refusals.off(self._server))
        except (Error, TimeoutError):
            return NoAnswer(
                f"NATS at {self._server} did not answer about {stream} ({error or type(error).__name__}). Look at its "
                "log; we try again until it does."
            )
        found = orjson.loads(answer.data).get("error")
        if found is not None:
            return NoAnswer(refusals.sentence(refusal(found), stream, self._server))
        if isinstance(error, Unanswered):
            return NoAnswer(refusals.stuck(stream, self._server))
        return NoAnswer(
            f"The stream {stream} of NATS at {self._server} does not answer: it is being made anew, or has no leader "
            "at this moment. We try again until it does."
        )

    @property
    def _server(self) -> str:
        """The address of the one that we talk to, or talked to last."""
        url = self._link.connected_url
        if url is not None:
            self._at = shown(url.geturl())
        return self._at
