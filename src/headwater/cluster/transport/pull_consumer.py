"""Messages of a durable consumer, some at a time; while its stream or NATS is gone, it is waited for."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from headwater.cluster.transport.nats_streams import NatsStreams
from headwater.loops import pause


async def pull_messages(
    streams: NatsStreams, name: str, durable: str, fetch: Callable[[Any], Awaitable[list[Any]]], stop: asyncio.Event
) -> AsyncIterator[list[Any]]:
    """Until `stop` is set; `fetch` gets some from a subscription, or TimeoutError where there are none."""
    subscription: Any = None
    what = f"messages of {name}"
    while not stop.is_set():
        try:
            if subscription is None:
                subscription = await streams.context.pull_subscribe_bind(durable, streams.stream_name(name))
            messages = await fetch(subscription)
        except TimeoutError:
            streams.retry.record_success(what)
            continue
        except Exception as error:
            await streams.retry.record_failure(what, name, error)
            if subscription is not None:
                with contextlib.suppress(Exception):
                    await subscription.unsubscribe()
            subscription = None
            await pause(stop, random.uniform(0.5, 1.5))
            continue
        streams.retry.record_success(what)
        yield messages
