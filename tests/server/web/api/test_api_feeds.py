"""The API adds, pages, changes, merges, refreshes and explains feeds and subscriptions."""

from __future__ import annotations

import asyncio
from typing import Any


async def add(server: Any, client: Any, number: int, **more: Any) -> int:
    added = await client("POST", "/feeds", 201, json={"url": server.farm.url(number), **more})
    return int(added["feed"]["id"])


async def test_a_feed_is_added_with_its_first_items_and_listed(server: Any) -> None:
    added = await server.owner("POST", "/feeds", 201, json={"url": server.farm.url(0), "tags": ["news"]})
    assert added["created"] is True
    assert added["feed"]["items"] > 0
    again = await server.owner("POST", "/feeds", 201, json={"url": server.farm.url(0)})
    assert again["created"] is False
    listed = await server.owner("GET", "/feeds")
    assert [feed["id"] for feed in listed["items"]] == [added["feed"]["id"]]
    assert listed["next"] is None
    assert listed["items"][0]["tags"] == ["news"]


async def test_lists_are_paged_without_a_gap_and_filtered(server: Any) -> None:
    ids = [await add(server, server.owner, number, tags=["even" if number % 2 == 0 else "odd"]) for number in range(5)]
    found: list[int] = []
    query = "/feeds?limit=2"
    for _ in range(3):
        page = await server.owner("GET", query)
        assert len(page["items"]) <= 2
        found += [feed["id"] for feed in page["items"]]
        query = f"/feeds?limit=2&cursor={page['next']}"
    assert found == ids
    assert page["next"] is None
    odd = await server.owner("GET", "/feeds?tag=odd")
    assert [feed["id"] for feed in odd["items"]] == ids[1::2]
    title = odd["items"][0]["title"]
    searched = await server.owner("GET", "/feeds", params={"search": title})
    assert ids[1] in [feed["id"] for feed in searched["items"]]


async def test_an_owner_changes_what_a_feed_is_for_everybody(server: Any) -> None:
    id = await add(server, server.owner, 0)
    changes = {"title": "Mine", "weight": 2.5, "paused": True, "tags": ["a", "b", "a"], "name": "quakes"}
    changes |= {"interval": 600}
    changed = await server.owner("PATCH", f"/feeds/{id}", json=changes)
    assert changed["title"] == "Mine"
    assert (changed["weight"], changed["interval"]) == (2.5, 600.0)
    hasty = await server.owner("PATCH", f"/feeds/{id}", 400, json={"interval": 0.5})
    assert hasty["field"] == "interval"
    cleared = await server.owner("PATCH", f"/feeds/{id}", json={"interval": None})
    assert cleared["interval"] is None
    assert changed["paused"] is True
    assert sorted(changed["tags"]) == ["a", "b"]
    assert [feed["id"] for feed in (await server.owner("GET", "/feeds?state=paused"))["items"]] == [id]
    own = await server.owner("PATCH", f"/feeds/{id}", json={"title": None, "paused": False})
    assert own["title"] != "Mine"
    assert own["weight"] == 2.5
    moved = await server.owner("PATCH", f"/feeds/{id}", json={"url": server.farm.url(5)})
    assert moved["url"] == server.farm.url(5)
    assert (await server.owner("PATCH", f"/feeds/{id}", json={}))["url"] == server.farm.url(5)
    removed = await server.owner("DELETE", f"/feeds/{id}")
    await server.owner("GET", f"/feeds/{id}", 404)
    await server.ann("POST", "/removals/undo", 404, json=removed)
    assert (await server.owner("POST", "/removals/undo", json=removed))["kind"] == "feed"
    assert (await server.owner("GET", f"/feeds/{id}"))["weight"] == 2.5


async def test_a_refresh_is_made_at_once_and_stands_in_the_log(server: Any) -> None:
    id = await add(server, server.owner, 1)
    done = await server.owner("POST", f"/feeds/{id}/refresh")
    assert done["ending"] in ("changed", "unchanged")
    page = await server.owner("GET", f"/feeds/{id}/refreshes?limit=1")
    assert len(page["items"]) == 1
    older = await server.owner("GET", f"/feeds/{id}/refreshes?limit=1&cursor={page['next']}")
    assert older["items"][0]["at"] < page["items"][0]["at"]


async def test_a_feed_explains_itself(server: Any) -> None:
    id = await add(server, server.owner, 2)
    told = await server.owner("GET", f"/feeds/{id}/explanation")
    assert told["sentences"]
    assert told["strategy"] == "uniform"
    pattern = await server.owner("GET", f"/feeds/{id}/pattern")
    assert len(pattern["counted"]) == 168
    assert sum(pattern["counted"]) > 0


async def test_two_feeds_become_one(server: Any) -> None:
    first, second = await add(server, server.owner, 3), await add(server, server.owner, 4)
    merged = await server.owner("POST", f"/feeds/{first}/merge", json={"other": second})
    assert merged["moved"] > 0
    await server.owner("GET", f"/feeds/{second}", 404)
    wrong = await server.owner("POST", f"/feeds/{first}/merge", 400, json={"other": first})
    assert "itself" in wrong["message"]
    assert (await server.owner("GET", f"/feeds/{first}/alike"))["items"] == []


async def test_who_reads_a_feed_that_is_merged_reads_the_other(server: Any) -> None:
    first, second = await add(server, server.owner, 3), await add(server, server.ann, 4, tags=["hers"])
    item = (await server.ann("GET", f"/items?feed={second}&limit=1"))["items"][0]["id"]
    await server.ann("PATCH", f"/items/{item}", json={"starred": True})
    await server.owner("POST", f"/feeds/{first}/merge", json={"other": second})
    assert (await server.ann("GET", f"/subscriptions/feeds/{first}"))["tags"] == ["hers"]
    assert [one["id"] for one in (await server.ann("GET", "/items?starred=true"))["items"]] == [item]


async def test_failing_feeds_are_counted_by_cause(server: Any) -> None:
    id = await add(server, server.owner, 0)
    await server.owner("PATCH", f"/feeds/{id}", json={"url": server.farm.base_url() + "/nothing"})
    assert (await server.owner("POST", f"/feeds/{id}/refresh"))["ending"] == "missing"
    (told,) = (await server.owner("GET", "/feeds/troubles"))["items"]
    assert (told["ending"], told["feeds"], told["some"][0]["id"]) == ("missing", 1, id)
    assert "404" in told["cause"]
    assert (await server.owner("GET", "/feeds?state=failing"))["items"][0]["last_error"]


async def test_what_an_address_offers_is_reported_without_adding(server: Any) -> None:
    found = await server.owner("POST", "/feeds/discover", json={"url": server.farm.url(0)})
    assert [one["url"] for one in found["items"]] == [server.farm.url(0)]
    assert (await server.owner("GET", "/feeds"))["items"] == []


async def test_a_reader_sees_and_changes_only_their_own(server: Any) -> None:
    hers = await add(server, server.ann, 0, tags=["news"])
    his = await add(server, server.bob, 1)
    assert [feed["id"] for feed in (await server.ann("GET", "/feeds"))["items"]] == [hers]
    assert [feed["id"] for feed in (await server.owner("GET", "/feeds"))["items"]] == [hers, his]
    for path in ("", "/explanation", "/refreshes", "/pattern"):
        await server.ann("GET", f"/feeds/{his}{path}", 404)
    await server.ann("POST", f"/feeds/{his}/refresh", 404)
    for method, path, body in (
        ("PATCH", f"/feeds/{hers}", {"weight": 100}),
        ("DELETE", f"/feeds/{hers}", None),
        ("POST", f"/feeds/{hers}/merge", {"other": his}),
    ):
        refused = await server.ann(method, path, 403, json=body)
        assert "owner" in refused["message"]
    await server.ann("POST", "/feeds", 403, json={"url": server.farm.url(2), "weight": 1000})


async def test_subscriptions_have_titles_and_tags_of_their_own(server: Any) -> None:
    id = await add(server, server.ann, 0, tags=["news"])
    await add(server, server.bob, 0)
    changed = await server.ann(
        "PATCH", f"/subscriptions/feeds/{id}", json={"title": "Hers", "tags": ["science", "news"]}
    )
    assert changed["title"] == "Hers"
    assert sorted(changed["tags"]) == ["news", "science"]
    his = await server.bob("GET", f"/subscriptions/feeds/{id}")
    assert his["title"] != "Hers"
    assert his["tags"] == []
    assert [tag["name"] for tag in (await server.ann("GET", "/tags"))["items"]] == ["news", "science"]
    await server.ann("PATCH", "/tags/science", 204, json={"name": "sky"})
    removed = await server.ann("DELETE", "/tags/news")
    assert [tag["name"] for tag in (await server.ann("GET", "/tags"))["items"]] == ["sky"]
    assert await server.ann("POST", "/removals/undo", json=removed) == {"kind": "tag", "label": "news"}
    assert [tag["name"] for tag in (await server.ann("GET", "/tags"))["items"]] == ["news", "sky"]
    await server.bob("DELETE", "/tags/sky", 404)
    removed = await server.ann("DELETE", f"/subscriptions/feeds/{id}")
    await server.ann("GET", f"/subscriptions/feeds/{id}", 404)
    await server.ann("DELETE", f"/subscriptions/feeds/{id}", 404)
    for other in (server.bob, server.owner):
        await other("POST", "/removals/undo", 404, json=removed)
        assert (await other("GET", "/removals"))["items"] == []
    [kept] = (await server.ann("GET", "/removals"))["items"]
    assert (kept["undo"], kept["kind"], kept["label"]) == (removed["undo"], "subscription", "Hers")
    assert kept["until"] - kept["at"] == 86_400
    await server.ann("POST", "/removals/undo", json=removed)
    assert (await server.ann("GET", f"/subscriptions/feeds/{id}"))["title"] == "Hers"
    again = await server.ann("POST", "/removals/undo", 404, json=removed)
    assert "kept for a day" in again["message"]
    assert (await server.bob("GET", f"/subscriptions/feeds/{id}"))["feed"] == id


async def test_only_what_several_read_is_joined_by_its_number(server: Any) -> None:
    id = await add(server, server.bob, 0)
    await server.ann("PUT", f"/subscriptions/feeds/{id}", 404, json={})
    await add(server, server.owner, 0)
    assert [one["feed"]["id"] for one in (await server.ann("GET", "/discover"))["popular"]] == [id]
    joined = await server.ann("PUT", f"/subscriptions/feeds/{id}", json={"tags": ["found"]})
    assert joined["tags"] == ["found"]
    await server.ann("PUT", "/subscriptions/feeds/99", 404, json={})
    await server.owner("PUT", "/subscriptions/feeds/99", 404, json={})


async def test_what_a_list_has_in_two_spellings_stood_there_twice(server: Any) -> None:
    lines = "https://a.example/rss\nhttps://a.example:443/rss\n"
    for expected in ({"added": 1, "already_there": 0, "duplicates": 1}, {"added": 0, "already_there": 2}):
        job = await server.owner("POST", "/opml", 202, content=lines, headers={"Content-Type": "text/x-opml"})
        while job["running"]:
            await asyncio.sleep(0.02)
            job = await server.owner("GET", f"/jobs/{job['id']}")
        assert {name: job["imported"][name] for name in expected} == expected


async def test_lists_go_in_and_out_as_opml(server: Any) -> None:
    lines = "\n".join(server.farm.url(number) for number in range(4))
    job = await server.ann("POST", "/opml?tag=moved", 202, content=lines, headers={"Content-Type": "text/x-opml"})
    while job["running"]:
        await asyncio.sleep(0.02)
        job = await server.ann("GET", f"/jobs/{job['id']}")
    assert job["problem"] is None
    assert job["imported"]["added"] == 4
    assert job["imported"]["refused"] == job["imported"]["already_there"] == 0
    assert (job["done"], job["total"]) == (4, 4)
    listed = await server.ann("GET", "/subscriptions?tag=moved&limit=3")
    assert len(listed["items"]) == 3
    rest = await server.ann("GET", f"/subscriptions?tag=moved&limit=3&cursor={listed['next']}")
    assert len(rest["items"]) == 1
    exported = await server.ann("GET", "/opml")
    assert all(server.farm.url(number).encode() in exported for number in range(4))
    assert server.farm.url(0).encode() not in await server.bob("GET", "/opml")
    await server.ann("POST", "/opml", 400, content=b"<html>", headers={"Content-Type": "text/x-opml"})


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "url"),
    ({"url": 7}, "url"),
    ({"url": ""}, "url"),
    ({"url": "a\0b"}, "url"),
    ({"url": "x" * 5000}, "url"),
    ({"url": "https://a.example/", "tags": "news"}, "tags"),
    ({"url": "https://a.example/", "tags": [""]}, "tags"),
    ({"url": "https://a.example/", "tags": ["t"] * 21}, "tags"),
    ({"url": "https://a.example/", "weight": -1}, "weight"),
    ({"url": "https://a.example/", "colour": "red"}, "colour"),
]


async def test_wrong_input_is_told_at_its_field(server: Any) -> None:
    for body, field in WRONG:
        refused = await server.owner("POST", "/feeds", 400, json=body)
        assert refused["field"] == field
    for url in ("javascript:alert(1)", "file:///etc/passwd", "http://[::1", "ftp://a/", "http://a b/"):
        await server.owner("POST", "/feeds", 400, json={"url": url})
    for query in ("limit=0", "limit=1001", "limit=x", "limit=1e3", "cursor=!", "cursor=YQ==", "colour=red", "state=x"):
        refused = await server.owner("GET", f"/feeds?{query}", 400)
        assert refused["field"] == query.partition("=")[0]


async def test_numbers_that_no_feed_has_are_not_found(server: Any) -> None:
    for id in ("99", "9007199254740991"):
        await server.owner("GET", f"/feeds/{id}", 404)
        await server.owner("PATCH", f"/feeds/{id}", 404, json={"weight": 1})
        await server.owner("DELETE", f"/feeds/{id}", 404)
        await server.owner("POST", f"/feeds/{id}/refresh", 404)
    for id in ("0", "-1", "x", "1.5", "99999999999999999999", "1%00"):
        await server.owner("GET", f"/feeds/{id}", 400)
