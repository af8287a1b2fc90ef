"""Settings of a running server, changed by the API or the page, are checked per field and apply at once."""

from __future__ import annotations

import re
from typing import Any

import pytest

from headwater.store.content.feeds import NewFeed
from headwater.store.readers.accounts import find_owner
from headwater.store.readers.subscriptions import add_and_subscribe, list_subscriptions

LIST = "\n".join(f"https://{n}.example/feed" for n in range(6)).encode()


async def test_what_decides_and_what_is_kept_changes_while_the_server_runs(server: Any) -> None:
    added = await server.owner("POST", "/feeds", 201, json={"url": server.farm.url(0)})
    feed = added["feed"]["id"]
    await server.owner("POST", f"/feeds/{feed}/refresh")
    changed = await server.owner(
        "PATCH", "/settings", json={"strategy": "value", "objective": "delay", "keep_days": 30}
    )
    assert (changed["strategy"], changed["objective"], changed["keep_days"]) == ("value", "delay", 30)
    assert (await server.owner("GET", "/scheduler"))["strategy"] == "value"
    assert (await server.owner("GET", f"/feeds/{feed}/explanation"))["strategy"] == "value"
    assert server.node.crawl.scheduler.feed_table.learned_until.max() > 0  # it has learned from the log
    assert (await server.owner("POST", f"/feeds/{feed}/refresh"))["ending"]
    aimed = await server.owner("PATCH", "/settings", json={"target_delay": 600.0})
    assert aimed["target_delay"] == 600
    assert aimed["budget"] < 100_000  # enough for the target
    refused = await server.owner("PATCH", "/settings", 400, json={"budget": 5})
    assert (refused["field"], "target mode" in refused["message"]) == ("budget", True)
    back = await server.owner("PATCH", "/settings", json={"target_delay": None, "keep_days": None})
    assert (back["budget"], back["target_delay"], back["keep_days"]) == (100_000, None, None)
    tuned = await server.owner("PATCH", "/settings", json={"strategy": "advarss(c=.5)", "objective": "balanced"})
    assert (tuned["strategy"], server.node.crawl.scheduler.strategy.c) == ("advarss(c=.5)", 0.5)
    plain = await server.owner("PATCH", "/settings", json={"strategy": "uniform", "objective": "balanced"})
    assert (plain["strategy"], server.node.crawl.scheduler.strategy.name) == ("uniform", "uniform")


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"strategy": "os:system"}, "strategy", "headwater.toml"),
        ({"strategy": "nonsense"}, "strategy", "no strategy"),
        ({"strategy": "advarss(polteness=1)"}, "strategy", "Did you mean politeness?"),
        ({"strategy": "two_steps(estimator=os:system)"}, "strategy", "headwater.toml"),
        ({"estimator": "single(alpha=2)"}, "estimator", "between 0 and 1"),
        ({"estimator": "os.path:join"}, "estimator", "headwater.toml"),
        ({"objective": "speed"}, "objective", "speed"),
        ({"objective": "delay", "strategy": "uniform"}, "objective", "no objective"),
        ({"target_delay": 600.0, "keep_days": 5}, "target_delay", "believes nothing"),
        ({"target_delay": 0.001, "strategy": "value"}, "target_delay", "contradicts"),
        ({"target_completeness": 1.5}, "target_completeness", "less than 1."),
        ({"keep_per_feed": 0}, "keep_per_feed", "at least 1."),
        ({"readers_add": "perhaps"}, "readers_add", "matching"),
    ],
)
async def test_a_value_that_does_not_fit_is_reported_at_the_field_and_changes_nothing(
    server: Any, changes: dict[str, Any], field: str, said: str
) -> None:
    before = await server.owner("GET", "/settings")
    wrong = await server.owner("PATCH", "/settings", 400, json=changes)
    assert said in wrong["message"]
    assert wrong["field"] == field or (wrong["field"] in changes and field in changes)
    assert await server.owner("GET", "/settings") == before
    assert server.node.crawl.scheduler.strategy.name == "uniform"


async def test_the_page_says_what_is_wrong_at_the_field(server: Any) -> None:
    http = (await server.client()).http
    http.headers["Origin"] = "http://testserver"
    signed = await http.post("/login", data={"name": "olga", "password": "correct horse"})
    assert signed.status_code == 303
    wrong = await http.post("/settings/change", data={"keep_days": "a while"})
    assert wrong.status_code == 400
    assert re.search(r'<input[^>]*name="keep_days" value="a while"[^>]*aria-describedby="keep_days-wrong"', wrong.text)
    assert re.search(r'id="keep_days-wrong"[^>]*>Not a number: enter days', wrong.text)
    done = await http.post("/settings/change", data={"keep_days": "30"})
    assert (done.status_code, server.node.settings.keep_days) == (303, 30)


async def test_readers_bring_as_many_feeds_as_the_owner_allows(server: Any) -> None:
    owner = (await server.store.read(find_owner)).id
    await server.store.write(add_and_subscribe, [NewFeed("https://0.example/feed")], 0.0, subscriber=owner)
    await server.owner("PATCH", "/settings", json={"readers_add": "4"})
    refused = await server.ann("POST", "/opml", 403, content=LIST, headers={"Content-Type": "text/plain"})
    assert "may add 4 feeds" in refused["message"]
    assert "add 5 more" in refused["message"]
    await server.ann("POST", "/feeds", 201, json={"url": server.farm.url(0)})
    await server.owner("PATCH", "/settings", json={"readers_add": "1"})
    full = await server.ann("POST", "/feeds", 403, json={"url": server.farm.url(1)})
    assert "You have 1 and want to add 1 more" in full["message"]
    await server.owner("PATCH", "/settings", json={"readers_add": "no"})
    closed = await server.bob("POST", "/feeds", 403, json={"url": server.farm.url(1)})
    assert "Only owners can add feeds" in closed["message"]
    await server.bob("POST", "/feeds", 201, json={"url": server.farm.url(0)})  # the feed exists already
    for path in ("/reader/api/0/subscription/quickadd", "/reader/api/0/subscription/edit"):
        given = {"quickadd": server.farm.url(2), "ac": "subscribe", "s": f"feed/{server.farm.url(2)}"}
        answer = await server.bob.http.post(path, data=given)
        assert (answer.status_code, "Only owners can add feeds" in answer.text) == (403, True), path
    whole = await server.bob.http.post("/reader/api/0/subscription/import", content=LIST)
    assert whole.status_code == 403
    assert len(await server.store.read(list_subscriptions, server.people["bob"].id)) == 1
    await server.owner("PATCH", "/settings", json={"readers_add": "yes"})
    await server.bob("POST", "/opml", 202, content=LIST, headers={"Content-Type": "text/plain"})
    await server.owner("POST", "/feeds", 201, json={"url": server.farm.url(3)})


async def test_what_if_shows_a_curve_or_one_budget(server: Any) -> None:
    assert (await server.owner("GET", "/quality/what-if"))["items"] == []  # no beliefs yet
    await server.owner("PATCH", "/settings", json={"strategy": "value"})
    added = await server.owner("POST", "/feeds", 201, json={"url": server.farm.url(0)})
    await server.owner("POST", f"/feeds/{added['feed']['id']}/refresh")
    curve = (await server.owner("GET", "/quality/what-if"))["items"]
    assert len({one["budget"] for one in curve}) == len(curve) > 3
    (one,) = (await server.owner("GET", "/quality/what-if?budget=120"))["items"]
    assert one["budget"] == 120
