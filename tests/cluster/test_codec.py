"""Batches of results survive encoding within any size that NATS accepts."""

from __future__ import annotations

import random

import pytest
from cluster_in_process import result
from msgspec.structs import replace

from headwater.cluster.transport.wire_messages import SHORTENED, decode_results, encode_results
from headwater.model import Entry, Markup
from headwater.node.crawl.transport import FetchResult

URL = "https://one.example/feed"


def with_text(one: FetchResult, length: int) -> FetchResult:
    """Return the result with incompressible texts."""
    chance = random.Random(one.job.feed_id)
    assert one.outcome.document is not None
    texts = [chance.randbytes(length).hex()[:length] for _ in one.outcome.document.items]
    items = tuple(
        Entry(id=entry.id, link=entry.link, title=entry.title, content=Markup(text))
        for entry, text in zip(one.outcome.document.items, texts, strict=True)
    )
    return replace(one, outcome=replace(one.outcome, document=replace(one.outcome.document, items=items)))


def test_results_that_fit_go_in_one_message_and_come_out_as_they_were() -> None:
    given = [result(feed, URL, 1_000.0 + feed, "a", "b") for feed in range(50)]
    [(carried, body)] = encode_results(given, 1 << 20)
    assert list(carried) == given == decode_results(body)


@pytest.mark.parametrize("length", [10, 2_000, 20_000])
def test_results_that_do_not_fit_together_go_in_several_messages(length: int) -> None:
    given = [with_text(result(feed, URL, 1_000.0 + feed, "a", "b"), length) for feed in range(21)]
    messages = list(encode_results(given, 30_000))
    assert all(len(body) <= 30_000 for _, body in messages)
    assert [one for _, body in messages for one in decode_results(body)] == given
    assert (len(messages) > 1) == (length > 10)


def test_a_document_that_is_too_large_alone_loses_texts_and_no_items() -> None:
    [(_, body)] = encode_results([with_text(result(1, URL, 1_000.0, "a", "b", "c"), 90_000)], 30_000)
    assert len(body) <= 30_000
    [found] = decode_results(body)
    assert found.outcome.document is not None
    assert [entry.id for entry in found.outcome.document.items] == ["a", "b", "c"]
    assert SHORTENED in found.outcome.document.problems
