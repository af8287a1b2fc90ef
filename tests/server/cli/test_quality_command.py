"""`headwater quality` prints the report of a server, and `serve` refuses settings that cannot work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headwater.node.quality.quality_monitor import VERSION
from headwater.node.quality.quality_report import REPORT, LosingFeed, QualityReport
from headwater.schedule.quality.tally_period import DelaySummary, TallyPeriod
from headwater.store.content.feeds import NewFeed
from headwater.store.opening import open_store
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.saved_state import save_state

HOUR = TallyPeriod(60, 1000, 9, 1.0, 0.9, DelaySummary(9, 100.0, 60.0, 7200.0))
LOSING = (LosingFeed(7, "[bold]Lively", "http://a.example/", 20, 4.0, 0.6, 0.7, 400.0, 20, "raise --budget"),)
QUALITY = QualityReport(
    1e9, "value", "bayes", 0.5, None, 2, HOUR, HOUR, 0.9, 0.85, 0.6, 0.97, 1, 60.0, 58, 6e6, 1e6, "30 bring it.", True,
    LOSING,
)  # fmt: skip


def test_without_a_report_it_says_what_to_do(headwater: Callable[..., Any]) -> None:
    answer = headwater("quality")
    assert answer.code == 1
    assert "Start one with headwater serve" in answer.err


@pytest.fixture
def reported(tmp_path: Path) -> None:
    """Make a store with a feed and the report of a server."""
    (tmp_path / "data").mkdir()

    async def store() -> None:
        async with await open_store(f"sqlite:///{tmp_path / 'data' / 'headwater.sqlite'}") as opened:
            await opened.write(save_state, REPORT, VERSION, msgspec.json.encode(QUALITY), 1e9)
            await opened.write(add_and_subscribe, [NewFeed("http://a.example/")], 1e9)

    asyncio.run(store())


@pytest.mark.usefixtures("reported")
def test_an_explanation_says_when_the_server_goes_by_another_strategy(headwater: Callable[..., Any]) -> None:
    assert "options of its own" not in headwater("feeds", "explain", "1").out
    other = headwater("feeds", "explain", "1", env={"HEADWATER_STRATEGY": "uniform"}).out
    assert "uses value and other options" in " ".join(other.split())


@pytest.mark.usefixtures("reported")
def test_the_last_report_is_shown_in_sentences_and_as_json(headwater: Callable[..., Any]) -> None:
    told = headwater("quality").out
    for words in (
        "2 feeds",
        "90 %",
        "Requests: 58 of 60 in the last minute",
        "price of a refresh is 12 h of waiting",
        "2.0 h at the 95th",
        "Target reached",
        "[bold]Lively",
    ):
        assert words in told
    assert "raise --budget" in told
    told = headwater("quality", "--json").json
    assert told["hour"]["delay"]["p95"] == 7200.0
    assert told["losing"][0]["feed_id"] == 7


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--budget", "0"], "The budget is 0 requests per minute, which allows no refresh"),
        (["--budget", "-5"], "allows no refresh"),
        (["--strategy", "valu"], "Did you mean value"),
        (["--strategy", "two_steps", "--estimator", "periodical"], "Did you mean periodic"),
        (["--strategy", "uniform", "--objective", "delay"], "takes no objective"),
        (["--target-completeness", "2"], "cannot be a target"),
        (["--target-delay", "5"], "contradicts least_interval"),
        (["--strategy", "uniform", "--target-delay", "900"], "believes nothing"),
    ],
)
def test_a_server_that_cannot_work_says_why_and_does_not_start(
    headwater: Callable[..., Any], options: list[str], says: str
) -> None:
    answer = headwater("serve", "--port", "0", *options)
    assert answer.code == 1
    assert says in answer.err
