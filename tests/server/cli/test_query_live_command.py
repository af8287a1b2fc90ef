"""`headwater query create, list, show, drop, explain, preview` work on a store as a user runs them."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from headwater.cli.views.queries import _describe_sources
from headwater.node.queries.processor import QueryProcessor
from headwater.store import saved_state
from headwater.store.content.feeds import NewFeed
from headwater.store.content.verdicts import save_refreshes
from headwater.store.opening import open_store
from headwater.store.readers.subscriptions import add_and_subscribe
from support.store_samples import a_verdict, an_item

VOLCANO = 'CREATE FEED Volcano AS RETURN guardian | iris WHERE TITLE CONTAINS "volcano" IMPORTANCE 3;\n'


@pytest.fixture
def stored(tmp_path: Path) -> str:
    """Make a store with two feeds: 2 of guardian's 3 items are on volcanoes, and 1 of iris's 2."""
    (tmp_path / "data").mkdir()
    url = f"sqlite:///{tmp_path / 'data' / 'headwater.sqlite'}"

    async def make() -> None:
        now = time.time()
        async with await open_store(url) as store:
            new = [NewFeed("https://guardian.example/", name="guardian"), NewFeed("https://iris.example/", name="iris")]
            guardian, iris = [one.feed for one in await store.write(add_and_subscribe, new, now)]
            titles = {guardian.id: ["A volcano", "Budget", "Volcano again"], iris.id: ["Le volcano", "Mer"]}
            for feed in (guardian, iris):
                made = [
                    an_item(feed.id, title, title=title, published=now - 60, first_seen=now - 60)
                    for title in titles[feed.id]
                ]
                await save_refreshes(store, [a_verdict(feed, *made, at=now - 60)])

    asyncio.run(make())
    return url


def processed(url: str) -> None:
    async def work() -> None:
        async with await open_store(url) as store:
            processor = QueryProcessor(store)
            await processor.load()
            while await processor.step():
                pass

    asyncio.run(work())


def test_verify_exits_with_1_if_the_document_differs_from_the_stored_items(headwater, stored: str) -> None:
    assert headwater("query", "create", "-", input=VOLCANO).code == 0
    processed(stored)
    same = headwater("query", "verify", "Volcano", "--json")
    assert (same.code, same.json["differences"]) == (0, []), same.err
    with closing(sqlite3.connect(stored.removeprefix("sqlite:///"))) as database, database:
        database.execute("DELETE FROM hit WHERE item_id = (SELECT min(item_id) FROM hit)")
    other = headwater("query", "verify", "Volcano", "--json")
    assert (other.code, [one["kind"] for one in other.json["differences"]]) == (1, ["missing"])
    assert "1 difference (" in headwater("query", "verify", "Volcano").out


def test_a_query_is_created_shown_explained_and_dropped(headwater, stored: str) -> None:
    made = headwater("query", "create", "-", "--json", input=VOLCANO)
    assert made.code == 0, made.err
    assert made.json["done"] == [{"action": "created", "name": "Volcano"}]
    (listed,) = headwater("query", "list", "--json").json
    assert (listed["name"], listed["state"], listed["items"]) == ("Volcano", "waiting for the server", 0)
    processed(stored)
    shown = headwater("query", "show", "volcano", "--json").json
    assert shown["state"] == "live"
    assert {item["title"] for item in shown["latest"]} == {"A volcano", "Volcano again", "Le volcano"}
    assert shown["statistics"]["items"] == 3
    assert sorted((s["name"], s["kept"], s["offered"]) for s in shown["sources"]) == [
        ("guardian", 2, 3),
        ("iris", 1, 2),
    ]
    told = headwater("query", "explain", "Volcano", "--json").json
    assert {source["name"] for source in told["sources"]} == {"guardian", "iris"}
    assert told["access"][0]["terms"] == ["TITLE volcano"]
    assert told["expected_items_per_day"] > 0
    for words in (("list",), ("show", "Volcano"), ("explain", "Volcano")):
        answer = headwater("query", *words)
        assert (answer.code, "Volcano" in answer.out) == (0, True)
    assert headwater("query", "drop", "VOLCANO", "--json").json == {"dropped": ["Volcano"], "undo": 1}
    assert headwater("query", "list", "--json").json == []


def test_a_store_of_less_than_a_day_tells_no_daily_rate(headwater, stored: str) -> None:
    headwater("query", "create", "-", input=VOLCANO)
    processed(stored)
    span = headwater("query", "explain", "Volcano", "--json").json["stored_days"]
    assert 0 < span < 1
    for words in (("show", "Volcano"), ("explain", "Volcano")):
        assert "a day" not in headwater("query", *words).out


def test_a_preview_says_what_would_have_come_and_creates_nothing(headwater, stored: str, tmp_path: Path) -> None:
    script = tmp_path / "q.hw"
    script.write_text(VOLCANO + 'CREATE FEED Again AS RETURN Volcano WHERE TITLE CONTAINS "again"')
    found = headwater("query", "preview", str(script), "--days", "7", "--json").json
    assert (found["Volcano"]["kept"], found["Volcano"]["looked_at"]) == (3, 5)
    assert found["Volcano"]["sources"] == {"guardian": 2, "iris": 1}
    assert [item["title"] for item in found["Again"]["items"]] == ["Volcano again"]
    said = headwater("query", "preview", str(script)).out
    # The items have just come: they are not spread over seven days.
    assert re.search(r"Volcano: keeps 3 of 5 items in [\d.]+ (s|min|h); from guardian 2, iris 1\n", said)
    assert headwater("query", "list", "--json").json == []


def test_a_preview_of_a_query_that_is_there_says_what_its_new_definition_would_bring(headwater, stored: str) -> None:
    assert headwater("query", "create", "-", input=VOLCANO).code == 0
    found = headwater("query", "preview", "-", "--json", input=VOLCANO.replace("volcano", "again"))
    assert (found.code, found.json["Volcano"]["kept"]) == (0, 1)
    twice = headwater("query", "preview", "-", input=VOLCANO + VOLCANO)
    assert (twice.code, "Volcano exists already" in twice.err) == (2, True)
    source = headwater("query", "preview", "-", input="CREATE FEED iris AS RETURN ALL")
    assert (source.code, "registered source" in source.err) == (2, True)


def test_explaining_goes_by_the_strategy_that_was_chosen_on_the_page(headwater, stored: str) -> None:
    async def choose() -> None:
        async with await open_store(stored) as store:
            await store.write(saved_state.save_changed_settings, {"strategy": "uniform"}, time.time())

    assert headwater("feeds", "explain", "iris", "--json").json["strategy"] == "value"
    asyncio.run(choose())
    assert headwater("feeds", "explain", "iris", "--json").json["strategy"] == "uniform"
    by_hand = headwater("feeds", "explain", "iris", "--json", env={"HEADWATER_STRATEGY": "value"})
    assert by_hand.json["strategy"] == "value"


def test_a_check_knows_the_feeds_of_the_store(headwater, stored: str) -> None:
    unknown = headwater("query", "check", "-", input="CREATE FEED a AS RETURN gardian")
    assert unknown.code == 2
    assert "1:25: unknown feed gardian" in unknown.err
    assert "guardian" in unknown.err
    well = headwater("query", "check", "-", "--json", input=VOLCANO).json
    assert (well["ok"], well["names"], well["note"], well["warnings"]) == (True, "store", None, [])
    headwater("query", "create", "-", input=VOLCANO)
    (warning,) = headwater("query", "check", "-", "--json", input=VOLCANO).json["warnings"]
    assert (warning["line"], warning["column"], warning["text"]) == (1, 13, "feed Volcano exists already")
    for changed in ("DROP FEED Volcano; " + VOLCANO, VOLCANO.replace("CREATE", "CREATE OR REPLACE")):
        assert headwater("query", "check", "-", "--json", input=changed).json["warnings"] == []


@pytest.mark.parametrize("database", [None, "sqlite:////nowhere/at/all.sqlite", "postgresql://127.0.0.1:1/none"])
def test_a_check_without_a_store_takes_names_on_trust_and_says_so(headwater, database: str | None) -> None:
    env = {} if database is None else {"HEADWATER_DATABASE": database}
    said = headwater("query", "check", "-", input=VOLCANO, env=env)
    assert (said.code, "were not checked" in said.err) == (0, True)
    told = headwater("query", "check", "-", "--json", input=VOLCANO, env=env).json
    assert (told["ok"], told["names"], "were not checked" in told["note"]) == (True, None, True)


def test_a_preview_names_the_feeds_that_bring_most() -> None:
    assert (
        _describe_sources({f"f{k}": 9 - k for k in range(7)}) == "; from f0 9, f1 8, f2 7, f3 6, f4 5 and 2 other feeds"
    )
    assert _describe_sources({}) == ""


@pytest.mark.parametrize("verb", ["create", "preview"])
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("CREATE FEED a AS RETURN gardian", "1:25: unknown feed gardian"),
        ("CREATE FEED where AS RETURN guardian", "WHERE is a reserved word"),
        ("CREATE FEED ../../etc/passwd AS RETURN guardian", "expected a feed name"),
        ("CREATE FEED a AS RETURN guardian WHERE TITLE CONTAINS “x”", "use straight quotes"),
        ('CREATE FEED a AS RETURN guardian WHERE TITLE CONTAINS "' + "x" * 70_000 + '"', "64 KiB"),
        ("CREATE FEED a AS RETURN a", "would read itself"),
        ("(" * 1_000_000, "64 KiB"),
    ],
)
def test_mistakes_are_reported_with_their_place_and_exit_code_two(headwater, stored, verb, script, message) -> None:
    answer = headwater("query", verb, "-", input=script)
    assert answer.code == 2
    assert message in answer.err
    assert "^" in answer.err
    assert "Traceback" not in answer.err
    assert headwater("query", "list", "--json").json == []


def test_names_that_are_not_there_or_in_use_are_reported_in_a_sentence(headwater, stored: str) -> None:
    headwater("query", "create", "-", input="CREATE FEED A AS RETURN guardian; CREATE FEED B AS RETURN A")
    for words in (("show", "../../etc/passwd"), ("explain", "x'; DROP TABLE feed"), ("drop", "Aa")):
        answer = headwater("query", *words)
        assert (answer.code, "There is no query feed" in answer.err) == (2, True)
    answer = headwater("query", "drop", "a")
    assert (answer.code, "used by B" in answer.err) == (2, True)
    assert headwater("query", "drop", "a", "--cascade", "--json").json == {"dropped": ["A", "B"], "undo": 1}
    assert headwater("query", "drop", "guardian").code == 2  # a source is removed by “feeds remove”


def test_create_knows_the_mail_server_that_was_set_on_a_page(headwater, stored: str) -> None:
    script = VOLCANO.replace(";", ' DELIVER TO EMAIL "me@example.org";')
    refused = headwater("query", "create", "-", input=script)
    assert refused.code != 0
    assert "no mail server" in refused.err

    async def set_up_mail() -> None:
        async with await open_store(stored) as store:
            changes = {"smtp_url": "smtp://mail.example", "mail_from": "news@example.org"}
            await store.write(saved_state.save_changed_settings, changes, time.time())

    asyncio.run(set_up_mail())
    assert headwater("query", "create", "-", input=script).code == 0


def test_an_export_knows_the_titles_of_feeds(headwater, farm_url: str, tmp_path: Path) -> None:
    added = headwater("feeds", "add", f"{farm_url}/feeds/0", "--json").json
    title, out = headwater("feeds", "list", "--json").json[0]["title"], tmp_path / "items.jsonl"
    assert added
    assert title
    assert headwater("export", str(out)).code == 0
    script = f'CREATE FEED Mine AS RETURN FEED "{title}";'
    found = headwater("query", "eval", "-", "--items", str(out), "--json", input=script)
    assert found.code == 0, found.err
    assert len(found.json["Mine"]["items"]) == len(out.read_text().splitlines()) > 0
