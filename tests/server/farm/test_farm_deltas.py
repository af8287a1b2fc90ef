"""The farm sends only new items to clients that ask for them, and the saving of Sia & Cho's section 4.6 is measured."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headwater.errors import InputError
from headwater.farm.delta_saving import PROTOCOLS, measure_document, measure_farm, measure_saving, read_documents
from headwater.farm.farm import Farm
from headwater.farm.farm_history import answer_in_process
from headwater.fetch.client import Fetcher
from headwater.model import Ending
from headwater.times import DAY

STARTED = 1_790_000_000.0
ITEM = "<item><title>{0}</title><guid>{0}</guid><pubDate>{0:02} Mar 2026 00:00:00 GMT</pubDate></item>"


def make_farm(deltas: bool = True) -> Farm:
    return Farm(1, 1, window=8, rates=(3.0, 3.1), format="rss", clock=lambda: STARTED, started=STARTED, deltas=deltas)


async def test_a_delta_has_the_items_since_the_clients_state_and_no_others() -> None:
    farm = make_farm()
    async with Fetcher(allow_private=True, gap=0.0, proxy=lambda r: answer_in_process(farm, r)) as fetcher:
        first = await fetcher.fetch(farm.url(0))
        assert first.document is not None
        known = {item.id for item in first.document.items}
        farm.advance(DAY)
        part = await fetcher.fetch(farm.url(0), first.validators, delta=True)
        whole = await fetcher.fetch(farm.url(0), first.validators)
        again = await fetcher.fetch(farm.url(0), part.validators, delta=True)
        farm.advance(30 * DAY)
        later = await fetcher.fetch(farm.url(0), part.validators, delta=True)
    assert part.document is not None
    assert whole.document is not None
    assert (part.status, part.ending, whole.status, again.status) == (226, Ending.PARTIAL, 200, 304)
    assert {item.id for item in part.document.items} == {item.id for item in whole.document.items} - known != set()
    assert part.bytes < whole.bytes
    assert later.status == 200, "the window no longer reaches the client's state"


async def test_a_farm_sends_deltas_only_if_it_is_told_to() -> None:
    farm = make_farm(deltas=False)
    async with Fetcher(allow_private=True, gap=0.0, proxy=lambda r: answer_in_process(farm, r)) as fetcher:
        first = await fetcher.fetch(farm.url(0))
        farm.advance(DAY)
        assert (await fetcher.fetch(farm.url(0), first.validators, delta=True)).status == 200


async def test_each_protocol_saves_more_than_the_one_before() -> None:
    found = await measure_farm(1, feeds=12, days=2)
    whole, unchanged, new = (found[name].sum() for name in PROTOCOLS)
    assert new < unchanged < whole


def test_a_documents_bytes_follow_from_its_dates_and_items() -> None:
    head, tail = "<rss version='2.0'><channel><title>t</title>", "</channel></rss>"
    items = "".join(ITEM.format(day) for day in range(20, 10, -1))  # one a day: exp(−1) of all days bring nothing
    found = measure_document((head + items + tail).encode())
    assert found is not None
    assert (found.items, found.new) == (10, pytest.approx(1.0, abs=1e-6))
    assert found.plain[1] / found.plain[0] == pytest.approx(1 - 0.36788, abs=1e-4)
    frame, item = len(head + tail), found.item_bytes
    assert found.plain[2] == pytest.approx(0.63212 * frame + item, rel=1e-3)
    assert measure_document(b"no feed") is None
    assert measure_document((head + ITEM.format(1) + tail).encode()) is None, "one date gives no rate"


def test_documents_come_from_a_folder_or_an_archive_that_exists(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_bytes(b"a")
    assert list(read_documents(tmp_path)) == [b"a"]
    with pytest.raises(InputError, match="Cannot read feed documents"):
        list(read_documents(tmp_path / "absent.tar"))


@pytest.mark.soak
async def test_the_saved_measurement_of_deltas_comes_out_again(shared_data: Path) -> None:
    import json

    from support.lab_results import compare_results

    saved = json.loads((Path(__file__).parents[3] / "docs/results/deltas.json").read_text())
    again = await measure_saving(shared_data / "feeds.tar.xz")
    assert compare_results(saved, again.as_json()) == []


async def test_a_measurement_on_the_farm_can_be_stopped() -> None:
    """The farm answers in this process, so that nothing waits and Ctrl-C would only be heard at the end."""
    task = asyncio.create_task(measure_farm(1, feeds=5, days=1))
    for _ in range(10):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
