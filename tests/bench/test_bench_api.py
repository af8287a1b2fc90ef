"""The API's benchmark runs at its small size and measures what it says."""

from __future__ import annotations

import pytest

from bench import api


def test_the_small_run_compares_the_api_with_sql_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    figures = api.main(small=True)
    for work in ("100 unread", "contents of 250", "search", "mark 1,000", "mark all", "unread counts"):
        assert figures[f"store: {work}"] > 0
    for work in ("100 unread", "contents of 250", "mark 1,000"):
        assert figures[f"served: {work}"] > 0
    feeds, each, _ = api.SMALL
    assert figures["sync: bytes"] > feeds * each * 500  # every item came
    assert figures["load: 100 unread"] > 0
    assert "first sync of 1,000 items" in capsys.readouterr().out
