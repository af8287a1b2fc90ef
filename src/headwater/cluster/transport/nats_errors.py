"""What NATS says against us, in sentences: what is full, where that is, and what to do.

A disk that is really full is not said at all, as seen with NATS 2.15: the stream answers nobody who publishes, tells
about itself as if all were well, and does not take it up again when there is space. Older ones put all of JetStream out
of service, and only who asks for it hears that it is not there. Limits that are reached are said at once, by numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.errors import ClusterError

# https://github.com/nats-io/nats-server/blob/main/server/errors.json
ACCOUNT, RESOURCES, MEMORY, DISK, STORE = 10002, 10023, 10028, 10047, 10077
NO_JETSTREAM = frozenset({10039, 10076})  # for this account, at all
NO_LEADER, NO_STREAM = 10008, 10059
IN_MEMORY = "JOBS"
READERS = {"RESULTS": "storers", "JOBS": "terminals"}
NOTHING_LOST = "Nothing is lost meanwhile."


class NatsUnavailable(ClusterError):
    """NATS does not answer, or nobody behind it: that can mend by itself."""


class PublishRefused(ClusterError):
    """A stream does not take what it was given; `refusal` says why."""

    def __init__(self, refusal: JetStreamRefusal) -> None:
        super().__init__(f"NATS refused it: {refusal.says} ({refusal.code}).")
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class JetStreamRefusal:
    """An answer of JetStream that is an error."""

    code: int
    says: str

    @property
    def is_duplicate(self) -> bool:
        """The subject has the one message that it may have."""
        return self.code == STORE and "per subject" in self.says


def explain_no_jetstream(server: str) -> str:
    return (
        f"JetStream is out of service in NATS at {server}: the disk under its store_dir is full (NATS' own log says "
        "so), or it is not switched on in NATS' configuration. Free some space, or switch it on, and restart NATS; we "
        f"try again until then. {NOTHING_LOST}"
    )


def explain_stuck_stream(stream: str, server: str) -> str:
    """A stream that is there and does not answer who publishes."""
    return (
        f"The stream {stream} of NATS at {server} takes nothing more and does not say why: most often the disk under "
        "NATS' store_dir is full (its own log says “no space left on device”). Free some space there and restart NATS, "
        f"which does not take it up again by itself; we try again until then. {NOTHING_LOST}"
    )


def explain_refusal(refusal: JetStreamRefusal, stream: str, server: str) -> str:
    """About something that was meant for a stream of ours (JOBS, RESULTS)."""
    code, says = refusal.code, refusal.says
    if code in NO_JETSTREAM:
        return explain_no_jetstream(server)
    if "no space left" in says:
        return (
            f"The disk under the store_dir of NATS at {server} is full. Free some space there and restart NATS, which "
            f"has put JetStream out of service; we try again until then. {NOTHING_LOST}"
        )
    if code in (RESOURCES, ACCOUNT):
        limit = "max_memory_store" if stream == IN_MEMORY else "max_file_store"
        whose = f"JetStream may keep ({limit})" if code == RESOURCES else "our account there may keep"
        return (
            f"NATS at {server} takes nothing more for {stream}: what {whose} is used up. Raise that limit in its "
            f"configuration and restart it; we try again until then. {NOTHING_LOST}"
        )
    if code in (DISK, MEMORY):
        limit = "max_memory_store" if code == MEMORY else "max_file_store"
        return (
            f"NATS at {server} has no room for our streams: its limit {limit} is below what they may take together "
            "with others (ours take 1.1 GB on disk, 64 MB in memory). Raise it in NATS' configuration and restart NATS."
        )
    if code == STORE and "maximum bytes" in says and stream in READERS:
        return (
            f"The stream {stream} of NATS at {server} is full: {READERS[stream]} do not keep up, or there are none. "
            f"Look at what they say, or start more of them; we try again until then. {NOTHING_LOST}"
        )
    if code == NO_LEADER:
        return f"JetStream in NATS at {server} has no leader at this moment; we try again until it has."
    if code == NO_STREAM:
        return f"The stream {stream} is not in NATS at {server}; whoever leads makes it anew within seconds."
    return f"NATS at {server} refused what was meant for {stream}: {says} ({code})."
