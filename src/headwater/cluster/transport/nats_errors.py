"""Explains errors of NATS in sentences with advice.

NATS reports limits at once, by error codes. It does not report a full disk: with NATS 2.15 the stream stops answering
publishers, describes itself as healthy and does not recover when there is space. Older versions put all of JetStream
out of service, and only a request to it shows that it is gone.
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
    """NATS or JetStream does not answer: waiting may help."""


class PublishRefused(ClusterError):
    """A stream refused a message."""

    def __init__(self, refusal: JetStreamRefusal) -> None:
        super().__init__(f"NATS refused it: {refusal.says} ({refusal.code}).")
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class JetStreamRefusal:
    """An error of JetStream."""

    code: int
    says: str

    @property
    def is_duplicate(self) -> bool:
        """Whether the subject already has the one message that it may have."""
        return self.code == STORE and "per subject" in self.says


def explain_no_jetstream(server: str) -> str:
    return (
        f"JetStream is out of service in NATS at {server}: the disk under its store_dir is full (NATS' own log says "
        "so), or it is not switched on in NATS' configuration. Free some space, or switch it on, and restart NATS; we "
        f"try again until then. {NOTHING_LOST}"
    )


def explain_stuck_stream(stream: str, server: str) -> str:
    """Explain a stream that does not answer publishers."""
    return (
        f"The stream {stream} of NATS at {server} takes nothing more and does not say why: most often the disk under "
        "NATS' store_dir is full (its own log says “no space left on device”). Free some space there and restart NATS, "
        f"which does not take it up again by itself; we try again until then. {NOTHING_LOST}"
    )


def explain_refusal(refusal: JetStreamRefusal, stream: str, server: str) -> str:
    """Explain why JetStream refused a message for a stream of ours (JOBS, RESULTS)."""
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
        whose = f"the storage of JetStream ({limit})" if code == RESOURCES else "the storage of our account"
        return (
            f"NATS at {server} takes nothing more for {stream}: {whose} is used up. Raise that limit in its "
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
        return f"The stream {stream} is not in NATS at {server}; the leader makes it anew within seconds."
    return f"NATS at {server} refused a message for {stream}: {says} ({code})."
