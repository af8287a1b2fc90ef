"""This version reads messages of the version before and of the next, so that roles can be replaced one by one.

`messages_kept.json` holds messages of earlier versions. Only add to it: a new field needs a default, and no field may
be removed or change its type.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headwater.cluster.transport import wire_messages
from headwater.cluster.transport.wire_messages import Grant, Hello, MemberReport, decode_results, encode_results
from headwater.fetch.http.redirects import Handover
from headwater.fetch.http.remote_session import RemoteReply, RemoteRequest
from headwater.model import (
    Document,
    Enclosure,
    Ending,
    Entry,
    Hints,
    Known,
    Markup,
    Outcome,
    Refresh,
    Source,
    Validators,
)
from headwater.node.crawl.lessons import Lesson
from headwater.node.crawl.transport import FetchResult, Job, ProxiedRequest, StoredLesson

KEPT = Path(__file__).with_name("messages_kept.json")
URL = "https://one.example/feed"

VALIDATORS = Validators('"a"', "Mon, 16 Nov 2026 00:00:00 GMT")
ENTRY = Entry(
    "tag:1",
    "https://one.example/1",
    "Täglich & neu",
    1_000.0,
    1_100.0,
    ("Ann",),
    Markup("short"),
    Markup("<p>long</p>", URL),
    ("news",),
    (Enclosure("https://one.example/1.mp3", "audio/mpeg", 7),),
    "de",
    Source("https://two.example/feed", "Elsewhere"),
)
DOCUMENT = Document("atom 1.0", title="One", hub=("https://hub.example/",), hints=Hints(), items=(ENTRY,))
OUTCOME = Outcome(
    Ending.CHANGED, URL, URL, 2_000.0, 0.25, 200, DOCUMENT, VALIDATORS, None, 60.0, None, 4_321, "0f", "fine", False
)
JOB = Job(7, 123, (5 << 32) + 1, URL, "it is due", VALIDATORS, "0e", True, 0.5, well=True, wished=True)
RESULT = FetchResult(JOB, OUTCOME, "t1", 9, unasked=True)
REFRESH = Refresh(7, 2_000.0, Ending.CHANGED, 200, 0.25, 4_321, 1, 0, 1, 0, True, 0.5, "it is due", "fine", (1_000.0,))
KNOWN = Known(
    7, URL, VALIDATORS, (("tag:1", "0a"),), "0f", 2_000.0, 2_000.0, 2_000.0, 2_060.0, hub="https://hub.example/"
)
LESSON = Lesson(REFRESH, KNOWN, URL, 1_500.0, False, (1_000.0,), 60.0)
REPORT = MemberReport("t1", "terminal", "1.0", 1.0, 2.0, 64, {"fetched": 3}, 4.0, "slow", "machine", 5.0, (1, 2))

SAMPLES: dict[str, tuple[Any, Callable[[bytes], Any]]] = {
    "a job": (JOB, wire_messages.read_job),
    "a job handed on": (
        Job(7, 8, 9, URL, "moved", way=Handover(URL, "https://two.example/", 1.0, 0.5, True, 1, 10, 0.25)),
        wire_messages.read_job,
    ),
    "an errand": (
        Job(
            -3,
            8,
            0,
            URL,
            "a person asks",
            errand=ProxiedRequest(RemoteRequest(URL, {"Accept": "*/*"}, 5.0, 1 << 20, True), "_INBOX.x"),
        ),
        wire_messages.read_job,
    ),
    "results": ([RESULT], decode_results),
    "results, compressed": ([RESULT] * 60, decode_results),
    "what is learned": ([StoredLesson(5, LESSON, True, True)], wire_messages.read_lessons),
    "an answer": (RemoteReply(200, (("ETag", '"a"'),), b"body", 9, 0.5, None, "", None), wire_messages.read_reply),
    "a failure": (
        RemoteReply(None, ending=Ending.THROTTLED, message="not now", retry_after=60.0),
        wire_messages.read_reply,
    ),
    "a greeting": (Hello(REPORT, {1: 2}, True), wire_messages.read_hello),
    "partitions": (Grant({1: 2}, (1,), 60.0, 5, 2_000.0, "slow", True), wire_messages.read_grant),
}


def written(name: str) -> bytes:
    value = SAMPLES[name][0]
    if name.startswith("results"):
        [(_, body)] = encode_results(value, 1 << 20)
        return body
    return wire_messages.encode(value)


@pytest.mark.parametrize("name", SAMPLES)
def test_what_was_sent_once_is_read_for_ever(name: str) -> None:
    value, read = SAMPLES[name]
    for body in json.loads(KEPT.read_text())[name]:
        assert read(base64.b64decode(body)) == value


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_sent_today_is_kept(name: str) -> None:
    """If this fails, add today's form to the file, below the others."""
    ours = decode_results(written(name)) if name.startswith("results") else msgspec.msgpack.decode(written(name))
    kept = [base64.b64decode(body) for body in json.loads(KEPT.read_text())[name]]
    assert ours in [
        decode_results(body) if name.startswith("results") else msgspec.msgpack.decode(body) for body in kept
    ]


@pytest.mark.parametrize("name", [name for name in SAMPLES if "compressed" not in name])
def test_a_field_that_a_later_version_sends_is_no_hindrance(name: str) -> None:
    value, read = SAMPLES[name]
    if name == "an errand":
        value = Job(-3, 8, 0, URL, "a person asks", errand=ProxiedRequest(RemoteRequest(URL, {}), "_INBOX.x"))
    body = wire_messages.encode(value)
    assert read(msgspec.msgpack.encode(_with_more(msgspec.msgpack.decode(body)))) == value


def _with_more(value: Any) -> Any:
    """Add an unknown field to every structure."""
    if isinstance(value, list):
        return [_with_more(one) for one in value]
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value) or set(value) == {"fetched"}:
        return value
    return {name: _with_more(one) for name, one in value.items()} | ({"of_later": 1} if value else {})
