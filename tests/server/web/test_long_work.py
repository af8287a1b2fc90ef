"""Long jobs behind pages: a comparison on the stored history, with progress and readable failures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from playwright.async_api import Browser, expect

from headwater.errors import InputError, SettingsError
from headwater.store.store import Store
from headwater.web.shared import strategy_comparison
from headwater.web.shared.background_jobs import BackgroundJob, BackgroundJobs
from headwater.web.shared.strategy_comparison import list_compared, load_last_comparison, replay_strategies

Start = Callable[..., Awaitable[str]]
NOW = 1_800_000_000.0


async def test_strategies_are_compared_on_the_stored_history(
    watched_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strategy_comparison, "COMPARED_STRATEGIES", ("round_robin", "freshrss"))
    job = BackgroundJob("1", "Comparing", "strategies", NOW, "comparison")
    names = list_compared("freshrss", "FreshRSS, freshrss(ttl=7200)")
    found = await replay_strategies(watched_store, 0.2, NOW, job, names)
    assert [row.strategy for row in found.rows] == ["round_robin", "freshrss", "freshrss(ttl=7200)"]
    assert found.best in names
    assert 2 < found.days < 4
    assert all(0 < row.completeness <= 1 and row.mean_delay > 0 for row in found.rows)
    assert (job.done, job.total, found.of) == (3, 3, 3)
    assert await load_last_comparison(watched_store) == found


@pytest.mark.parametrize("wanted", ["os:system", "reference", "advarss(x=1)"])
def test_a_strategy_that_cannot_be_compared_is_refused(wanted: str) -> None:
    assert list_compared("mine:Own", None) == list_compared("value", None)  # the server's own class is left out
    with pytest.raises(SettingsError):
        list_compared("value", wanted)


async def test_strategies_that_are_through_are_shown_while_others_are_not(
    watched_site: Start, watched_store: Store, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first strategy finishes quickly; the page shows it before the others, and later without a new request."""
    monkeypatch.setattr(strategy_comparison, "COMPARED_STRATEGIES", ("round_robin", "freshrss", "value"))
    base = await watched_site()
    page = await (await browser.new_context()).new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    await page.goto(f"{base}/quality")
    await page.get_by_role("button", name="Compare").click()
    # It is in the part already shown, or, if the machine is quick, in the whole.
    await expect(page.locator("main td", has_text="round_robin").first).to_be_visible(timeout=90_000)
    await expect(page.locator("#part .lead, main .lead").last).to_contain_text(
        "serves these feeds best", timeout=90_000
    )
    await page.goto(f"{base}/quality")
    await expect(page.locator("section[aria-labelledby=compare] tbody tr")).to_have_count(3)
    assert errors == []


async def test_a_short_history_says_how_long_to_wait(site: Start, web_store: Store) -> None:
    base = await site()
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        async with session.post(f"{base}/quality/compare", headers={"Origin": base}) as answer:
            place = answer.url
        for _ in range(200):
            async with session.get(place, headers={"Accept": "application/json"}) as answer:
                if not (await answer.json())["running"]:
                    break
            await asyncio.sleep(0.05)
        async with session.get(place) as answer:
            page = await answer.text()
    assert "A comparison needs dated items of 2 days" in page


async def test_a_job_ends_with_its_result_or_with_a_sentence_and_old_ones_are_forgotten() -> None:
    jobs = BackgroundJobs(lambda: NOW)

    async def good(job: BackgroundJob) -> str:
        job.report_progress(3, "counting")
        return "done"

    async def refused(job: BackgroundJob) -> None:
        raise InputError("This cannot be.")

    async def broken(job: BackgroundJob) -> None:
        raise RuntimeError("secret insides")

    made = [jobs.start(name, work, page=name) for name, work in (("a", good), ("b", refused), ("c", broken))]
    assert jobs.find_running("a") is made[0]
    await asyncio.gather(*(job.task for job in made if job.task is not None))
    assert (made[0].result, made[0].done, made[0].doing) == ("done", 3, "counting")
    assert made[1].problem == "This cannot be."
    assert "secret" not in (made[2].problem or "")
    assert jobs.find_running("a") is None
    assert jobs.find_latest("a") is made[0]
    for _ in range(30):
        one = jobs.start("d", good, page="d")
        assert one.task is not None
        await one.task
    assert jobs.find_job(made[0].id) is None
