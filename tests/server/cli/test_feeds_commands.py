"""`headwater feeds` leads from an address or a list to stored items, and explains every failure in a sentence."""

from __future__ import annotations

import asyncio
import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from headwater.cli.commands.opml import ImportStopped, import_feeds
from headwater.cli.views import feeds
from headwater.store.content.feeds import NewFeed, count_feeds
from headwater.store.opening import open_store


def test_a_narrow_screen_shortens_titles_and_addresses_to_one_line_a_feed(headwater, farm_url, monkeypatch) -> None:
    assert headwater("feeds", "add", f"{farm_url}/feeds/1").code == 0
    screen = io.StringIO()
    monkeypatch.setattr(feeds, "out", Console(file=screen, width=60, force_terminal=True, no_color=True))
    headwater("feeds", "list")
    heading, line = screen.getvalue().splitlines()
    assert "address" in heading
    assert line.count("…") == 2
    assert len(line.rstrip()) <= 60


def test_a_feed_is_added_with_its_first_items_and_shown(headwater, farm_url: str) -> None:
    added = headwater("feeds", "add", f"{farm_url}/feeds/0", "--tag", "news", "--json").json
    [one] = added["feeds"]
    assert one["created"]
    assert one["refresh"]["new"] > 0
    [listed] = headwater("feeds", "list", "--json").json
    assert (listed["url"], listed["tags"], listed["state"]) == (f"{farm_url}/feeds/0", ["news"], "ok")
    shown = headwater("feeds", "show", str(listed["id"]), "--json").json
    assert shown["items"] == one["refresh"]["new"]
    assert len(shown["refreshes"]) == 1
    assert listed["title"] in headwater("feeds", "list").out


def test_a_page_is_enough_to_find_its_feed(headwater, farm_url: str) -> None:
    [one] = headwater("feeds", "add", f"{farm_url}/feeds/1.html", "--json").json["feeds"]
    assert one["feed"]["url"].endswith("/feeds/1")


def test_adding_twice_says_so_and_changes_nothing(headwater, farm_url: str) -> None:
    headwater("feeds", "add", f"{farm_url}/feeds/0")
    again = headwater("feeds", "add", f"{farm_url}/feeds/0")
    assert again.code == 0
    assert "already there" in again.out
    assert len(headwater("feeds", "list", "--json").json) == 1


def test_the_interval_and_the_weight_of_a_feed_are_set_and_cleared(headwater, farm_url: str) -> None:
    headwater("feeds", "add", f"{farm_url}/feeds/0")
    told = headwater("feeds", "set", "1", "--interval", "10m", "--weight", "2.5")
    assert told.code == 0
    assert "at least every 10 min, weight 2.5" in told.out
    [listed] = headwater("feeds", "list", "--json").json
    assert (listed["interval"], listed["weight"]) == (600.0, 2.5)
    assert "at least every 10 min" in headwater("feeds", "show", "1").out
    cleared = headwater("feeds", "set", "1", "--interval", "auto", "--json").json
    assert (cleared["interval"], cleared["weight"]) == (None, 2.5)
    assert headwater("feeds", "set", "1", "--weight", "auto", "--json").json["weight"] == 1.0


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (("--interval", "soon"), "“soon” is not a duration: write 10m"),
        (("--interval", "10"), "“10” is not a duration"),
        (("--interval", "30s"), "at most every 2 min"),
        (("--interval", "90d"), "at least every 31 d"),
        (("--weight", "heavy"), "“heavy” is not a number"),
        (("--weight", "nan"), "between 0 and 1000"),
        ((), "--interval DURATION, --weight NUMBER"),
    ],
)
def test_an_impossible_pace_is_refused_with_a_sentence(headwater, farm_url: str, given, sentence: str) -> None:
    added = headwater("feeds", "add", f"{farm_url}/feeds/0")
    assert added.code == 0, added.err
    refused = headwater("feeds", "set", "1", *given)
    assert refused.code != 0
    assert sentence in refused.err
    [listed] = headwater("feeds", "list", "--json").json
    assert (listed["interval"], listed["weight"]) == (None, 1.0)


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("http://nowhere.invalid/feed", "nowhere.invalid"),
        ("ftp://example.org/feed", "http"),
        ("http://127.0.0.1:9/feed", "127.0.0.1"),
        ("not an address", "address"),
    ],
)
def test_an_address_that_cannot_be_used_is_one_sentence_and_nothing_is_added(headwater, address, sentence) -> None:
    answer = headwater("feeds", "add", address)
    assert answer.code == 1
    assert sentence in answer.err
    assert "Traceback" not in answer.err
    assert headwater("feeds", "list", "--json").json == []


def test_private_addresses_are_refused_unless_allowed(headwater, farm_url: str) -> None:
    answer = headwater("feeds", "add", f"{farm_url}/feeds/0", env={"HEADWATER_ALLOW_PRIVATE": "0"})
    assert answer.code == 1
    assert "--allow-private" in answer.err or "private" in answer.err


def test_one_bad_address_does_not_keep_the_others_out(headwater, farm_url: str) -> None:
    answer = headwater("feeds", "add", "http://nowhere.invalid/", f"{farm_url}/feeds/0", "--json")
    assert answer.code == 1
    assert [one["created"] for one in answer.json["feeds"]] == [True]
    assert [one["url"] for one in answer.json["errors"]] == ["http://nowhere.invalid/"]


def test_refresh_never_goes_inside_a_servers_retry_after(headwater, farm_url: str, tmp_path: Path) -> None:
    host = farm_url.replace("127.0.0.1", "127.0.0.10")
    headwater("feeds", "import", "-", input=f"{host}/feeds/9\n")
    assert "429" in headwater("feeds", "refresh", "1").out
    again = headwater("feeds", "refresh", "1")
    assert again.code == 1
    assert "Retry-After" in again.out


def test_a_feed_is_not_blamed_for_what_the_command_may_not_do(headwater, farm_url: str) -> None:
    headwater("feeds", "add", f"{farm_url}/feeds/0")
    refused = headwater("feeds", "refresh", "1", env={"HEADWATER_ALLOW_PRIVATE": "0"})
    assert (refused.code, "--allow-private" in refused.out) == (1, True)
    [listed] = headwater("feeds", "list", "--json").json
    assert (listed["state"], listed["last_error"]) == ("ok", None)


def test_refreshing_everything_reports_what_failed(headwater, farm_url: str) -> None:
    headwater("feeds", "import", "-", input="".join(f"{farm_url}/feeds/{k}\n" for k in (0, 1, 8)))
    results = headwater("feeds", "refresh", "--all", "--json").json
    assert [one["ok"] for one in sorted(results, key=lambda one: one["id"])] == [True, True, False]
    assert [one["state"] for one in headwater("feeds", "list", "--json").json] == ["ok", "ok", "gone"]


def test_refresh_needs_to_know_what(headwater) -> None:
    assert headwater("feeds", "refresh").code == 2


def test_explain_tells_why_and_what_the_server_asked(headwater, farm_url: str) -> None:
    headwater("feeds", "add", f"{farm_url}/feeds/0")
    told = headwater("feeds", "explain", "1")
    assert "Last refreshed" in told.out
    assert headwater("feeds", "explain", "1", "--json").json["last"]["reason"] == "added"


def test_what_went_wrong_is_explained_in_one_sentence(headwater, farm_url: str) -> None:
    headwater("feeds", "import", "-", input="http://nowhere.invalid/feed\n")
    headwater("feeds", "refresh", "1")
    told = headwater("feeds", "explain", "1").out
    assert "nowhere.invalid could not be found (DNS). Check the spelling.\n" in told
    assert "never read yet" in told


def test_a_feed_can_be_removed_by_its_address(headwater, farm_url: str) -> None:
    headwater("feeds", "add", f"{farm_url}/feeds/0")
    assert headwater("feeds", "remove", f"{farm_url}/feeds/0").code == 0
    assert headwater("feeds", "list", "--json").json == []
    assert "There is no feed" in headwater("feeds", "remove", "1").err
    assert "is restored." in headwater("removed", "undo", "1").out
    assert len(headwater("feeds", "list", "--json").json) == 1


def test_lists_go_out_and_come_back(headwater, tmp_path: Path) -> None:
    opml = """<opml version="1.0"><body><outline text="news"><outline text="A" xmlUrl="http://a.example/rss"/></outline>
    <outline text="B" xmlUrl="http://b.example/rss"/><outline text="A" xmlUrl="http://a.example/rss"/>
    <outline text="J" xmlUrl="javascript:alert(1)"/></body></opml>"""
    report = headwater("feeds", "import", "-", "--json", input=opml).json
    assert (report["added"], report["duplicates"]) == (2, ["http://a.example/rss"])
    assert [one["url"] for one in report["refused"]] == ["javascript:alert(1)"]
    assert headwater("feeds", "export", str(tmp_path / "out.opml")).code == 0
    again = headwater(
        "feeds", "import", str(tmp_path / "out.opml"), "--json", env={"HEADWATER_DATA": str(tmp_path / "b")}
    )
    assert again.json["added"] == 2
    tags = [
        one["tags"] for one in headwater("feeds", "list", "--json", env={"HEADWATER_DATA": str(tmp_path / "b")}).json
    ]
    assert sorted(tags) == [[], ["news"]]
    told = headwater("feeds", "export", str(tmp_path / "too.opml"), "--json").json
    assert sorted(one["url"] for one in told) == ["http://a.example/rss", "http://b.example/rss"]
    assert (tmp_path / "too.opml").read_bytes() == (tmp_path / "out.opml").read_bytes()


def test_one_feed_written_in_two_ways_is_a_duplicate_of_the_list(headwater) -> None:
    text = "https://a.example/rss\nhttps://a.example:443/rss\nhttps://b.example/rss\n"
    report = headwater("feeds", "import", "-", "--json", input=text).json
    assert (report["added"], report["duplicates"]) == (2, ["https://a.example:443/rss"])
    assert report["already_there"] == []
    again = headwater("feeds", "import", "-", input=text)
    assert "0 feeds added, 3 were there already." in again.out


def test_several_lists_come_in_together_or_not_at_all(headwater, tmp_path: Path) -> None:
    one, two, bad = tmp_path / "one.opml", tmp_path / "two.txt", tmp_path / "bad.opml"
    one.write_text('<opml><body><outline text="news"><outline xmlUrl="http://a.example/rss"/></outline></body></opml>')
    two.write_text("http://b.example/rss\nhttp://a.example/rss\n")
    bad.write_text("<html>")
    refused = headwater("feeds", "import", str(one), str(bad))
    assert (refused.code, str(bad) in refused.err) == (1, True)
    assert headwater("feeds", "list", "--json").json == []
    report = headwater("feeds", "import", str(one), str(two), "--json").json
    assert (report["added"], report["duplicates"]) == (2, ["http://a.example/rss"])
    assert [one["tags"] for one in headwater("feeds", "list", "--json").json] == [["news"], []]


def test_recovered_items_are_reported_with_the_name_of_their_file(headwater, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.opml"
    damaged.write_text('<opml><body><outline xmlUrl="http://a.example/?x=1&y=2"/><outline text="c" xm')
    said = headwater("feeds", "import", str(damaged))
    assert "1 feed added" in said.out
    assert f"1 note:  {damaged}: the XML is not well formed and was recovered" in said.out.replace("\n", "")
    report = headwater("feeds", "import", "-", "--json", input=damaged.read_text()).json
    assert report["problems"] == ["standard input: the XML is not well formed and was recovered"]


async def test_an_import_that_is_stopped_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    many = [NewFeed(f"https://a.example/{k}") for k in range(2_500)]
    async with await open_store(f"sqlite:///{tmp_path}/db") as store:
        loop = asyncio.get_running_loop()

        def interrupted(done: int) -> None:  # runs in the writing thread while the event loop receives Ctrl-C
            loop.call_soon_threadsafe(importing.cancel)
            time.sleep(0.2)

        importing = asyncio.create_task(import_feeds(store, many, interrupted))
        with pytest.raises(ImportStopped):
            await importing
        assert await store.read(count_feeds) == 0
        told: list[int] = []
        assert len(await import_feeds(store, many, told.append)) == 2_500
        assert told[-1] == 2_500


def test_long_reports_of_an_import_are_cut(headwater) -> None:
    lines = "".join(f"ftp://a.example/{k}\n" for k in range(14))
    said = headwater("feeds", "import", "-", input=f"http://a.example/f\n{lines}").out
    assert "14 were refused:" in said
    assert "… and 4 more (--json shows all)" in said
    assert "1 was refused:" in headwater("feeds", "import", "-", input="http://a.example/f\nftp://a.example/\n").out


def test_an_empty_list_names_the_folder_it_looked_in(headwater, tmp_path: Path) -> None:
    assert f"No feeds yet in {tmp_path / 'data'}." in headwater("feeds", "list").out.replace("\n", "")


def test_a_list_without_hits_does_not_say_that_there_are_no_feeds(headwater) -> None:
    headwater("feeds", "import", "-", input="http://a.example/f\n")
    for asked in (("--tag", "none"), ("--search", "nothing")):
        assert headwater("feeds", "list", *asked).out.startswith("No feed matches")


@pytest.mark.parametrize("text", ["", "<html><body>hello</body></html>", "\x00\x01", "<opml><body><outline"])
def test_a_broken_list_is_one_sentence_and_adds_nothing(headwater, text: str) -> None:
    answer = headwater("feeds", "import", "-", input=text)
    assert answer.code == 1
    assert answer.err.startswith("error: ")
    assert headwater("feeds", "list", "--json").json == []


def test_a_file_that_is_not_a_database_is_refused(headwater, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"this is no database, but long enough to be taken for one" * 50)
    answer = headwater("feeds", "list", "--database", f"sqlite:///{tmp_path / 'bad'}")
    assert answer.code == 1
    assert "database" in answer.err
