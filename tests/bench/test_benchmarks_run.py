"""Every benchmark runs at its small size, and its figures are measured."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.__main__ import list_benchmarks
from bench.support.publish_servers import NGINX
from bench.support.workload import Workload

from bench import (
    api,
    cluster,
    deliveries,
    farm,
    fetch,
    growth,
    idle,
    join,
    lab,
    match,
    mixture,
    publish,
    read,
    refresh,
    search,
    standing,
    store,
)
from bench import schedule as schedule_bench

Printed = Callable[[], str]  # returns the output of the benchmark


def check_api(printed: Printed, folder: Path) -> None:
    figures = api.main(small=True)
    for work in ("100 unread", "contents of 250", "search", "mark 1,000", "mark all", "unread counts"):
        assert figures[f"store: {work}"] > 0
    for work in ("100 unread", "contents of 250", "mark 1,000"):
        assert figures[f"served: {work}"] > 0
    feeds, each, _ = api.SMALL
    assert figures["sync: bytes"] > feeds * each * 500  # every item came
    assert figures["load: 100 unread"] > 0
    assert "first sync of 1,000 items" in printed()


def check_cluster(printed: Printed, folder: Path) -> None:
    ratios = cluster.main(small=True)
    assert {"rung 1 cold", "rung 2, 1 terminal cold", "rung 2, 1 terminal warm", "rung 2, 1 terminal mixed"} <= set(
        ratios
    )
    assert all(ratio > 0.3 for ratio in ratios.values())
    text = printed()
    assert "SKIP LOCKED" in text
    assert "take-over with" in text


def check_deliveries(printed: Printed, folder: Path) -> None:
    figures = deliveries.main(small=True)["a server on SQLite"]
    assert min(figures["total"], figures["slowest"], figures["per_cpu"]) > 1  # fetches of a host begin once a second
    assert figures["attempts"] == 0
    assert "to stalled" in printed()


def check_farm(printed: Printed, folder: Path) -> None:
    figures = farm.main(small=True)
    assert len(figures) == 4
    assert all(rate > 0 for rate in figures.values())
    assert figures["farm, 304"] > figures["farm, 200, document made"]
    assert "share of the limit" in printed()


def check_fetch(printed: Printed, folder: Path) -> None:
    ratios = fetch.main(small=True)
    assert set(ratios) == {"200", "304"}
    assert all(ratio > 0 for ratio in ratios.values())  # how high depends on the machine's load
    assert "bare aiohttp" in printed()


def check_growth(printed: Printed, folder: Path) -> None:
    ratios = growth.main(small=True)
    assert set(ratios) == {f"{size}: {kind}" for size in growth.SMALL for kind in (growth.NEWS, growth.NO_NEWS)}
    assert all(ratio > 0 for ratio in ratios.values())
    assert "one new item" in printed()


def check_idle(printed: Printed, folder: Path) -> None:
    figures = idle.main(small=True)
    assert set(figures) == set(idle.LIMITS)
    assert all(figure >= 0 for figure in figures.values())
    assert figures["empty server, MB"] > 30  # a Python process with SQLAlchemy is never smaller
    assert "× of it" in printed()


def check_join(printed: Printed, folder: Path) -> None:
    join.measure("CONTENT", 150, 60, Workload())
    found = re.search(r"recall +([\d.]+) of (\d+)", printed())
    assert found is not None
    assert int(found[2]) > 0
    assert float(found[1]) >= 0.98


def check_lab(printed: Printed, folder: Path) -> None:
    lab.main(small=True)
    text = printed()
    assert text.count("× the bare loop") == 3
    assert "value, forecast" in text


def check_match(printed: Printed, folder: Path) -> None:
    match.main(small=True, sizes=[500])
    text = printed()
    for line in ("and matching", "candidates per hit", "bytes a query", "add", "drop", "brute force", "SQLite FTS5"):
        assert line in text
    ratios = re.findall(r"ratio +([\d.]+)", text)
    assert len(ratios) == 3  # plain, compiled, and with every hit read
    assert all(float(ratio) > 0 for ratio in ratios)


def check_mixture(printed: Printed, folder: Path) -> None:
    ratios = mixture.main(small=True, size=60, kinds=["", "only NOT"], archive=folder / "none")
    assert set(ratios) == {"mixture", "only NOT", "adding"}
    assert all(ratio > 0 for ratio in ratios.values())
    text = printed()
    assert "made up" in text  # it also runs where there are no real documents
    assert "beside ten" in text


def check_publish(printed: Printed, folder: Path) -> None:
    found = publish.main(small=True)
    assert set(found["rates"]) == {"headwater", "bare Starlette"} | ({"nginx, a file"} if NGINX else set())
    assert all(rate > 0 for kinds in found["rates"].values() for rate in kinds.values())
    assert found["held"] == 200
    assert found["items_per_second"] > 0
    assert set(found["delays"]) == {"feed", "live stream", "web hook", "feed, pushed"}
    assert all(found["delays"].values())
    assert "nginx" in printed()


def check_read(printed: Printed, folder: Path) -> None:
    seconds = read.main(small=True)
    text = printed()
    assert "× a bare lxml parse" in text
    assert "× faster than feedparser" in text
    assert seconds["headwater"] < seconds["feedparser"]


def check_refresh(printed: Printed, folder: Path) -> None:
    ratios = refresh.main(small=True)
    assert set(ratios) == {"cold", "warm"}
    assert all(ratio > 0.5 for ratio in ratios.values())  # none is twice as fast as the floor
    assert "the floor's CPU per feed" in printed()


def check_schedule(printed: Printed, folder: Path) -> None:
    lines = schedule_bench.main(small=True)
    assert {line.what for line in lines} == {"advarss", "top_utility", "two_steps", "only_tau", "value", "manners"}
    assert all(line.seconds > 0 and line.floor > 0 for line in lines)
    assert "ratio" in printed()


def check_search(printed: Printed, folder: Path) -> None:
    ratios = search.main(small=True)
    assert {name.partition(": ")[0] for name in ratios} == set(search.RANKS)
    assert all(ratio > 0 for ratio in ratios.values())
    assert "× the search for the word" in printed()


def check_standing(printed: Printed, folder: Path) -> None:
    workload = Workload()
    place = asyncio.run(standing.fill_store(folder, 60, workload))
    asyncio.run(standing.measure_start(place, 60, workload, 0, settling=0.0))
    asyncio.run(standing.measure_processor(place, 60, 450, workload))
    asyncio.run(standing.measure_adding(place, 60, 60, 10, workload))
    text = printed()
    assert float(re.findall(r"seconds +([\d.]+)", text)[0]) > 0
    assert float(re.findall(r"memory +([\d.]+) MiB", text)[0]) > 50
    for line in ("nothing comes", "one query comes", "60 queries come"):
        assert line in text


def check_store(printed: Printed, folder: Path) -> None:
    figures = store.main(small=True)
    assert {"save / bare", "index / bare", "both / both bare"} < set(figures)
    assert len(figures) == 3 + len(store.SMALL)
    assert all(figure > 0 for figure in figures.values())
    assert "bare executemany" in printed()


CHECKS = {name.removeprefix("check_"): check for name, check in dict(globals()).items() if name.startswith("check_")}
MARKS = {"cluster": pytest.mark.soak, "deliveries": pytest.mark.soak}  # they start several processes


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, ())) for name in CHECKS])
def test_the_small_run_measures_what_it_prints(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    CHECKS[name](lambda: capsys.readouterr().out, tmp_path)


def test_every_benchmark_is_run() -> None:
    assert set(CHECKS) == set(list_benchmarks())
