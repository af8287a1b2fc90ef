"""`headwater query check, fmt, eval` work as a user runs them at a terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import SimpleNamespace

import pytest

from headwater.cli.main import main
from support import ROOT

EXAMPLES = ROOT / "tests" / "pure" / "query" / "worked.hw"
WANTED = {
    "IcelandVolcanoEruption": [8, 6, 4, 3, 1],
    "IceVolEruFeed": [8, 6, 3, 1],
    "AllScience": [10, 9, 6, 5, 7],
    "VolcanoFr": [5],
    "NotAnn": [8],
    "Overlap": [9, 8, 6, 1],
    "Fresh": [10, 9, 5],
    "Layered": [10, 9, 8, 5],
    "Security": [10],
    "OneEach": [8, 1],
    "NearDup": [1],
    "OnlyNew": [7],
    "Echo": [9],
    "Silent": [],
    "NearBy": [8, 1, 9],
}


Run = Callable[..., SimpleNamespace]


@pytest.fixture
def headwater(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run a command in this process on a separate data folder; return its output and exit status."""
    monkeypatch.setenv("HEADWATER_DATA", str(tmp_path / "data"))

    def run(*args: str, stdin: str = "") -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", ["headwater", "query", *args])
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(stdin.encode())))
        code: object = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        said = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=said.out, stderr=said.err)

    return run


def in_a_process(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8", "COLUMNS": "80"}
    return subprocess.run(
        [sys.executable, "-m", "headwater", "query", *args],
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
        env=environment,
    )


def test_eval_answers_the_worked_examples(shared_data: Path) -> None:
    ran = in_a_process("eval", str(EXAMPLES), "--items", str(shared_data / "volcano-items.jsonl"), "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    found = json.loads(ran.stdout)
    assert {name: result["items"] for name, result in found.items()} == WANTED
    assert found["OnlyNew"] == {"items": [7], "annotations": {"7": []}, "titles": {}}
    assert found["Echo"]["annotations"] == {"9": [1, 8]}
    assert found["Echo"]["titles"] == {"9": "[blog] Worth reading: Iceland volcano erupts again"}
    assert all(not result["annotations"] for name, result in found.items() if name not in ("OnlyNew", "Echo"))


def test_eval_shows_a_table_to_people(headwater: Run, tmp_path: Path) -> None:
    items = tmp_path / "items.jsonl"
    items.write_text('{"id": "x1", "feed": "news", "title": "[bold]Ash[/bold]", "published": "2024-03-01T08:00Z"}\n')
    ran = headwater("eval", "-", "--items", str(items), stdin="CREATE FEED a AS RETURN news")
    assert ran.returncode == 0
    assert "a  1 item" in ran.stdout
    assert "[bold]Ash[/bold]" in ran.stdout
    assert "2024-03-01 08:00" in ran.stdout


def test_a_malformed_script_prints_its_messages_on_standard_error_and_exits_with_2(
    headwater: Run, tmp_path: Path
) -> None:
    items = tmp_path / "items.jsonl"
    items.write_text('{"id": 1, "feed": "guardian"}\n')
    ran = headwater("eval", "-", "--items", str(items), "--json", stdin="CREATE FEED a AS RETURN gardian;\nDROP FED b")
    assert ran.returncode == 2
    assert ran.stderr.split("\n") == [
        "1:25: unknown feed gardian",
        "  CREATE FEED a AS RETURN gardian;",
        "                          ^",
        "  hint: did you mean guardian?",
        "2:6: expected FEED, found “FED”",
        "  DROP FED b",
        "       ^",
        "  hint: did you mean FEED?",
        "",
    ]
    assert ran.stdout == ""


def test_check_says_what_is_well_and_warns(headwater: Run, tmp_path: Path) -> None:
    script = tmp_path / "a.hw"
    script.write_text("CREATE FEED a AS RETURN ALL WHERE HAS LINK AND NOT HAS LINK")
    ran = headwater("check", str(script))
    assert ran.returncode == 0
    assert ran.stdout == "1 statement, no mistakes. Query feeds: a.\n"
    assert "1:35: warning: no item can meet this condition" in ran.stderr


def test_check_tells_mistakes_and_exits_with_2(headwater: Run) -> None:
    ran = headwater("check", "-", stdin="CREAT FEED a AS RETURN guardian;")
    assert ran.returncode == 2
    assert ran.stderr.startswith("1:1: expected CREATE FEED, DROP FEED or REGISTER FEED, found “CREAT”\n")


def test_check_in_json(headwater: Run) -> None:
    assert json.loads(headwater("check", "-", "--json", stdin="DROP FEED a").stdout)["ok"] is True
    broken = json.loads(headwater("check", "-", "--json", stdin="DROP FED a").stdout)
    assert broken["ok"] is False
    assert [(message["line"], message["column"]) for message in broken["messages"]] == [(1, 6)]


def test_fmt_prints_the_one_form_and_can_write_it(headwater: Run, tmp_path: Path) -> None:
    script = tmp_path / "a.hw"
    script.write_text("create feed a as from all where has link")
    assert headwater("fmt", str(script)).stdout == "CREATE FEED a AS RETURN ALL WHERE HAS LINK;\n"
    assert headwater("fmt", str(script), "--write").returncode == 0
    assert script.read_text() == "CREATE FEED a AS RETURN ALL WHERE HAS LINK;\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("not json\n", "line 1: JSON is malformed"),
        ('{"id": 1}\n', "line 1: Object missing required field `feed`"),
        ('{"id": 1, "feed": "a"}\n\n{"id": 2, "feed": 7}\n', "line 3: Expected `str`"),
        ("[" * 100_000 + "\n", "line 1:"),
    ],
)
def test_a_table_that_cannot_be_read_is_named_with_its_line(
    headwater: Run, tmp_path: Path, text: str, told: str
) -> None:
    items = tmp_path / "items.jsonl"
    items.write_text(text)
    ran = headwater("eval", "-", "--items", str(items), stdin="")
    assert ran.returncode == 1
    assert told in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_file_that_is_not_there_or_no_text_is_one_sentence(headwater: Run, tmp_path: Path) -> None:
    ran = headwater("check", str(tmp_path / "absent.hw"))
    assert (ran.returncode, "cannot be read: No such file or directory." in ran.stderr) == (1, True)
    binary = tmp_path / "binary.hw"
    binary.write_bytes(b"\xff\xfe\x00")
    ran = headwater("check", str(binary))
    assert (ran.returncode, "is not valid UTF-8" in ran.stderr) == (2, True)
    assert "is a folder" in headwater("check", str(tmp_path)).stderr


def test_items_without_a_believable_date_are_dated_by_their_arrival(headwater: Run, tmp_path: Path) -> None:
    items = tmp_path / "items.jsonl"
    rows = [
        {
            "id": 1,
            "feed": "a",
            "title": "future",
            "published": "2030-01-01",
            "arrived": "2024-03-01T08:00Z",
            "link": "1",
        },
        {"id": 2, "feed": "a", "title": "no date", "published": "soon", "arrived": "2024-03-01T09:00Z", "link": "2"},
        {
            "id": 3,
            "feed": "a",
            "title": "dated",
            "published": "2024-03-01T08:30Z",
            "arrived": "2024-03-01T10:00Z",
            "link": "3",
        },
    ]
    items.write_text("\n".join(map(json.dumps, rows)))
    ran = headwater(
        "eval",
        "-",
        "--items",
        str(items),
        "--json",
        stdin="CREATE FEED q AS RETURN a; CREATE FEED d AS RETURN a WHERE HAS PUBLISHED",
    )
    found = json.loads(ran.stdout)
    assert found["q"]["items"] == [2, 3, 1]
    assert found["d"]["items"] == [3]


def test_an_update_in_the_table_keeps_the_id_of_the_first_version(headwater: Run, tmp_path: Path) -> None:
    items = tmp_path / "items.jsonl"
    rows = [
        {"id": 1, "feed": "a", "title": "ash", "link": "http://x/1", "arrived": "2024-03-01T08:00Z"},
        {"id": 2, "feed": "a", "title": "ash cloud", "link": "http://x/1", "arrived": "2024-03-01T09:00Z"},
    ]
    items.write_text("\n".join(map(json.dumps, rows)))
    ran = headwater("eval", "-", "--items", str(items), stdin='CREATE FEED q AS RETURN a WHERE TITLE CONTAINS "ash"')
    assert "q  1 item" in ran.stdout
    assert "ash cloud" in ran.stdout


def test_a_line_that_repeats_an_id_is_a_version_of_that_item(headwater: Run, tmp_path: Path) -> None:
    items = tmp_path / "items.jsonl"
    rows = [
        {"id": 1, "feed": "a", "title": "ash", "categories": ["x"]},
        {"id": 1, "feed": "a", "title": "ash cloud", "categories": ["x"]},
        {"id": 1, "feed": "a", "title": "ash cloud", "categories": ["y"]},
    ]
    items.write_text("\n".join(map(json.dumps, rows)))
    script = "CREATE FEED q AS RETURN a; CREATE FEED y AS RETURN a WHERE CATEGORY = 'y'"
    found = json.loads(headwater("eval", "-", "--items", str(items), "--json", stdin=script).stdout)
    assert (found["q"]["items"], found["y"]["items"]) == ([1], [1])


def test_a_long_hint_is_not_broken_into_lines(headwater: Run) -> None:
    text = "CREATE FEED a AS RETURN guardian AS $g WHERE $g[HAS LINK] OR HAS TITLE"
    told = headwater("check", "-", stdin=text).stderr
    assert told.endswith("(each one restricts only its own source); put the OR inside the brackets\n")


@pytest.mark.parametrize("odd", [{"published": -1e300}, {"arrived": 1e300}, {"title": "\ud800"}, {"link": "http://["}])
def test_odd_values_in_a_table_are_shown_or_named(headwater: Run, tmp_path: Path, odd: dict[str, object]) -> None:
    items = tmp_path / "items.jsonl"
    items.write_text(json.dumps({"id": 1, "feed": "a", **odd}))
    for form in ([], ["--json"]):
        ran = headwater(
            "eval", "-", "--items", str(items), *form, stdin="CREATE FEED q AS RETURN a SET TITLE = '{published}'"
        )
        assert "1" in ran.stdout or "line 1" in ran.stderr


def test_stories_prints_a_line_for_each_item(headwater: Run) -> None:
    lines = [
        {"id": "x", "source": "Reuters", "published_at": 3600, "title": "Volcano erupts near Reykjavik airport"},
        {
            "id": 7,
            "source": "BBC",
            "published_at": "1970-01-01T00:30Z",
            "title": "Reykjavik volcano erupts, airport shut",
        },
    ]
    ran = headwater("stories", "-", stdin="\n".join(map(json.dumps, lines)))
    first, second = map(json.loads, ran.stdout.splitlines())
    assert first == {"item": 7, "story": 7, "joined": None, "score": None}
    assert second == {"item": "x", "story": 7, "joined": 7, "score": second["score"]}
    assert 0.35 < second["score"] < 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": 1, "title": "a"}', "-, line 1: Object missing required field `source`"),
        ('{"id": 1, "source": "a", "published_at": "soon"}', "-, line 1: “soon” is not a date"),
        ("no JSON", "-, line 1: JSON is malformed"),
    ],
)
def test_stories_names_the_line_that_is_wrong(headwater: Run, line: str, message: str) -> None:
    ran = headwater("stories", "-", stdin=line)
    assert ran.returncode == 1
    assert message in ran.stderr


def test_stories_takes_a_trace_and_names_its_rows(headwater: Run, tmp_path: Path) -> None:
    trace = tmp_path / "day.csv"
    trace.write_text("source,published_at,title\na,1,Volcano erupts near airport\nb,2,Airport: volcano erupts\n")
    assert [json.loads(line)["story"] for line in headwater("stories", str(trace)).stdout.splitlines()] == ["day:0"] * 2
    trace.write_text("source,published_at\na,1\n")
    assert "has no column “title”" in headwater("stories", str(trace)).stderr


@pytest.mark.soak
@pytest.mark.timeout(3600)  # a minute of CPU: on a busy machine the usual five minutes are not enough
def test_stories_group_the_labelled_items_well(headwater: Run, shared_data: Path, tmp_path: Path) -> None:
    """Compares the figures in docs/queries.md with a run of the program on the labels."""
    grouped = tmp_path / "grouped.jsonl"
    grouped.write_text(headwater("stories", str(shared_data / "traces" / "news.parquet")).stdout)
    folder = shared_data / "stories"
    command = [sys.executable, folder / "evaluate.py", folder / "stories-open-keys.jsonl", grouped]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    figures = {line[:48].strip(): [float(word) for word in line[48:].split()] for line in said.splitlines()}
    assert figures["pairs"][2] >= 0.90
    assert figures["pairs weighted"][2] >= 0.80
    assert figures["B-cubed"][2] >= 0.84
    assert figures["largest, share in groups > 50, share grouped"][0] <= 350


@pytest.mark.parametrize("text", ["", " \n", ";", "-- only a comment\n"])
@pytest.mark.parametrize("name", ["check", "fmt", "create"])
def test_a_script_without_statements_is_a_mistake(headwater: Run, name: str, text: str) -> None:
    ran = headwater(name, "-", stdin=text)
    assert ran.returncode == 2
    assert "contains no statement" in ran.stderr
