"""The API gives each person their own items, marks and search."""

from __future__ import annotations

import time
from typing import Any

import pytest

from headwater.store.content.items import count_items


@pytest.fixture
async def read(server: Any) -> Any:
    """Subscribe Ann to two feeds and Bob to one of them."""
    server.ids = []
    for number in range(2):
        added = await server.ann("POST", "/feeds", 201, json={"url": server.farm.url(number), "tags": [f"t{number}"]})
        server.ids.append(added["feed"]["id"])
    await server.bob("POST", "/feeds", 201, json={"url": server.farm.url(0)})
    return server


async def test_streams_are_paged_newest_first_and_complete(read: Any) -> None:
    page = await read.ann("GET", "/items?limit=3")
    found = page["items"]
    while page["next"]:
        page = await read.ann("GET", f"/items?limit=3&cursor={page['next']}")
        found += page["items"]
    ids = [item["id"] for item in found]
    assert len(ids) == len(set(ids)) == await read.store.read(count_items)
    assert [item["published"] for item in found] == sorted((item["published"] for item in found), reverse=True)
    one = await read.ann("GET", f"/items?feed={read.ids[0]}&limit=1000")
    assert {item["feed"] for item in one["items"]} == {read.ids[0]}
    tagged = await read.ann("GET", "/items?tag=t1&limit=1000")
    assert {item["feed"] for item in tagged["items"]} == {read.ids[1]}
    oldest = await read.ann("GET", "/items?oldest_first=true&limit=1")
    assert oldest["items"][0]["published"] == min(item["published"] for item in found)
    none = await read.ann("GET", f"/items?since={time.time() + 1e6}")
    assert none["items"] == []


async def test_marks_and_stars_are_each_persons_own(read: Any) -> None:
    id = (await read.ann("GET", f"/items?feed={read.ids[0]}&limit=1"))["items"][0]["id"]
    marked = await read.ann("PATCH", f"/items/{id}", json={"read": True, "starred": True})
    assert (marked["read"], marked["starred"]) == (True, True)
    his = await read.bob("GET", f"/items/{id}")
    assert (his["read"], his["starred"]) == (False, False)
    assert "content" in his
    assert [item["id"] for item in (await read.ann("GET", "/items?starred=true"))["items"]] == [id]
    assert id not in [item["id"] for item in (await read.ann("GET", "/items?unread=true&limit=1000"))["items"]]
    back = await read.ann("PATCH", f"/items/{id}", json={"starred": False})
    assert (back["read"], back["starred"]) == (True, False)


async def test_counts_fall_when_all_is_read_and_come_back(read: Any) -> None:
    before = await read.ann("GET", "/items/counts")
    assert before["total"] > 0
    assert before["tags"]["t0"]["count"] == before["feeds"][str(read.ids[0])]["count"]
    done = await read.ann("POST", "/items/read-all", json={"feed": read.ids[0]})
    assert done["count"] == before["feeds"][str(read.ids[0])]["count"]
    after = await read.ann("GET", "/items/counts")
    assert str(read.ids[0]) not in after["feeds"]
    assert after["total"] == before["total"] - done["count"]
    await read.bob("POST", "/items/undo", 404, json={"undo": done["undo"]})
    await read.ann("POST", "/items/undo", 204, json={"undo": done["undo"]})
    assert (await read.ann("GET", "/items/counts"))["total"] == before["total"]


async def test_many_are_marked_at_once_and_others_things_are_passed_over(read: Any) -> None:
    hers = [item["id"] for item in (await read.ann("GET", f"/items?feed={read.ids[1]}&limit=5"))["items"]]
    assert (await read.ann("POST", "/items/marks", json={"ids": [*hers, "999999"], "read": True}))["marked"] == len(
        hers
    )
    assert (await read.bob("POST", "/items/marks", json={"ids": hers, "starred": True}))["marked"] == 0
    await read.bob("GET", f"/items/{hers[0]}", 404)
    await read.bob("PATCH", f"/items/{hers[0]}", 404, json={"starred": True})
    assert (await read.bob("GET", f"/items?feed={read.ids[1]}", 404))["message"]
    nothing = await read.ann("POST", "/items/marks", 400, json={"ids": hers})
    assert nothing["field"] == "read"
    await read.ann("POST", "/items/marks", 400, json={"ids": ["1"] * 1001, "read": True})


async def test_search_finds_words_in_what_one_reads(read: Any) -> None:
    item = (await read.ann("GET", f"/items?feed={read.ids[1]}&limit=1"))["items"][0]
    word = max(item["title"].split(), key=len).strip(".,:;?!")
    found = await read.ann("GET", "/search", params={"q": word, "limit": 1000})
    assert item["id"] in [one["id"] for one in found["items"]]
    his = await read.bob("GET", "/search", params={"q": word, "limit": 1000})
    assert item["id"] not in [one["id"] for one in his["items"]]
    first = await read.ann("GET", "/search", params={"q": word, "limit": 1})
    if first["next"]:
        second = await read.ann("GET", "/search", params={"q": word, "limit": 1, "cursor": first["next"]})
        assert second["items"][0]["id"] != first["items"][0]["id"]


async def test_nothing_that_is_searched_for_breaks_anything(read: Any) -> None:
    for said in ('"', "((((", "* OR NEAR(", "'; DROP TABLE item; --", "a" * 1000, "𝕳ö", "-x y"):
        await read.ann("GET", "/search", params={"q": said})


async def test_a_condition_of_the_query_language_is_searched_by(read: Any) -> None:
    item = (await read.ann("GET", f"/items?feed={read.ids[1]}&limit=1"))["items"][0]
    word = max(item["title"].split(), key=len).strip(".,:;?!")
    found = await read.ann("GET", "/search", params={"q": f'TITLE CONTAINS "{word}"'})
    assert found["read_as"].endswith(f'WHERE TITLE CONTAINS "{word}"')
    assert found["kept"] > 0
    his = await read.bob("GET", "/search", params={"q": f'TITLE CONTAINS "{word}" AND SOURCE = "{read.farm.url(1)}"'})
    assert his["items"] == []


async def test_wrong_searches_are_told(read: Any) -> None:
    assert (await read.ann("GET", "/search", 400))["field"] == "q"
    await read.ann("GET", "/search", 400, params={"q": ""})
    await read.ann("GET", "/search", 400, params={"q": "a\0b"})
    await read.ann("GET", "/search", 400, params={"q": "-only -without"})
    await read.ann("GET", "/search", 400, params={"q": "x", "feed": 1, "tag": "a"})
    await read.ann("GET", "/search", 404, params={"q": "x", "query": "None"})
