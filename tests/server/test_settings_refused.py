"""Settings that cannot work are refused in a sentence before anything starts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import SettingsError
from headwater.settings import load_settings


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"budget": 0}, "The budget is 0 requests per minute, which allows no refresh: give a number above 0."),
        ({"budget": -3}, "The budget is -3 requests"),
        ({"budget": float("nan")}, "give a number above 0"),
        ({"budget_bytes": 0}, "0 bytes, which allows no refresh"),
        ({"host_budget": 0}, "The host budget is 0"),
        ({"objective": "speed"}, "Invalid objective “speed”"),
        ({"target_completeness": 1.5}, "A completeness of 1.5 cannot be a target"),
        ({"target_freshness": 0}, "A freshness of 0 cannot be a target"),
        ({"target_delay": -1}, "cannot be a target"),
        ({"target_delay": 30}, "contradicts least_interval"),
        ({"target_delay": 900, "target_completeness": 2}, "A completeness of 2"),
        ({"budget": "many"}, "The setting budget cannot be used"),
    ],
)
def test_settings_that_cannot_work_are_reported_in_a_sentence(given: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings(**given)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("toml", "environment", "says"),
    [
        (b"budget = = 3", {}, "headwater.toml is not valid TOML"),
        (b"contact = '\xff'", {}, "headwater.toml is not valid TOML"),
        (b"buget = 3", {}, "There is no setting buget; did you mean budget?"),
        (b"", {"HEADWATER_NAMES": "feeds.example.org"}, "names"),
        (b"", {"HEADWATER_ALLOW_PRIVATE": "perhaps"}, "The setting allow_private cannot be used"),
        (b"", {"HEADWATER_BUDGET": "0"}, "The budget is 0 requests"),
    ],
)
def test_a_file_or_an_environment_that_cannot_be_read_is_reported(
    toml: bytes, environment: dict[str, str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "headwater.toml").write_bytes(toml)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=re.escape(says)):
        load_settings(data=str(tmp_path))


def test_target_mode_is_bounded_by_the_budget_only_where_somebody_gave_one() -> None:
    assert load_settings().max_budget == 60
    assert load_settings(target_delay=900).max_budget is None
    assert load_settings(target_delay=900, budget=20).max_budget == 20
