"""`headwater export` and `headwater deliveries` work as a user runs them."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_what_was_exported_is_described_by_the_lab(headwater, farm_url: str, tmp_path: Path) -> None:
    for number in range(3):
        headwater("feeds", "add", f"{farm_url}/feeds/{number}")
    out = tmp_path / "items.parquet"
    exported = headwater("export", "--items", "--format", "parquet", str(out), "--json").json
    assert exported["new"] == exported["rows"] > 0
    assert headwater("export", str(out), "--json").json["new"] == 0
    described = headwater("lab", "describe", "--trace", str(out), "--json")
    assert described.code == 0, described.err
    assert headwater("export", str(tmp_path / "items.csv")).code == 0  # in the order of arrival, articles and all
    again = headwater("lab", "describe", "--trace", str(tmp_path / "items.csv"), "--json")
    assert again.json["items"] == described.json["items"] == exported["rows"]
    assert again.json["duplicates"] == described.json["duplicates"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--items", "--refreshes", "x.csv"], "one of"),
        (["--since", "soon", "x.csv"], "is not a date"),
        (["--format", "xls", "x"], "Unknown format"),
        (["x.xls"], "“.xls” is not a known format. Use .parquet"),
        (["--query", "none", "x.csv"], "none"),
        (["--feed", "99", "x.csv"], "no feed 99"),
        (["/nowhere/at/all/x.csv"], "cannot be written"),
    ],
)
def test_bad_exports_are_refused_with_a_sentence(headwater, arguments: list[str], word: str) -> None:
    answer = headwater("export", *arguments)
    assert answer.code != 0
    assert word in answer.err


def test_deliveries_are_listed_and_bad_wishes_refused(headwater) -> None:
    assert headwater("deliveries", "list", "--json").json == {
        "counts": {"due": 0, "failed": 0, "sent": 0, "dead": 0},
        "deliveries": [],
    }
    assert len(headwater("deliveries", "secret", "--json").json["secret"]) == 64
    for arguments in (["list", "--state", "lost"], ["resend"], ["resend", "5"]):
        answer = headwater("deliveries", *arguments)
        assert answer.code != 0
        assert answer.err
